"""Run specifications: all arguments of a run in one immutable object, validated once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.api.specified_run import run_specified
from mdf_loop.cli import run_command
from mdf_loop.errors import InputError
from mdf_loop.request.run_options import RunOptions
from mdf_loop.specification import ENGINES, RunSpecification, specify

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "python-api.md"

MODEL = {"g": {"nodes": {"A": {"output_ports": {"o": {"value": "1.5"}}}}}}


def test_the_default_specification() -> None:
    assert specify(RunOptions()) == RunSpecification()


def test_specifications_are_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        specify(RunOptions()).steps = 3  # type: ignore[misc]


def test_every_argument_has_its_field() -> None:
    spec = specify(
        RunOptions(
            {"I": 1},
            record="A.o",
            only=["A.p"],
            set={"A.a": 2},
            sweep={"A.b": [1, 2]},
            steps=np.int32(9),
            dt=1,
            every=3,
            when="A.w",
            reduce={"A.r": "mean"},
            state={"step": np.array(1)},
            execution_list=np.True_,
            engine="interpreter",
            time_limit="2min",
            nan="stop",
            progress=False,
            output="x.zarr",
            overwrite=True,
            checkpoint="c",
            checkpoint_every="5min",
            resume="d",
            memory_limit="4GB",
        )
    )
    values, selection, controls = spec.values, spec.selection, spec.controls
    assert (values.inputs, values.set, values.sweep) == ({"I": 1}, {"A.a": 2}, {"A.b": [1, 2]})
    assert values.state is not None
    assert (selection.record, selection.only, selection.every) == (("A.o",), ("A.p",), 3)
    assert (selection.when, selection.reduce) == ("A.w", {"A.r": ("mean",)})
    assert selection.extra_names == ("A.o", "A.r", "A.w")
    assert (controls.time_limit, controls.nan, controls.progress) == (120, "stop", False)
    assert (controls.checkpoint, controls.resume) == (Path("c"), Path("d"))
    assert (controls.checkpoint_every, controls.memory_limit) == (300, 4 * 10**9)
    assert (spec.steps, spec.dt, spec.execution_list) == (9, 1.0, True)
    assert (type(spec.steps), type(spec.dt)) == (int, float)
    assert (spec.engine, spec.output, spec.overwrite) == ("interpreter", "x.zarr", True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"steps": True}, "steps must be a whole number above 0, not True"),
        ({"steps": 3, "every": 0}, "every must be a whole number above 0, not 0"),
        ({"steps": 3, "every": True}, "every must be a whole number above 0, not True"),
        ({"steps": 3, "every": 1.0}, "every must be a whole number above 0, not 1.0"),
        ({"steps": 3, "dt": "1"}, "dt must be a length of time, not '1'"),
        ({"dt": 0.5}, "dt needs steps"),
        ({"every": 2}, "every needs steps"),
        ({"when": "A.o"}, "when needs steps"),
        ({"reduce": {"A.o": "mean"}}, "reduce needs steps"),
        ({"state": {"step": np.array(1)}}, "state needs steps"),
        ({"execution_list": True}, "execution_list needs steps"),
        ({"execution_list": 1}, "execution_list is neither True nor False: 1"),
        ({"overwrite": 0}, "overwrite is neither True nor False: 0"),
        ({"engine": "brian"}, "engine cannot be 'brian'"),
        ({"nan": "maybe"}, "nan cannot be 'maybe'"),
        ({"checkpoint_every": 5}, "a time between checkpoints needs a file"),
    ],
)
def test_invalid_arguments_are_refused(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        specify(RunOptions(**words))


def test_every_engine_is_in_the_help_and_the_reference() -> None:
    (option,) = (each for each in run_command.command.params if each.name == "engine")
    help_text = str(option.to_info_dict()["help"])
    assert not [word for word in ENGINES if not re.search(rf"\b{word}\b", help_text)]
    (row,) = re.findall(r"^\| `engine` .*", REFERENCE.read_text(), re.MULTILINE)
    assert set(re.findall(r'"(\w+)"', row)) == set(ENGINES)


def test_reading_options_are_independent_of_values() -> None:
    assert (
        specify(RunOptions({"x": 1}, steps=5, dt=0.1)).program_options
        == specify(RunOptions(steps=9, dt=0.2, every=3)).program_options
    )
    assert (
        specify(RunOptions(steps=5)).program_options
        != specify(RunOptions(steps=5, dt=0.1)).program_options
    )
    assert specify(RunOptions(steps=5)).program_options != specify(RunOptions()).program_options
    assert (
        specify(RunOptions(nan="stop")).program_options
        != specify(RunOptions(nan="ignore")).program_options
    )


def test_a_specification_runs_like_its_arguments() -> None:
    compiled = mdf_loop.compile(MODEL, device="cpu")
    spec = specify(RunOptions(steps=4, every=2))
    assert run_specified(compiled.prepared, spec)["A.o"].tolist() == [1.5, 1.5]
    assert compiled.run(steps=4, every=2)["A.o"].tolist() == [1.5, 1.5]


@pytest.mark.parametrize("words", ["mean,max", " mean , max ", ["mean", "max"], ["mean,max"]])
def test_reductions_accept_the_form_of_the_command_line(words: Any) -> None:
    spec = specify(RunOptions(steps=3, reduce={"A.o": words}))
    assert spec.selection.reduce == {"A.o": ("mean", "max")}
