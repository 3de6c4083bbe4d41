"""`--loop-condition`: reading of an ONNX Loop whose body computes an unused condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from mdf_loop.cli import COMMANDS

BROKEN = """
<ir_version: 10, opset_import: ["" : 17]>
f (float[8] x, float limit) => (float s) {
    z = Constant <value = float {0}> ()
    k = Size (x)
    s = Loop (k, "", z) <body = step (int64 i, bool c, float a) => (bool go, float b) {
        v = Gather <axis: int = 0> (x, i)  b = Add (a, v)  over = Greater (b, limit)  go = Not (over) }>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(BROKEN), path)
    return path


INPUTS = ("--input", "x=[1, 2, 3, 4, 5, 6, 7, 8]", "--input", "limit=5")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "run": INPUTS,
    "gradient": ("--of", "s:sum", "--wrt", "x", *INPUTS),
    "check": (),
    "verify": INPUTS,
    "draw": (),
    "explain": (),
    "compile": ("-o", "out.onnx"),
    "import": (),
}
"""Commands that open models, with their required arguments."""


@pytest.mark.slow
@pytest.mark.parametrize("command", ARGUMENTS)
def test_commands_warn_on_stderr(
    command: str, file: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    call = (command, file, *ARGUMENTS[command])
    outcome = cli(*call)
    assert outcome.code == 0
    (line,) = outcome.err.splitlines()
    assert line.startswith("warning: the loop 'Loop_4.loop' has no condition input")
    runtime_outcome = cli(*call, "--loop-condition", "runtime")
    assert (runtime_outcome.code, runtime_outcome.err) == (0, "")


def test_all_commands_that_open_models_are_tested(cli: Any) -> None:
    having = {word for word in COMMANDS if "--loop-condition" in cli(word, "--help").out}
    assert having == {*ARGUMENTS, "fit"}


def test_the_option_selects_the_condition(file: Path, cli: Any) -> None:
    for reading, total in (("document", 36.0), ("runtime", 6.0)):
        outcome = cli("run", file, *INPUTS, "--json", "--loop-condition", reading)
        assert outcome.json["outputs"]["s"]["data"] == total


def test_check_has_a_note_for_the_imported_model(file: Path, cli: Any) -> None:
    for reading in ("document", "runtime"):
        imported = file.with_suffix(".yaml")
        assert cli("import", file, "-o", imported, "--loop-condition", reading).code == 0
        for outcome in (cli("check", file, "--loop-condition", reading), cli("check", imported)):
            note, place = outcome.out.splitlines()[-2:]
            assert note.startswith("note: the loop 'Loop_4.loop' has no condition input")
            assert note.endswith(f"It is read as '{reading}'")
            assert place == "  at $.graphs[0].nodes['Loop_4'].functions['loop']"
