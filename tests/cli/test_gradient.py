"""`mdf-loop gradient`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.api import gradient_check
from mdf_loop.results.gradient import Gradient

CELL = {
    "input_ports": {"current": {"default_value": 0.5}},
    "parameters": {
        "a": {"value": 0.5},
        "start": {"value": [1.0, 2.0]},
        "count": {"value": 3},
        "v": {"default_initial_value": "start", "value": "v * a + current"},
    },
    "output_ports": {"V": {"value": "v"}},
}
"""V = start a + current. By hand for one evaluation: sum(V) = 2.5, derivatives 3 for a, [0.5, 0.5] for start."""


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    path = tmp_path / "cell.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"cell": CELL}}}}}))
    return path


def test_table_of_the_gradient(cli, cell):
    names = ("cell.a", "cell.start", "current")
    outcome = cli("gradient", cell, "--of", "cell.V:sum", *(w for n in names for w in ("--wrt", n)))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[:4] == [
        "value       2.5",
        "cell.a      3",
        "cell.start  float64[2]: 0.5 to 0.5",
        "current     2",
    ]


def test_json_is_one_object_and_nothing_else(cli, cell):
    arguments = (
        "--of",
        "cell.V:sum",
        "--wrt",
        "cell.a",
        "--wrt",
        "cell.start",
        "--check",
        "--json",
    )
    content = cli("gradient", cell, *arguments).json
    assert list(content) == ["value", "gradient", "check", "seed", "native"]
    assert content["value"] == 2.5
    assert content["gradient"] == {
        "cell.a": {"dtype": "float64", "shape": [], "data": 3.0},
        "cell.start": {"dtype": "float64", "shape": [2], "data": [0.5, 0.5]},
    }
    assert content["check"]["elements"] == 3
    assert (content["seed"], content["native"]) == (0, {})


def test_nan_is_a_string_in_json(cli, cell):
    arguments = ("--of", "cell.V:sum", "--wrt", "cell.a", "--set", "cell.a=nan", "--json")
    assert cli("gradient", cell, *arguments).json["value"] == "nan"


def gradient_json(cli, cell: Path, *arguments: object) -> dict:
    return cli("gradient", cell, "--wrt", "cell.a", *arguments, "--json").json


def test_gradient_equals_the_python_api(cli, cell):
    content = gradient_json(
        *(cli, cell, "--of", "cell.V:mean", "--of", "cell.V:last", "--steps", 20, "--dt", 0.1),
        *("--set", "cell.start=[0.5, 0.25]", "--input", "current=0.125", "--native", "off"),
    )
    gradient = mdf_loop.compile(str(cell)).gradient(
        {"cell.V": ["mean", "last"]},
        ["cell.a"],
        steps=20,
        dt=0.1,
        set={"cell.start": [0.5, 0.25]},
        inputs={"current": 0.125},
    )
    assert content["value"] == pytest.approx(gradient.value, rel=1e-12)
    assert content["gradient"]["cell.a"]["data"] == pytest.approx(gradient["cell.a"], rel=1e-12)
    assert content["native"]["time"] != "native"


def test_a_sweep_has_a_number_for_each_member(cli, cell):
    content = gradient_json(cli, cell, "--of", "cell.V:sum", "--sweep", "cell.a=0:1:3")
    assert content["value"] == [1.0, 2.5, 4.0]
    assert content["gradient"]["cell.a"] == {
        "dtype": "float64",
        "shape": [3],
        "data": [3.0, 3.0, 3.0],
    }


def test_truncate_and_stop(cli, cell):
    """Check that truncation of V[t] = V[t - 1] a + current leaves the derivative V[t - 1] by a."""
    arguments = ("--of", "cell.V:last", "--steps", 20)
    full, truncated = (
        gradient_json(cli, cell, *arguments),
        gradient_json(cli, cell, *arguments, "--truncate", 1),
    )
    before = mdf_loop.compile(str(cell)).run(steps=19)["cell.V"][-1].sum()
    assert truncated["value"] == full["value"]
    assert truncated["gradient"]["cell.a"]["data"] == pytest.approx(before, rel=1e-12)
    assert full["gradient"]["cell.a"]["data"] > 1.5 * before
    stopped = gradient_json(cli, cell, *arguments, "--stop", "cell.V")
    assert stopped["gradient"]["cell.a"]["data"] == 0.0


# --- data -------------------------------------------------------------------------------------------

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.fixture
def data(tmp_path: Path, monkeypatch) -> Path:
    """Return a folder with data for three steps of `cell.V`, and make it the working folder."""
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", **{"cell.V": ROWS, "V": ROWS})
    Path("d.json").write_text(json.dumps({"cell.V": ROWS.tolist(), "V": ROWS.tolist()}))
    lines = [
        "time,cell.V[0],cell.V[1],V[0],V[1]",
        *(f"{t},{a},{b},{a},{b}" for t, (a, b) in enumerate(ROWS)),
    ]
    Path("d.csv").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.parametrize(
    "text",
    ["d.npz:V", "d.npz", "d.json:V", "d.json", "d.csv:V", "d.csv", json.dumps(ROWS.tolist())],
)
@pytest.mark.parametrize("word", ["sse", "weighted"])
def test_data_on_the_command_line_and_in_files(cli, cell, data, word: str, text: str):
    content = gradient_json(cli, cell, "--of", f"cell.V:{word}={text}", "--steps", 3)
    voltages = mdf_loop.compile(str(cell)).run(steps=3)["cell.V"]
    by_hand = ((voltages - ROWS) ** 2 if word == "sse" else voltages * ROWS).sum()
    assert content["value"] == pytest.approx(by_hand, rel=1e-12)


def test_saved_results_are_data(cli, cell, data):
    assert cli("run", cell, "--steps", 3, "--output", "results.csv").code == 0
    content = gradient_json(cli, cell, "--of", "cell.V:sse=results.csv", "--steps", 3)
    assert (content["value"], content["gradient"]["cell.a"]["data"]) == (0.0, 0.0)


def test_a_single_number_is_compared_with_all_elements(cli, cell):
    content = gradient_json(cli, cell, "--of", "cell.V:sse=1")
    assert content["value"] == 0.0**2 + 0.5**2


# --- a check ----------------------------------------------------------------------------------------


def test_a_wrong_derivative_exits_with_1(cli, cell, monkeypatch):
    right = Gradient.__getitem__
    monkeypatch.setattr(Gradient, "__getitem__", lambda self, name: 1.5 * right(self, name))
    arguments = ("--of", "cell.V:sum", "--wrt", "cell.a", "--check")
    for json_option in ((), ("--json",)):
        outcome = cli("gradient", cell, *arguments, *json_option)
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.startswith(
            "GradientError: the derivative by 'cell.a' is 4.5, but central differences give "
        )


def test_the_table_has_the_check(cli, cell):
    outcome = cli("gradient", cell, "--of", "cell.V:sum", "--wrt", "cell.start", "--check")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1].startswith("central differences agree in 2 elements, to ")


def test_wrong_derivatives_are_not_saved(cli, cell, tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_check, "_evaluate_term", lambda *_: 0.0)
    target = tmp_path / "g.onnx"
    arguments = ("--of", "cell.V:sum", "--wrt", "cell.a", "--check", "--save", target)
    assert cli("gradient", cell, *arguments).code == 1
    assert not target.exists()


# --- a file -----------------------------------------------------------------------------------------


def test_a_saved_file_runs_in_plain_onnxruntime(cli, cell, tmp_path):
    target = tmp_path / "g.onnx"
    arguments = ("--of", "cell.V:sum", "--wrt", "cell.a", "--steps", 4, "--save", target, "--json")
    content = cli("gradient", cell, *arguments).json
    session = onnxruntime.InferenceSession(target)
    value, by_a = session.run(["value", "gradient of cell.a"], {"current": np.array(0.5)})
    assert float(value) == pytest.approx(content["value"], rel=1e-12)
    assert float(by_a) == pytest.approx(content["gradient"]["cell.a"]["data"], rel=1e-12)


# --- what is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--of cell.V:sum --wrt cell.no", "cell.no"),
        ("--of cell.No:sum --wrt cell.a", "the model has no output 'cell.No'"),
        ("--of cell.V --wrt cell.a", "--of 'cell.V' is not OUTPUT:WORD, or OUTPUT:WORD=DATA"),
        ("--of cell.V:median --wrt cell.a", "the words are sum, mean, last, and with data sse"),
        ("--of cell.V:sse --wrt cell.a", "--of 'cell.V:sse' is not OUTPUT:WORD"),
        ("--of cell.V:sum=3 --wrt cell.a", "--of 'cell.V:sum=3' is not OUTPUT:WORD"),
        ("--of cell.V:sse=no.csv --wrt cell.a", "there is no file 'no.csv'"),
        ("--of cell.V:sse=what --wrt cell.a", "the data of sse of 'cell.V' is not a number"),
        ("--of cell.V:sse=[1,2,3] --wrt cell.a", "have shape [3], but the output has [2]"),
        ("--of cell.V:sum --wrt cell.count", "only by numbers with a point"),
        ("--of cell.V:sum --wrt cell.a --sweep cell.a=0:1:3 --check", "a sweep cannot be checked"),
        ("--of cell.V:sum --wrt cell.a --truncate 3 --check", "stop or truncate cannot be checked"),
        (
            "--of cell.V:sum --wrt cell.a --stop cell.V --check",
            "stop or truncate cannot be checked",
        ),
        ("--of cell.V:sum --wrt cell.a --save g.txt", "'g.txt' does not end in .onnx"),
        ("--of cell.V:sum", "Missing option '--wrt'"),
        ("--wrt cell.a", "Missing option '--of'"),
    ],
)
def test_invalid_options_exit_with_2(cli, cell, arguments: str, sentence: str):
    outcome = cli("gradient", cell, *arguments.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert "Traceback" not in outcome.err


def test_a_nan_derivative_has_a_warning(cli, tmp_path):
    node = {
        "parameters": {"x": {"value": [1.0, 1.0]}},
        "output_ports": {"y": {"value": "numpy.std(x)"}},
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    outcome = cli("gradient", path, "--of", "n.y:sum", "--wrt", "n.x", "--json")
    assert outcome.code == 0
    assert outcome.json["gradient"]["n.x"]["data"] == ["nan", "nan"]
    (line,) = outcome.err.splitlines()
    message = "the number is finite, but its derivative by 'n.x' is nan in 2 of 2 elements: "
    assert line.startswith(f"warning: {message}")
    with pytest.warns(UserWarning, match="is nan in 2 of 2 elements") as caught:
        mdf_loop.compile(path).gradient({"n.y": "sum"}, ["n.x"])
    assert line == f"warning: {caught[0].message}"
    assert cli("gradient", path, "--of", "n.y:sum", "--wrt", "n.x", "--set", "n.x=[1, 2]").err == ""
