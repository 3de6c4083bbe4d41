"""Runs that end with nan or infinite values: a note and a warning, unless such values are expected."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.results.data import Results

REMEDY = 'nan="stop" (--nan stop) ends a run at the first such value'


def model(nodes: Mapping[str, Any], **graph: Any) -> dict[str, Any]:
    return {"M": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": nodes, **graph}}}}


def cell(**ports: str) -> dict[str, Any]:
    """Return a node with a state that becomes infinite and with output ports computed from the state."""
    return {
        "input_ports": {"I": {"default_value": 1.0}},
        "parameters": {
            "rate": {"value": 2.0},
            "x": {"default_initial_value": 1.0, "time_derivative": "I * rate * x * x"},
        },
        "output_ports": {name: {"value": text} for name, text in ports.items()},
    }


GROWING = model({"cell": cell(x="x", big="x > 10")}, metadata={"time_unit": "ms"})


@pytest.fixture(scope="module")
def growing() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(GROWING, device="cpu")


def run_with_warning(compiled: mdf_loop.CompiledModel, *inputs: Any, **words: Any) -> Results:
    """Run the model and check that the run gives one warning with the text of the note."""
    with pytest.warns(RuntimeWarning) as caught:
        results = compiled.run(*inputs, **words)
    assert [str(each.message) for each in caught] == [*results.notes]
    assert [each.filename for each in caught] == [__file__]
    assert len(results.notes) == 1
    return results


def run_silently(compiled: mdf_loop.CompiledModel, *inputs: Any, **words: Any) -> Results:
    """Run the model and check that the run gives no warning and no note."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = compiled.run(*inputs, **words)
    assert results.notes == ()
    return results


# --- over time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["onnxruntime", "interpreter", "modeci"])
def test_a_run_names_the_first_output_its_row_and_the_remedy(
    growing: mdf_loop.CompiledModel, engine: str
) -> None:
    results = run_with_warning(growing, steps=40, dt=0.1, engine=engine)
    assert results.notes == (f"'cell.x' became infinite in row 16 (time 1.6 ms): {REMEDY}",)
    assert np.isfinite(results["x"]).tolist() == [k < 16 for k in range(40)]
    run_silently(growing, steps=16, dt=0.1, engine=engine)


def test_rows_are_counted_as_they_are_kept(growing: mdf_loop.CompiledModel) -> None:
    results = run_with_warning(growing, steps=40, dt=0.1, every=5)
    assert results.notes == (f"'cell.x' became infinite in row 4 (time 2 ms): {REMEDY}",)


@pytest.mark.parametrize("form", ["off", pytest.param("require", marks=pytest.mark.native)])
def test_native_and_standard_loops_say_the_same(form: str) -> None:
    compiled = mdf_loop.compile(GROWING, device="cpu", native=form)
    results = run_with_warning(compiled, steps=3000, dt=0.1)
    assert results.notes == (f"'cell.x' became infinite in row 16 (time 1.6 ms): {REMEDY}",)


def test_ignore_is_silent_and_stop_says_it_itself(growing: mdf_loop.CompiledModel) -> None:
    run_silently(growing, steps=40, dt=0.1, nan="ignore")
    assert "was infinite at step 16" in run_silently(growing, steps=40, dt=0.1, nan="stop").reason


def test_a_state_that_no_output_shows_is_named(growing: mdf_loop.CompiledModel) -> None:
    results = run_with_warning(growing, steps=40, dt=0.1, only=["cell.big"])
    assert results.notes == (f"the state 'cell.x' is infinite after the last step: {REMEDY}",)


def test_a_reduction_is_named(growing: mdf_loop.CompiledModel) -> None:
    results = run_with_warning(
        growing, steps=40, dt=0.1, only=["cell.big"], reduce={"cell.x": "max"}
    )
    assert results.notes == (f"'cell.x.max' is infinite: {REMEDY}",)


@pytest.mark.parametrize("start", ["-numpy.inf", "numpy.nan"])
def test_a_state_that_waits_for_its_first_value_is_no_fault(start: str) -> None:
    node = cell(x="x")
    node["parameters"] = {"last": {"default_initial_value": start, "value": "last"}}
    node["output_ports"] = {"never": {"value": "numpy.isfinite(last)"}}
    run_silently(mdf_loop.compile(model({"cell": node}), device="cpu"), steps=5, dt=0.1)


def test_a_value_that_is_nan_in_passing_is_left_to_stop() -> None:
    node = cell(y="1 / (I - 2)", I="I")
    compiled = mdf_loop.compile(model({"cell": node}), device="cpu")
    run_silently(compiled, {"I": np.array([1.0, 2.0, 3.0])}, steps=3)
    results = run_with_warning(compiled, {"I": np.array([1.0, 2.0, 3.0, np.nan])}, steps=4)
    assert results.notes == (f"'cell.y' became infinite in row 1 (step 1): {REMEDY}",)


