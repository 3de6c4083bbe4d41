r"""Names, units and texts of a model that would steer a terminal are shown by every command."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import mdf_loop

STEERING = "\x1b]0;owned\a\x9b2J\u202e"
SHOWN = r"\x1b]0;owned\x07\x9b2J\u202e"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A counting loop whose node, graph and units are called so."""
    node = {
        "metadata": {"units": {"v": f"m{STEERING}V"}},
        "input_ports": {"a": {"default_value": 1.5}},
        "parameters": {"v": {"default_initial_value": 0.0, "value": "v + a"}},
        "output_ports": {"out": {"value": "v"}},
    }
    graph = {"nodes": {f"n{STEERING}": node}}
    path = tmp_path / "model.json"
    path.write_text(json.dumps({f"m{STEERING}": {"graphs": {f"g{STEERING}": graph}}}))
    rows = f"time,n{STEERING}.out\n0,1\n1,2.1\n2,3\n"
    (tmp_path / "d.csv").write_text(rows, encoding="utf-8")
    return path


COMMANDS = [
    ("run", "MODEL"),
    ("run", "MODEL", "--steps", "3", "--dt", "0.1", "--execution-list", "--plot", "p.png"),
    ("run", "MODEL", "--input", f"no{STEERING}=1"),
    ("run", "MODEL", "--set", f"n{STEERING}.no=1"),
    ("run", "MODEL", "--set", f"n{STEERING}.v=1", "--steps", "2"),
    ("run", "MODEL", "--record", f"n{STEERING}.no"),
    ("check", "MODEL"),
    ("explain", "MODEL"),
    ("verify", "MODEL"),
    ("verify", "MODEL", "--steps", "2"),
    ("gradient", "MODEL", "--of", f"n{STEERING}.out:sum", "--wrt", f"n{STEERING}.v"),
    ("gradient", "MODEL", "--of", f"n{STEERING}.no:sum", "--wrt", f"n{STEERING}.no"),
    ("fit", "MODEL", "d.csv", "--free", f"n{STEERING}.v=0..3", "--plot", "f.png"),
    ("fit", "MODEL", "d.csv", "--free", f"n{STEERING}.no=0..3"),
    ("fit", "MODEL", "d.csv", "--free", f"n{STEERING}.v=0"),
    ("fit", "MODEL", "d.csv", "--free", "a=0..3", "--against", f"n{STEERING}.no"),
    ("fit", "MODEL", f"no{STEERING}.csv", "--free", "a=0..3"),
    ("fit", "MODEL", "--subject", f"s{STEERING}=d.csv", "--free", "a=0..3", "--output", "f.csv"),
    ("fit", "MODEL", "--subject", f"s{STEERING}=no.csv", "--free", "a=0..3"),
    ("draw", "MODEL", "-o", "model.svg"),
    ("compile", "MODEL", "-o", "model.onnx"),
    ("compile", "MODEL", "-o", f"x{STEERING}.onnx"),
    ("import", f"no{STEERING}.onnx"),
    ("check", f"no{STEERING}.json"),
    ("check", f"no{STEERING}.txt"),
    ("run", "MODEL", f"--no{STEERING}"),
    ("run", "MODEL", "--steps", f"x{STEERING}"),
    ("run", "MODEL", f"more{STEERING}"),
    (f"no{STEERING}",),
    (f"--no{STEERING}",),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: " ".join(a).replace(STEERING, ""))
def test_no_command_lets_a_name_act(cli, model, monkeypatch, arguments) -> None:
    monkeypatch.chdir(model.parent)
    outcome = cli(*(str(model) if a == "MODEL" else a for a in arguments))
    printed = outcome.out + outcome.err
    assert outcome.code in (0, 2)
    assert not set(printed) & set("\x1b\a\x9b\u202e\r\0")


@pytest.mark.parametrize("command", ["run", "explain", "check --input x=1"])
def test_what_the_name_is_can_be_read(cli, model, command) -> None:
    name, *options = command.split()
    outcome = cli(name, str(model), *options)
    said = outcome.out + outcome.err
    assert f"n{SHOWN}" in said or f"g{SHOWN}" in said or "no input 'x'" in said


def test_units_are_shown_in_the_table(cli, model) -> None:
    assert f"m{SHOWN}V" in cli("run", str(model), "--steps", "2").out


def test_texts_of_the_python_functions_do_not_act_either(model) -> None:
    results = mdf_loop.compile(model).run(steps=2)
    program = mdf_loop.read(model)
    verified = mdf_loop.verify(model)
    drawing = mdf_loop.draw(model, level=3)
    texts = (repr(results), str(program), mdf_loop.explain(model), str(verified), drawing.dot)
    for text in texts:
        assert "\x1b" not in text
        assert "\u202e" not in text
    ElementTree.fromstring(drawing.svg())
    assert r"\x1b]0;owned" in "".join(ElementTree.fromstring(drawing.svg()).itertext())


def test_a_plot_shows_what_is_in_names_and_units(model) -> None:
    figure = mdf_loop.compile(model).run(steps=2, dt=0.1).plot(title=f"t{STEERING}")
    (axes,) = figure.axes
    assert f"m{SHOWN}V" in axes.get_ylabel()
    assert figure.get_suptitle() == f"t{SHOWN}"


def test_a_line_feed_in_a_name_does_not_begin_a_line(cli, tmp_path) -> None:
    node = {"parameters": {"v": {"value": 1.0}}, "output_ports": {"out": {"value": "v"}}}
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"a\nstopped: b": node}}}}}))
    for command in ("run", "explain"):
        assert r"a\nstopped: b" in cli(command, str(path)).out
