"""`mdf-loop run`: recording, limits and resuming of long runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.api import specified_run
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import DiskFullError, InputError
from mdf_loop.ir import StopReason
from mdf_loop.request.run_options import RunOptions
from mdf_loop.results.data import Results
from mdf_loop.specification import RunSpecification, specify

ENDLESS_STEPS = 1_000_000_000


def node(value: str, first: float = 1.0) -> dict[str, Any]:
    return {
        "parameters": {"x": {"default_initial_value": first, "value": value}},
        "output_ports": {"x": {"value": "x"}, "big": {"value": "x > 0.5"}},
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a chaotic map, and a value that becomes infinite after 309 steps."""
    graph = {"nodes": {"walk": node("3.9 * x * (1 - x)", 0.25), "grow": node("10 * x")}}
    content = {"long": {"format": "ModECI MDF v0.4", "graphs": {"g": graph}}}
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.fixture
def run(cli, model, tmp_path, monkeypatch):
    """Return a function that runs the model in its own folder."""
    monkeypatch.chdir(tmp_path)

    def run_model(*arguments: Any) -> Any:
        return cli("run", model, "--device", "cpu", *arguments)

    return run_model


@pytest.fixture
def read_specification(run, monkeypatch):
    """Return a function that returns the specification of the run for some options."""

    class SpecificationRead(Exception):  # noqa: N818 - a way out
        pass

    def raise_spec(prepared: PreparedModel, spec: RunSpecification) -> Results:
        raise SpecificationRead(spec)

    monkeypatch.setattr(specified_run, "run_specified", raise_spec)

    def specification_of(*options: Any) -> Any:
        with pytest.raises(SpecificationRead) as caught:
            run(*options)
        return caught.value.args[0]

    return specification_of


def data(outcome: Any, name: str = "walk.x") -> Any:
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.json["outputs"][name]["data"]


# --- recording ----------------------------------------------------------------------------------


def test_only_replaces_the_outputs(run):
    content = run("--steps", 3, "--only", "walk.x", "--only", "grow.big", "--json").json
    assert set(content["outputs"]) == {"walk.x", "grow.big"}


def test_when_selects_rows(run):
    arguments = ("--steps", 50, "--only", "walk.x", "--json")
    every_row = data(run(*arguments))
    chosen = run(*arguments, "--when", "walk.big")
    assert data(chosen) == [x for x in every_row if x > 0.5]
    assert chosen.json["axes"]["step"] == [k for k, x in enumerate(every_row) if x > 0.5]


def test_every_with_a_number_selects_rows(run):
    arguments = ("--steps", 50, "--only", "walk.x", "--json")
    assert data(run(*arguments, "--every", 10)) == data(run(*arguments))[::10]


@pytest.mark.parametrize(
    "arguments", [("walk.x=mean,max",), ("walk.x=mean", "--reduce", "walk.x = max")]
)
def test_reductions_replace_rows(run, arguments):
    rows = np.array(data(run("--steps", 50, "--json")))
    outcome = run("--steps", 50, "--only", "grow.x", "--reduce", *arguments)
    assert outcome.code == 0
    assert f"walk.x.max: float64[]\n  {rows.max():.8f}" in outcome.out
    assert "walk.x.mean: float64[]\n" in outcome.out
    assert "walk.x: " not in outcome.out
    assert "grow.x: float64[time=50]\n" in outcome.out


def test_reductions_of_a_sweep_have_its_axis(run):
    outcome = run("--steps", 5, "--sweep", "walk.x=[0.1, 0.2]", "--reduce", "walk.x=last")
    assert "walk.x.last: float64[batch=2]\n" in outcome.out
    assert "grow.x: float64[batch=2, time=5]\n" in outcome.out


# --- options reach the run ----------------------------------------------------------------------


def test_default_specification(read_specification):
    spec = read_specification()
    assert spec == specify(RunOptions())


