"""Commands escape control characters in names, units and texts of a model."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import mdf_loop

CONTROL_CHARACTERS = "\x1b]0;owned\a\x9b2J\u202e"
ESCAPED = r"\x1b]0;owned\x07\x9b2J\u202e"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a counting loop whose node, graph and units have names with control characters."""
    node = {
        "metadata": {"units": {"v": f"m{CONTROL_CHARACTERS}V"}},
        "input_ports": {"a": {"default_value": 1.5}},
        "parameters": {"v": {"default_initial_value": 0.0, "value": "v + a"}},
        "output_ports": {"out": {"value": "v"}},
    }
    graph = {"nodes": {f"n{CONTROL_CHARACTERS}": node}}
    path = tmp_path / "model.json"
    path.write_text(
        json.dumps({f"m{CONTROL_CHARACTERS}": {"graphs": {f"g{CONTROL_CHARACTERS}": graph}}})
    )
    rows = f"time,n{CONTROL_CHARACTERS}.out\n0,1\n1,2.1\n2,3\n"
    (tmp_path / "d.csv").write_text(rows, encoding="utf-8")
    return path


COMMANDS = [
    ("run", "MODEL"),
    ("run", "MODEL", "--steps", "3", "--dt", "0.1", "--execution-list", "--plot", "p.png"),
    ("run", "MODEL", "--input", f"no{CONTROL_CHARACTERS}=1"),
    ("run", "MODEL", "--set", f"n{CONTROL_CHARACTERS}.no=1"),
    ("run", "MODEL", "--set", f"n{CONTROL_CHARACTERS}.v=1", "--steps", "2"),
    ("run", "MODEL", "--record", f"n{CONTROL_CHARACTERS}.no"),
    ("check", "MODEL"),
    ("explain", "MODEL"),
    ("verify", "MODEL"),
    ("verify", "MODEL", "--steps", "2"),
    (
        "gradient",
        "MODEL",
        "--of",
        f"n{CONTROL_CHARACTERS}.out:sum",
        "--wrt",
        f"n{CONTROL_CHARACTERS}.v",
    ),
    (
        "gradient",
        "MODEL",
        "--of",
        f"n{CONTROL_CHARACTERS}.no:sum",
        "--wrt",
        f"n{CONTROL_CHARACTERS}.no",
    ),
    ("fit", "MODEL", "d.csv", "--free", f"n{CONTROL_CHARACTERS}.v=0..3", "--plot", "f.png"),
    ("fit", "MODEL", "d.csv", "--free", f"n{CONTROL_CHARACTERS}.no=0..3"),
    ("fit", "MODEL", "d.csv", "--free", f"n{CONTROL_CHARACTERS}.v=0"),
    ("fit", "MODEL", "d.csv", "--free", "a=0..3", "--against", f"n{CONTROL_CHARACTERS}.no"),
    ("fit", "MODEL", f"no{CONTROL_CHARACTERS}.csv", "--free", "a=0..3"),
    (
        "fit",
        "MODEL",
        "--subject",
        f"s{CONTROL_CHARACTERS}=d.csv",
        "--free",
        "a=0..3",
        "--output",
        "f.csv",
    ),
    ("fit", "MODEL", "--subject", f"s{CONTROL_CHARACTERS}=no.csv", "--free", "a=0..3"),
    ("draw", "MODEL", "-o", "model.svg"),
    ("compile", "MODEL", "-o", "model.onnx"),
    ("compile", "MODEL", "-o", f"x{CONTROL_CHARACTERS}.onnx"),
    ("import", f"no{CONTROL_CHARACTERS}.onnx"),
    ("check", f"no{CONTROL_CHARACTERS}.json"),
    ("check", f"no{CONTROL_CHARACTERS}.txt"),
    ("run", "MODEL", f"--no{CONTROL_CHARACTERS}"),
    ("run", "MODEL", "--steps", f"x{CONTROL_CHARACTERS}"),
    ("run", "MODEL", f"more{CONTROL_CHARACTERS}"),
    (f"no{CONTROL_CHARACTERS}",),
    (f"--no{CONTROL_CHARACTERS}",),
]


@pytest.mark.parametrize(
    "arguments", COMMANDS, ids=lambda a: " ".join(a).replace(CONTROL_CHARACTERS, "")
)
def test_commands_print_no_control_characters(cli, model, monkeypatch, arguments) -> None:
    monkeypatch.chdir(model.parent)
    outcome = cli(*(str(model) if a == "MODEL" else a for a in arguments))
    printed = outcome.out + outcome.err
    assert outcome.code in (0, 2)
    assert not set(printed) & set("\x1b\a\x9b\u202e\r\0")


@pytest.mark.parametrize("command", ["run", "explain", "check --input x=1"])
def test_commands_print_the_escaped_name(cli, model, command) -> None:
    name, *options = command.split()
    outcome = cli(name, str(model), *options)
    printed_text = outcome.out + outcome.err
    assert (
        f"n{ESCAPED}" in printed_text
        or f"g{ESCAPED}" in printed_text
        or "no input 'x'" in printed_text
    )


def test_units_are_shown_in_the_table(cli, model) -> None:
    assert f"m{ESCAPED}V" in cli("run", str(model), "--steps", "2").out


def test_python_functions_return_escaped_names(model) -> None:
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


def test_a_plot_shows_escaped_names_and_units(model) -> None:
    figure = mdf_loop.compile(model).run(steps=2, dt=0.1).plot(title=f"t{CONTROL_CHARACTERS}")
    (axes,) = figure.axes
    assert f"m{ESCAPED}V" in axes.get_ylabel()
    assert figure.get_suptitle() == f"t{ESCAPED}"


def test_line_feeds_in_names_are_escaped(cli, tmp_path) -> None:
    node = {"parameters": {"v": {"value": 1.0}}, "output_ports": {"out": {"value": "v"}}}
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"a\nstopped: b": node}}}}}))
    for command in ("run", "explain"):
        assert r"a\nstopped: b" in cli(command, str(path)).out