def test_a_run_that_is_stopped_or_goes_on_says_it(
    growing: mdf_loop.CompiledModel, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "run.ckpt"
    unbroken_run = run_with_warning(growing, steps=40, dt=0.1)
    run_silently(growing, steps=10, dt=0.1, checkpoint=checkpoint)
    assert (
        run_with_warning(growing, steps=40, dt=0.1, resume=checkpoint).notes == unbroken_run.notes
    )
    # No steps are left.
    assert (
        run_with_warning(growing, steps=40, dt=0.1, resume=checkpoint).notes == unbroken_run.notes
    )
    first_part = run_silently(growing, steps=10, dt=0.1)
    later = run_with_warning(growing, steps=30, dt=0.1, state=first_part.state)
    assert "in row 6 (time 1.6 ms)" in later.notes[0]
    stopped = run_with_warning(growing, steps=10**9, dt=0.1, time_limit=0.3, every=10**6)
    assert stopped.stopped_by is mdf_loop.StopReason.TIME_LIMIT


# --- members --------------------------------------------------------------------------------------


def test_the_member_of_a_sweep_is_named(growing: mdf_loop.CompiledModel) -> None:
    rates = [0.01, 0.5, 2.0]
    results = run_with_warning(growing, steps=40, dt=0.1, sweep={"cell.rate": rates})
    assert results.notes == (
        f"'cell.x' of member 2 became infinite in row 16 (time 1.6 ms): {REMEDY}",
    )
    grid = mdf_loop.grid({"cell.rate": rates, "I": [1.0, 2.0]})
    results = run_with_warning(growing, steps=40, dt=0.1, sweep=grid)
    assert "'cell.x' of member 5 became infinite in row 13" in results.notes[0]
    run_silently(growing, steps=40, dt=0.1, sweep={"cell.rate": rates[:1]})


DRAWING = model(
    {"c": {"output_ports": {"x": {"value": "numpy.log(numpy.random.uniform() - 0.9)"}}}}
)


def test_the_trial_is_named_by_its_number() -> None:
    compiled = mdf_loop.compile(DRAWING, device="cpu")
    results = run_with_warning(compiled, trials=range(7, 20))
    first = 7 + int(np.flatnonzero(np.isnan(results["x"]))[0])
    assert results.notes[0].startswith(f"'c.x' of trial {first} is nan")
    statistics = run_with_warning(compiled, trials=range(7, 20), over_trials={"c.x": "mean"})
    assert statistics.notes == results.notes


# --- what is missing, and may be ------------------------------------------------------------------


def late_node_model(value: str) -> dict[str, Any]:
    """Return a model with a node that first runs once another node has counted to four."""
    counting = {
        "parameters": {"n": {"default_initial_value": 0.0, "value": "n + 1"}},
        "output_ports": {"n": {"value": "n"}},
    }
    waiting = {
        "input_ports": {"n": {}},
        "parameters": {"by": {"value": 1.0}, "y": {"value": value}},
        "output_ports": {"y": {"value": "y"}},
    }
    edge = {"sender": "fast", "sender_port": "n", "receiver": "slow", "receiver_port": "n"}
    threshold = {"dependency": "fast", "parameter": "n", "threshold": 4, "comparator": ">="}
    return model(
        {"fast": counting, "slow": waiting},
        edges={"e": edge},
        conditions={
            "node_specific": {"slow": {"type": "Threshold", "kwargs": threshold}},
            "termination": {
                "environment_state_update": {"type": "AfterNPasses", "kwargs": {"n": 1}}
            },
        },
    )


@pytest.mark.parametrize("engine", ["onnxruntime", "interpreter", "modeci"])
def test_a_node_that_has_not_run_is_no_fault(engine: str) -> None:
    compiled = mdf_loop.compile(late_node_model("n"), device="cpu")
    results = run_silently(compiled, steps=2, engine=engine)
    assert np.isnan(results["slow.y"]).all()
    results = run_silently(compiled, steps=9, engine=engine)
    missing = int(np.isnan(results["slow.y"]).sum())
    assert missing
    zero = mdf_loop.compile(late_node_model("numpy.log(n - n)"), device="cpu")
    first = f"'slow.y' became infinite in row {missing} (step {missing})"
    assert run_with_warning(zero, steps=9, engine=engine).notes[0].startswith(first)


def test_rows_before_the_first_run_are_counted_for_each_member_and_trial() -> None:
    compiled = mdf_loop.compile(
        late_node_model("numpy.log(n * by - n) * numpy.random.uniform()"), device="cpu"
    )
    options: dict[str, Any] = {"steps": 9, "trials": 2}
    results = run_silently(compiled, **options, sweep={"slow.by": [2.0, 3.0]})
    missing = int(np.isnan(results["slow.y"][0, 0]).sum())
    notes = run_with_warning(compiled, **options, sweep={"slow.by": [2.0, 1.0]}).notes
    first = f"'slow.y' of member 1, trial 0 became infinite in row {missing} "
    assert notes[0].startswith(first)


def test_rows_before_the_first_run_are_counted_across_a_checkpoint(tmp_path: Path) -> None:
    compiled, path = (
        mdf_loop.compile(late_node_model("numpy.log(n - n)"), device="cpu"),
        tmp_path / "c.ckpt",
    )
    unbroken_run = run_with_warning(compiled, steps=9)
    compiled.run(steps=2, checkpoint=path)
    assert run_with_warning(compiled, steps=9, resume=path).notes == unbroken_run.notes


def waiting(recorded: str) -> mdf_loop.CompiledModel:
    """Return a loop that records rows until a value has decayed; the members have different row counts."""
    decay = {
        "input_ports": {"v": {}, "leak": {}},
        "parameters": {"next": {"value": "v - leak * v"}},
        "output_ports": {
            "next": {"value": "next"},
            "row": {"value": recorded},
            "on": {"value": "next > 0.1"},
        },
    }
    inputs = {"inputs": ["i", "go", "v"], "outputs": ["on", "next", "row"]}
    args = {
        "cond": True,
        "v_initial": "(1.0,)",
        "body": {"step": {"metadata": inputs, "nodes": {"decay": decay}}},
    }
    node = {
        "input_ports": {"leak": {"default_value": 0.5}},
        "functions": {"wait": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"trace": {"value": "wait[1]"}},
    }
    return mdf_loop.compile(model({"cell": node}), device="cpu")


def test_padding_is_no_fault() -> None:
    results = run_silently(waiting("v"), sweep={"leak": [0.9, 0.5, 0.75]})
    assert results.lengths["cell.trace"].tolist() == [1, 4, 2]
    assert np.isnan(results["cell.trace"]).any()
    infinite = waiting("v + numpy.log(v - 0.125)")  # v is 0.125 in the last row of member 1
    notes = run_with_warning(infinite, sweep={"leak": [0.9, 0.5, 0.75]}).notes
    assert notes == (f"'cell.trace' of member 1 is infinite in row 3: {REMEDY}",)


# --- one evaluation -------------------------------------------------------------------------------


def test_one_evaluation_is_looked_at() -> None:
    compiled = mdf_loop.compile(model({"c": cell(y="1 / I")}), device="cpu")
    run_silently(compiled, {"I": 2.0})
    assert run_with_warning(compiled, {"I": 0.0}).notes == (f"'c.y' is infinite: {REMEDY}",)
    notes = run_with_warning(compiled, {"I": np.array([[1.0], [np.nan]])}).notes
    assert notes == (f"'c.y' is nan in row 1: {REMEDY}",)
    notes = run_with_warning(compiled, sweep={"I": [1.0, 0.0]}).notes
    assert notes == (f"'c.y' of member 1 is infinite: {REMEDY}",)


# --- what never warns -----------------------------------------------------------------------------


def test_fits_gradients_and_comparisons_never_warn(growing: mdf_loop.CompiledModel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        growing.gradient({"cell.x": "last"}, ["cell.rate"], steps=30, dt=0.1)
        data = {"time": np.arange(8) * 0.1, "cell.x": np.linspace(1, 2, 8)}
        growing.fit(data, {"cell.rate": (0.1, 100.0)}, dt=0.1, points=8, polish=1, progress=False)
        mdf_loop.verify(GROWING, steps=20, dt=0.1)


# --- dt -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [0.0, -0.05, "0ms", "-1us", np.float64(-1.0), -0.0])
def test_a_dt_that_is_not_longer_than_zero_is_refused(
    growing: mdf_loop.CompiledModel, dt: Any
) -> None:
    data = {"time": np.arange(3.0), "cell.x": np.ones(3)}
    free = {"cell.rate": (0.1, 1.0)}
    for call in (
        lambda: growing.run(steps=3, dt=dt),
        lambda: growing.run(dt=dt, engine="modeci"),
        lambda: growing.run(steps=3, dt=dt, engine="modeci"),
        lambda: growing.fit(data, free, dt=dt),
        lambda: mdf_loop.recover(growing, free, steps=3, dt=dt, noise=0.1),
        lambda: growing.differentiate({"cell.x": "last"}, ["cell.rate"], steps=3, dt=dt),
        lambda: growing.gradient({"cell.x": "last"}, ["cell.rate"], steps=3, dt=dt),
        lambda: growing.jacobian(["cell.x"], ["cell.rate"], steps=3, dt=dt),
        lambda: growing.hessian({"cell.x": "last"}, ["cell.rate"], steps=3, dt=dt),
        lambda: growing.to_onnx(steps=3, dt=dt),
        lambda: mdf_loop.verify(GROWING, steps=3, dt=dt),
    ):
        with pytest.raises(InputError, match="dt must be longer than zero, but is"):
            call()