def test_specification_of_all_options(read_specification):
    spec = read_specification(
        *(
            "--steps",
            9,
            "--every",
            2,
            "--checkpoint-every",
            "1.5h",
            "--when",
            "w",
            "--reduce",
            "a=min",
        ),
        *("--time-limit", "10min", "--nan", "stop", "--checkpoint", "c", "--resume", "c"),
        *("--quiet", "--output", "x.zarr"),
    )
    assert spec == specify(
        RunOptions(
            steps=9,
            every=2,
            when="w",
            reduce={"a": "min"},
            time_limit="10min",
            nan="stop",
            checkpoint="c",
            checkpoint_every="1.5h",
            resume="c",
            progress=False,
            output="x.zarr",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--every", "x"), "--every 'x' is not a whole number of rows"),
        (("--every", "1.5"), "--every '1.5' is not a whole number of rows"),
        (("--every", "5min"), "--every '5min' is a time, but --every counts rows"),
        (("--every", "30 s"), "write --checkpoint-every 30 s for the time between checkpoints"),
        (
            ("--checkpoint-every", "0s", "--checkpoint", "c"),
            "the time between checkpoints is '0s'; it must be longer than zero",
        ),
        (("--checkpoint-every", "5min"), "a time between checkpoints needs a file for them"),
        (("--every", "-1"), "every must be a whole number above 0"),
        (("--reduce", "walk.x"), "--reduce 'walk.x' is not NAME=WORDS"),
        (("--reduce", "walk.x="), "--reduce 'walk.x=' is not NAME=WORDS"),
        (("--reduce", "walk.x=mean,"), "--reduce 'walk.x=mean,' is not NAME=WORDS"),
        (("--reduce", "=mean"), "--reduce '=mean' is not NAME=WORDS"),
        (("--reduce", "walk.x=median"), "median"),
        (("--reduce", "walk.y=mean"), "the model has no output 'walk.y'"),
        (("--only", "walk.y"), "the model has no output 'walk.y'"),
        (("--when", "walk.y"), "the model has no output 'walk.y'"),
        (("--time-limit", "soon"), "the time limit is 'soon', which is not a length of time"),
        (("--time-limit", "0"), "the time limit is '0'; it must be longer than zero"),
        (("--nan", "maybe"), "nan cannot be 'maybe'"),
        (("--resume", "none"), "there is no "),
        (("--checkpoint", "no/folder"), "there is no folder"),
        (("--engine", "modeci", "--time-limit", "1s"), "modeci_mdf's engine takes no time limit"),
        (("--output", "folder.npz"), "cannot write 'folder.npz': it is no file"),
        (("--output", "folder.zarr"), "and is no Zarr store of mdf_loop"),
        (("--plot", "folder.png"), "cannot write 'folder.png': it is no file"),
        (("--final-state", "folder.npz"), "cannot write 'folder.npz': it is no file"),
        (
            ("--output", "a.npz", "--final-state", "./a.npz"),
            "--output and --final-state both name 'a.npz'",
        ),
        (("--output", "a.npz", "--resume", "a.npz"), "--output and --resume both name 'a.npz'"),
    ],
)
def test_invalid_options_are_refused_before_the_run(run, tmp_path, arguments, sentence):
    for name in ("folder.npz", "folder.zarr", "folder.png"):
        (tmp_path / name).mkdir()
    state_before = sorted(tmp_path.iterdir())
    outcome = run("--steps", ENDLESS_STEPS, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert sorted(tmp_path.iterdir()) == state_before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--plot", "a.png"), "the results have no axis of time"),
        (("--final-state", "a.npz"), "only a compiled model run over time ends in a state"),
        (("--when", "walk.big"), "when needs steps"),
        (("--reduce", "walk.x=mean"), "reduce needs steps"),
    ],
)
def test_options_that_require_steps_are_refused_before_the_run(
    cli, endless, tmp_path, arguments, sentence
):
    outcome = cli("run", endless, "--max-iterations", ENDLESS_STEPS, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


# --- stopped ------------------------------------------------------------------------------------


def test_a_time_limit_prints_partial_results(run, tmp_path):
    outcome = run(
        *("--steps", ENDLESS_STEPS, "--time-limit", "0.3s", "--only", "walk.x", "--nan", "ignore"),
        *("--output", "out.npz", "--final-state", "state.npz"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    last = outcome.out.splitlines()[-1]
    match = re.fullmatch(
        rf"stopped: ([0-9]+) of {ENDLESS_STEPS} steps; the time limit of the run was over", last
    )
    assert match is not None
    step_count = int(match[1])
    assert f"walk.x: float64[time={step_count}]" in outcome.out
    with np.load(tmp_path / "out.npz") as archive:
        assert len(archive["walk.x"]) == len(archive["step"]) == step_count
    with np.load(tmp_path / "state.npz") as archive:
        assert archive["step"] == step_count


def test_a_time_limit_for_a_loop_without_end(cli, endless):
    outcome = cli("run", endless, "--time-limit", "0.3s", "--device", "cpu", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.json["stopped_by"] == "time_limit"
    assert outcome.json["loops"]["grow.f"]["stopped_by"] == "time_limit"
    iterations = outcome.json["loops"]["grow.f"]["iterations"]
    assert outcome.json["outputs"]["grow.x_final"]["data"] == iterations + 1


def test_an_iteration_bound_is_reported(cli, endless):
    outcome = cli("run", endless, "--max-iterations", 7)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1].startswith("stopped: 7 iterations of grow.f; it reached")


@pytest.mark.parametrize(
    "nan_options", [(), ("--json",), ("--output", "x.zarr"), ("--plot", "a.png")]
)
def test_nan_at_the_end_is_one_line_on_stderr(run, nan_options):
    outcome = run("--steps", 400, "--dt", "0.5", *nan_options)
    assert outcome.code == 0
    line = (
        "warning: 'grow.x' became infinite in row 308 (time 154 s): "
        'nan="stop" (--nan stop) ends a run at the first such value'
    )
    assert outcome.err == f"{line}\n"
    if nan_options == ("--json",):
        assert outcome.json["notes"] == [line.removeprefix("warning: ")]
    assert (
        run("--steps", 400, "--dt", "0.5", "--nan", "ignore", *nan_options, "--overwrite").err == ""
    )
    assert run("--steps", 300).err == ""


def test_nan_stop(run):
    outcome = run("--steps", 1000, "--nan", "stop", "--only", "grow.x", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.json["stopped_by"] == "not_finite"
    assert "grow.x" in outcome.json["reason"]
    rows = outcome.json["outputs"]["grow.x"]["data"]
    assert rows[-1] == "inf"
    assert "inf" not in rows[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_nan_error(run, tmp_path, as_json):
    arguments = ("--steps", 1000, "--nan", "error", "--record", "walk.x", *as_json)
    outcome = run(
        *arguments, "--output", "out.npz", "--final-state", "state.npz", "--plot", "a.png"
    )
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("NotFiniteError: ")
    assert "hint: 'out.npz' has the partial results\n" in outcome.err
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["grow.x"][-1] == np.inf
    assert (tmp_path / "state.npz").exists()
    assert (tmp_path / "a.png").exists()
    assert "hint: --output saves the partial results\n" in run(*arguments).err


def test_a_completed_run_reports_no_stop(run):
    outcome = run("--steps", 5)
    assert "stopped" not in outcome.out
    assert "stopped_by" not in run("--steps", 5, "--json").json


def test_an_interrupted_run_with_results(run, monkeypatch):
    monkeypatch.setattr(
        specified_run, "run_specified", lambda *_, **__: partial_results(StopReason.INTERRUPTED)
    )
    outcome = run("--json")
    assert (outcome.code, outcome.err) == (130, "")
    assert outcome.json["stopped_by"] == "interrupted"
    assert run().out.splitlines()[-1] == "stopped: 1 of 2 steps"


def raising(error: Exception) -> Callable[..., Any]:
    def raised(*_: Any, **__: Any) -> None:
        raise error

    return raised


def partial_results(
    stopped_by: StopReason = StopReason.COMPLETED, checkpoint: Path | None = None
) -> Results:
    results = Results({"walk.x": np.ones(1)}, {}, "cpu", "float64", stopped_by=stopped_by)
    results = results.with_changes(reason="1 of 2 steps", checkpoint=checkpoint)
    return results


# --- a full disk --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "written", "advice"),
    [
        ((), None, "free disk space; a run with --checkpoint FILE can be resumed"),
        (("--checkpoint", "c"), Path("c"), "free disk space, and continue with --resume 'c'"),
        (
            ("--checkpoint", "c"),
            None,
            "free disk space, and start again: there was no space for a checkpoint",
        ),
        (
            ("--checkpoint", "d", "--resume", "c"),
            Path("c"),
            "free disk space, and continue with --resume 'c'",
        ),
    ],
)
def test_a_full_disk_during_the_run(run, monkeypatch, arguments, written, advice):
    error = DiskFullError("the disk is full", hint="look at error.results")
    error.results = partial_results(StopReason.DISK_FULL, written)
    monkeypatch.setattr(specified_run, "run_specified", raising(error))
    outcome = run("--json", *arguments)
    assert outcome.code == 2
    assert outcome.json["stopped_by"] == "disk_full"
    assert outcome.err == f"DiskFullError: the disk is full\n  hint: {advice}\n"
    assert run(*arguments).out.splitlines()[-1] == "stopped: 1 of 2 steps"


FULL = DiskFullError("cannot write 'x': No space left on device")
REFUSED = InputError("cannot write 'x': Permission denied", hint="ask")


@pytest.mark.parametrize("error", [FULL, REFUSED])
@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("--output", "out.npz"), (Results, "save")),
        (("--plot", "a.png"), (Results, "plot")),
        (("--final-state", "a.npz"), "mdf_loop.run.states.save_state"),
    ],
)
def test_results_are_printed_if_writing_fails(run, monkeypatch, arguments, where, error):
    place = (where,) if isinstance(where, str) else where
    monkeypatch.setattr(*place, raising(copy(error)))
    outcome = run("--steps", 3, "--json", *arguments)
    assert outcome.code == 2
    assert outcome.json["outputs"]["walk.x"]["shape"] == [3]
    assert outcome.err.startswith(f"{type(error).__name__}: {error.findings[0].what}\n")


def test_errors_of_run_and_of_writing_are_both_reported(run, monkeypatch):
    for place in ((Results, "save"), (Results, "plot")):
        monkeypatch.setattr(*place, raising(copy(REFUSED)))
    arguments = ("--steps", 1000, "--nan", "error", "--output", "out.npz", "--plot", "a.png")
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("NotFiniteError: ")
    assert outcome.err.count("InputError: cannot write 'x': Permission denied") == 2
    assert "has the partial results" not in outcome.err


# --- checkpoints --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stopped_run_is_resumed(run, tmp_path):
    arguments = (
        "--steps",
        400_000,
        "--only",
        "walk.x",
        "--reduce",
        "walk.x=mean",
        "--native",
        "off",
    )
    arguments += ("--nan", "ignore")
    broken = run(
        *arguments,
        "--checkpoint",
        "c",
        "--checkpoint-every",
        "50ms",
        "--time-limit",
        "0.02s",
        "--json",
    )
    assert broken.code == 0
    assert broken.json["stopped_by"] == "time_limit"
    resumed = run(*arguments, "--resume", "c", "--output", "resumed.npz")
    assert (resumed.code, resumed.err) == (0, "")
    run(*arguments, "--output", "whole.npz")
    assert (tmp_path / "resumed.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_one_command_begins_and_resumes(run):
    arguments = ("--steps", 1000, "--checkpoint", "c", "--resume", "c", "--nan", "ignore", "--json")
    first = run(*arguments)
    assert (first.code, first.err) == (0, "")
    assert run(*arguments).out == first.out


# --- streamed -----------------------------------------------------------------------------------


def test_text_shows_both_ends_of_a_store(run, tmp_path):
    arguments = ("--steps", 5000, "--dt", "0.5", "--reduce", "grow.x=max", "--record", "walk.x")
    arguments += ("--nan", "ignore")
    streamed = run(*arguments, "--output", "x.zarr")
    assert (streamed.code, streamed.err) == (0, "")
    assert streamed.out == run(*arguments).out
    assert (tmp_path / "x.zarr" / "walk.x").is_dir()


def test_json_names_the_store_instead_of_data(run):
    outcome = run("--steps", 50, "--reduce", "walk.x=last", "--output", "x.zarr", "--json")
    outputs = outcome.json["outputs"]
    assert outputs["grow.x"] == {"dtype": "float64", "shape": [50], "file": "x.zarr"}
    assert set(outputs["walk.x.last"]) == {"dtype", "shape", "data"}
    assert "axes" not in outcome.json  # the store has the axes


def test_one_evaluation_is_saved_to_a_store(run, tmp_path):
    outcome = run("--output", "x.zarr", "--json")
    assert outcome.json["outputs"]["walk.x"]["data"] == 0.73125
    assert json.loads((tmp_path / "x.zarr" / "zarr.json").read_text())["node_type"] == "group"


@pytest.mark.slow
def test_a_stopped_run_has_its_rows_in_the_store(run):
    arguments = ("--record", "walk.x", "--nan", "stop", "--plot", "a.png", "--json")
    outcome = run("--steps", 1000, *arguments, "--output", "x.zarr")
    assert (outcome.code, outcome.err) == (0, "")
    (rows,) = outcome.json["outputs"]["grow.x"]["shape"]
    assert outcome.json["reason"].startswith(f"{rows} of 1000 steps")
    assert rows < 400


# --- checkpoints --------------------------------------------------------------------------------


def test_results_have_their_checkpoint(model, tmp_path):
    """Check `results.checkpoint` and the removal of temporary files of a killed process."""
    compiled = mdf_loop.compile(model)
    path = tmp_path / "c"
    assert compiled.run(steps=5).checkpoint is None
    assert compiled.run(steps=5, checkpoint=path).checkpoint == path
    left = [tmp_path / f"{name}.{'0' * 8}-1-abc-0.part" for name in "cd"]
    for part in left:
        part.write_text("half")
        os.utime(part, (0, 0))
    assert (
        compiled.run(steps=6, checkpoint=tmp_path / "d", resume=path).checkpoint == tmp_path / "d"
    )
    assert not any(part.exists() for part in left)


def test_a_store_with_reductions_is_resumed(model, tmp_path):
    """Check that a resumed run replaces the partial reductions in the store of a stopped run."""
    compiled = mdf_loop.compile(model)
    arguments = {
        "record": ["walk.x"],
        "reduce": {"walk.x": ["mean"]},
        "output": tmp_path / "r.zarr",
    }
    path = tmp_path / "c"
    stopped = compiled.run(
        steps=ENDLESS_STEPS, checkpoint=path, progress=lambda p: p.done < 100, **arguments
    )
    assert stopped.stopped_by is StopReason.INTERRUPTED
    steps = int(stopped.state["step"]) + 10
    resumed = compiled.run(steps=steps, resume=path, **arguments)
    rows = compiled.run(steps=steps, **{**arguments, "output": None})
    assert resumed["walk.x"].shape == (steps,)
    assert resumed["walk.x.mean"] == rows["walk.x.mean"]
