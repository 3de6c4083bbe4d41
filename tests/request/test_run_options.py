"""Options of `run`: an option is written once, and calls that share it agree on its default and type."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mdf_loop
from mdf_loop.request.option import fields_of
from mdf_loop.request.run_options import RunOptions

ROOT = Path(__file__).parents[2]

NEW_OPTION = """
    loudness: Annotated[
        int,
        Option(
            LIMITS,
            "Loudness of the run, from 0 to [11](errors.md).",
            (flag("--loudness", "Loudness of the run.", type=int, default=3),),
            needs=Requirement(("steps",), "{} needs steps, too", "give steps"),
            conflicts={ON_CLUSTER: "a loudness"},
        ),
    ] = 3

"""

PROGRAM = """
import importlib.util
import inspect
import sys
from pathlib import Path

name = "mdf_loop.request.run_options"
spec = importlib.util.find_spec(name)
module = sys.modules[name] = importlib.util.module_from_spec(spec)
source = Path(spec.origin).read_text(encoding="utf-8")
before, after = source.split("    output: Annotated")
exec(before + sys.argv[1] + "    output: Annotated" + after, vars(module))

from click.testing import CliRunner

import mdf_loop
from docs import generate
from mdf_loop.api import specified_run
from mdf_loop.cli import cli
from mdf_loop.errors import InputError

run = mdf_loop.CompiledModel.run
assert inspect.signature(run).parameters["loudness"].default == 3
assert "    loudness: Loudness of the run, from 0 to 11.\\n" in inspect.getdoc(run)
assert "| `loudness` | `3` | Loudness of the run, from 0 to [11](errors.md). |" in generate.run_options()
assert "`execution_list` and `loudness` require `steps`" in generate.run_conditions()
assert "--loudness INTEGER" in CliRunner().invoke(cli, ["run", "--help"]).output

model = mdf_loop.compile({"g": {"nodes": {"A": {"output_ports": {"o": {"value": "1.5"}}}}}})
try:
    model.run(loudness=11)
except InputError as error:
    assert "loudness needs steps, too" in str(error)
specifications = []
run_specified = specified_run.run_specified
specified_run.run_specified = lambda prepared, spec: (
    specifications.append(spec), run_specified(prepared, spec)
)[1]
model.run(steps=2, loudness=11)
Path("m.yaml").write_text("m: {graphs: {g: {nodes: {A: {output_ports: {o: {value: '1.5'}}}}}}}")
output = CliRunner().invoke(cli, ["run", "m.yaml", "--steps", "2", "--loudness", "7"])
assert output.exit_code == 0, output.output
assert [spec.options.loudness for spec in specifications] == [11, 7]
"""


def test_a_new_option_is_written_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", PROGRAM, NEW_OPTION]
    process = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


# --- other calls ----------------------------------------------------------------------------------

CALLS = (
    mdf_loop.CompiledModel.differentiate,
    mdf_loop.CompiledModel.gradient,
    mdf_loop.CompiledModel.jacobian,
    mdf_loop.CompiledModel.hessian,
    mdf_loop.CompiledModel.fit,
    mdf_loop.CompiledModel.save,
    mdf_loop.CompiledModel.to_onnx,
    mdf_loop.Differentiated.run,
    mdf_loop.recover,
    mdf_loop.verify,
)

OTHER_TYPES = {
    ("fit", "trials"): "int | None",
    ("fit", "seed"): "int",
    ("recover", "trials"): "int | None",
    ("recover", "seed"): "int",
}
"""Types of arguments that deviate from those of `run`, by call and argument."""


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_calls_share_types_and_defaults(call: Callable[..., Any]) -> None:
    of_run = {field.name: field.parameter for field in fields_of(RunOptions)}
    for name, parameter in inspect.signature(call).parameters.items():
        if name in of_run:
            expected_type = OTHER_TYPES.get((call.__name__, name), of_run[name].annotation)
            assert (name, parameter.annotation) == (name, expected_type)
            assert (name, parameter.default) == (name, of_run[name].default)


@pytest.mark.parametrize("field", fields_of(RunOptions), ids=lambda field: field.name)
def test_meanings_are_short_sentences(field: Any) -> None:
    assert field.option.meaning.endswith(".")
    for sentence in re.split(r"(?<=[.!?;:])\s+", field.option.text):
        assert len(sentence.split()) <= 30
