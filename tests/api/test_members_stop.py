"""Members and trials with individual termination conditions equal single runs on every engine."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.cli.text import results_as_text
from mdf_loop.errors import NotFiniteError, UnsupportedError
from mdf_loop.ir import StopReason
from mdf_loop.run import members_stepper
from tests.long_runs.helpers import Case, chunked, resumed, same_results, unbroken
from tests.models.loops import loop_model

DRIFTS = [0.5, 1.0, -2.0, 0.05]


def diffusion(recorded: str = "", **more: Any) -> dict[str, Any]:
    """Return a model in which x drifts with noise until x leaves (-1, 1), with recorded values of x."""
    return loop_model(
        {"cond": True, "v_initial": "(start, 0)", **more},
        {
            "x_next": "x + drift * 0.02 + 0.2 * numpy.random.uniform(-1.0, 1.0)",
            "k_next": "k + 1",
            "trace": "x",
            "steps": "k",
        },
        port_values={"drift": 0.5, "start": 0.0},
        carried="x k",
        recorded=recorded,
        go="abs(x + drift * 0.02) < 1.0",
    )


def in_chunks(progress: Any) -> bool:
    """Accept a progress report, so that the run proceeds in chunks."""
    return True


@pytest.mark.parametrize("followed", [None, in_chunks])
def test_trials_equal_single_trials(followed: Any) -> None:
    compiled = mdf_loop.compile(diffusion(), device="cpu")
    joint_run = compiled.run(trials=40, progress=followed)
    assert len(set(joint_run["r1"].tolist())) > 5
    for k in range(0, 40, 7):
        single_run = compiled.run(trials=[k], engine="interpreter")
        assert (joint_run["r0"][k], joint_run["r1"][k]) == (
            single_run["r0"][0],
            single_run["r1"][0],
        )
    first = compiled.run()
    assert (first["r0"], first["r1"]) == (joint_run["r0"][0], joint_run["r1"][0])
    report = joint_run.loops["A.loop"]
    assert report.iterations.tolist() == joint_run["r1"].tolist()
    assert set(report.stopped_by.tolist()) == {StopReason.CONDITION}


def test_prefixes_and_parts_of_trials_are_the_same() -> None:
    compiled = mdf_loop.compile(diffusion(), device="cpu")
    all_trials = compiled.run(trials=300, progress=in_chunks)
    for trials in (range(1), range(7), range(100, 200)):
        part = compiled.run(trials=trials)
        for name in ("r0", "r1"):
            assert part[name].tobytes() == all_trials[name][trials.start : trials.stop].tobytes()


def test_chunks_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = mdf_loop.compile(diffusion(recorded="trace steps"), device="cpu")
    unbroken_results = compiled.run(trials=30)
    for elements, least in ((1, 1), (100, 2), (1 << 20, 1 << 20)):
        monkeypatch.setattr(members_stepper, "CHUNK_MEMBER_ITERATIONS", elements)
        monkeypatch.setattr(members_stepper, "MIN_CHUNK_ITERATIONS", least)
        results = compiled.run(trials=30, progress=in_chunks)
        for name in unbroken_results:
            np.testing.assert_array_equal(results[name], unbroken_results[name])
            assert results[name].dtype == unbroken_results[name].dtype
        assert results.lengths["A.r2"].tolist() == unbroken_results.lengths["A.r2"].tolist()


@pytest.mark.parametrize("followed", [None, in_chunks])
@pytest.mark.parametrize("engine", ["onnxruntime", "interpreter"])
def test_recordings_are_padded_and_have_their_lengths(followed: Any, engine: str) -> None:
    compiled = mdf_loop.compile(diffusion(recorded="trace steps"), device="cpu")
    results = compiled.run(trials=9, progress=followed, engine=engine)
    counts = results["r1"].astype(int).tolist()
    assert results.lengths["A.r2"].tolist() == results.lengths["A.r3"].tolist() == counts
    assert results["r2"].shape == results["r3"].shape == (9, max(counts))
    assert results["r3"].dtype == np.int64
    assert [row.tolist() for row in results.rows("r3")] == [
        row[:count].tolist() for row, count in zip(results["r3"], counts, strict=True)
    ]
    for k, count in enumerate(counts):
        single_run = compiled.run(trials=[k])
        assert single_run["r2"][0].tobytes() == results["r2"][k, :count].tobytes()
        assert single_run["r3"].dtype == np.int64
        assert np.isnan(results["r2"][k, count:]).all()
        assert not results["r3"][k, count:].any()
    content = json.loads(results.to_json())["outputs"]["A.r2"]
    assert content["lengths"] == counts
    assert results.to_xarray()["A.r2.length"].dims == ("trial",)


def test_equal_row_counts_keep_integers() -> None:
    """Check integer rows of members whose equal row counts are known only at run time."""
    model = loop_model(
        {"cond": True, "v_initial": "(0,)"},
        {"x_next": "x + 1", "y": "x"},
        port_values={"last": 3},
        carried="x",
        recorded="y",
        go="x + 1 < last",
    )
    results = mdf_loop.compile(model, device="cpu").run(sweep={"last": [3, 3]})
    assert results["r1"].tolist() == [[0, 1, 2]] * 2
    assert results["r1"].dtype == np.int64
    assert results.lengths["A.r1"].tolist() == [3, 3]


@pytest.mark.parametrize("followed", [None, in_chunks])
def test_a_sweep_with_trials(followed: Any) -> None:
    compiled = mdf_loop.compile(diffusion(recorded="trace"), device="cpu")
    both = compiled.run(sweep={"drift": DRIFTS}, trials=5, progress=followed)
    assert both["r1"].shape == both.loops["A.loop"].iterations.shape == (4, 5)
    assert both.loops["A.loop"].stopped_by.shape == both.lengths["A.r2"].shape == (4, 5)
    for index, drift in enumerate(DRIFTS):
        one = compiled.run({"drift": drift}, trials=5)
        assert both["r1"][index].tolist() == one["r1"].tolist()
        assert both["r0"][index].tobytes() == one["r0"].tobytes()


@pytest.mark.parametrize("followed", [None, in_chunks])
@pytest.mark.parametrize("word", ["M", "bound"])
def test_each_member_has_its_own_bound(followed: Any, word: str) -> None:
    model = diffusion(**({"M": 40} if word == "M" else {}))
    bound = {} if word == "M" else {"max_iterations": 40}
    compiled = mdf_loop.compile(model, device="cpu", **bound)
    results = compiled.run(trials=30, progress=followed)
    report = results.loops["A.loop"]
    at_end = report.iterations == 40
    assert 0 < at_end.sum() < 30
    limit = StopReason.TRIP_COUNT if word == "M" else StopReason.MAX_ITERATIONS
    assert (report.stopped_by[~at_end] == StopReason.CONDITION).all()
    assert limit in set(report.stopped_by[at_end].tolist())
    completed = StopReason.COMPLETED if word == "M" else StopReason.MAX_ITERATIONS
    assert results.stopped_by is completed


@pytest.mark.parametrize("followed", [None, in_chunks])
def test_a_trip_count_of_each(followed: Any) -> None:
    model = loop_model(
        {"M": "times", "v_initial": "(1.0,)"},
        {"x_next": "x * 1.5"},
        port_values={"times": 3},
        carried="x",
    )
    results = mdf_loop.compile(model, device="cpu").run(
        sweep={"times": [0, 5, 2]}, progress=followed
    )
    assert results["r0"].tolist() == [1.0, 1.5**5, 1.5**2]
    report = results.loops["A.loop"]
    assert report.iterations.tolist() == [0, 5, 2]
    assert set(report.stopped_by.tolist()) == {StopReason.TRIP_COUNT}


def test_loop_reports_are_readable_in_the_model() -> None:
    model = diffusion(M=40)
    node = model["model"]["graphs"]["graph"]["nodes"]["A"]
    for word in ("iterations", "condition", "stopped_by"):
        node["output_ports"][word] = {"value": f"loop.{word}"}
    compiled = mdf_loop.compile(model, device="cpu")
    results = compiled.run(trials=30)
    report = results.loops["A.loop"]
    assert results["iterations"].tolist() == report.iterations.tolist()
    assert results["stopped_by"].tolist() == [each.code for each in report.stopped_by]
    for k in range(0, 30, 7):
        single_run = compiled.run(trials=[k], engine="interpreter")
        for word in ("iterations", "condition", "stopped_by"):
            assert results[word][k] == single_run[word][0]


def test_loop_reports_of_members_in_json() -> None:
    compiled = mdf_loop.compile(diffusion(M=40), device="cpu")
    results = compiled.run(trials=30)
    least = results.loops["A.loop"].iterations.min()
    (line,) = (
        line for line in results_as_text(results, "").splitlines() if line.startswith("loop ")
    )
    assert line.startswith(f"loop A.loop: {least} to 40 iterations; ")
    assert StopReason.CONDITION.value in line
    loop_report = json.loads(results.to_json())["loops"]["A.loop"]
    assert loop_report["iterations"] == results.loops["A.loop"].iterations.tolist()
    assert set(loop_report["stopped_by"]) == {"condition", "trip_count"}


def test_a_loop_that_is_alike_for_all_is_reported_once() -> None:
    model = loop_model(
        {"M": 3, "v_initial": "(x0,)"}, {"x_next": "x * 2"}, port_values={"x0": 1.0}, carried="x"
    )
    report = mdf_loop.compile(model, device="cpu").run(sweep={"x0": [1.0, 2.0]}).loops["A.loop"]
    assert (report.iterations, report.stopped_by) == (3, StopReason.TRIP_COUNT)


# --- stopped from outside -------------------------------------------------------------------------


def endless() -> dict[str, Any]:
    """Return a loop with a bound `last` that members can set to infinity."""
    return loop_model(
        {"cond": True, "v_initial": "(0.0,)"},
        {"x_next": "x + 1.0"},
        port_values={"last": 3.0},
        carried="x",
        go="x + 1.0 < last",
    )


def test_a_time_limit_keeps_those_that_have_ended() -> None:
    compiled = mdf_loop.compile(endless(), device="cpu")
    results = compiled.run(sweep={"last": [3.0, np.inf, 7.0]}, time_limit=1)
    assert results.stopped_by is StopReason.TIME_LIMIT
    report = results.loops["A.loop"]
    assert results["r0"][[0, 2]].tolist() == [3.0, 7.0]
    assert report.iterations[[0, 2]].tolist() == [3, 7]
    assert report.iterations[1] == results["r0"][1] > 7
    reasons = [StopReason.CONDITION, StopReason.TIME_LIMIT, StopReason.CONDITION]
    assert report.stopped_by.tolist() == reasons


@pytest.mark.parametrize("seed", range(4))
def test_going_on_from_a_checkpoint(seed: int, tmp_path: Any, monkeypatch: Any) -> None:
    case = Case(diffusion(recorded="trace steps"), {"trials": 20})
    expected = unbroken(case)
    results, interruptions = resumed(case, seed, tmp_path / "run.ckpt")
    assert interruptions.all
    same_results(results, expected)
    same_results(chunked(case, seed)[0], expected)


def test_a_checkpoint_after_a_loop_with_member_conditions(tmp_path: Any) -> None:
    """Check that the report of the first loop is kept while the second loop runs."""
    model = diffusion()
    node = model["model"]["graphs"]["graph"]["nodes"]["A"]
    node["functions"]["again"] = node["functions"].pop("loop") | {}
    node["functions"] = {"loop": node["functions"]["again"]} | node["functions"]
    node["output_ports"]["later"] = {"value": "again.iterations"}
    case = Case(model, {"trials": 12})
    expected = unbroken(case)
    assert set(expected.loops) == {"A.loop", "A.again"}
    for seed in range(6):
        same_results(resumed(case, seed, tmp_path / "run.ckpt")[0], expected)


# --- over time ------------------------------------------------------------------------------------


def test_a_loop_in_each_step() -> None:
    model = diffusion()
    compiled = mdf_loop.compile(model, device="cpu")
    joint_run = compiled.run(trials=6, steps=8)
    assert joint_run["r1"].shape == (6, 8)
    for k in range(6):
        single_run = compiled.run(trials=[k], steps=8, engine="interpreter")
        for name in ("r0", "r1"):
            assert joint_run[name][k].tobytes() == single_run[name][0].tobytes()
    first = compiled.run(steps=8)
    assert first["r0"].tobytes() == joint_run["r0"][0].tobytes()


def test_steps_go_on_from_a_state() -> None:
    """Check that a resumed run keeps the number of random draws of each member."""
    compiled = mdf_loop.compile(diffusion(), device="cpu")
    unbroken_run = compiled.run(trials=6, steps=8)
    first_part = compiled.run(trials=6, steps=3)
    second_part = compiled.run(trials=6, steps=5, state=first_part.state)
    assert second_part["r0"].tobytes() == np.ascontiguousarray(unbroken_run["r0"][:, 3:]).tobytes()


def test_recordings_of_their_own_length_in_each_step_are_refused() -> None:
    compiled = mdf_loop.compile(diffusion(recorded="trace"), device="cpu")
    for steps in (1, 3):
        with pytest.raises(UnsupportedError, match="its own number of rows"):
            compiled.run(trials=4, steps=steps)


# --- schedules ------------------------------------------------------------------------------------


def scheduled() -> dict[str, Any]:
    """Return a model in which A runs until x >= 2 and the loop in B runs when x has not decreased."""
    up = {
        "parameters": {"x": {"default_initial_value": 0.0, "value": "x + 0.3 + 0.5 * z"}},
        "functions": {"z": {"value": "numpy.random.normal()"}},
        "output_ports": {"x": {"value": "x"}},
    }
    halves = loop_model(
        {"cond": "x > 0.1", "v_initial": "(x, 0)"},
        {"y_next": "y * 0.5", "k_next": "k + 1"},
        port_values={"x": 0.0},
        carried="y k",
        go="y * 0.5 > 0.1",
    )["model"]["graphs"]["graph"]["nodes"]["A"]
    halves["functions"]["loop"]["args"]["cond"] = "begins"
    halves["parameters"] = {"begins": {"value": "x > 0.1"}}
    edge = {"sender": "A", "sender_port": "x", "receiver": "B", "receiver_port": "x"}
    threshold = {"dependency": "A", "parameter": "x", "comparator": ">="}
    when = {"type": "Threshold", "kwargs": threshold | {"threshold": 0.2}}
    ends = {"type": "Threshold", "kwargs": threshold | {"threshold": 2.0}}
    graph = {
        "nodes": {"A": up, "B": halves},
        "edges": {"e": edge},
        "conditions": {
            "node_specific": {"B": when},
            "termination": {"environment_state_update": ends},
        },
    }
    return {"model": {"format": "ModECI MDF v0.4", "graphs": {"graph": graph}}}


@pytest.mark.parametrize("steps", [None, 4])
def test_schedules_that_are_decided_while_running(steps: int | None) -> None:
    compiled = mdf_loop.compile(scheduled(), device="cpu")
    joint_run = compiled.run(trials=24, steps=steps, record=["A.x"])
    assert len(set(joint_run["A.x"].ravel().tolist())) > 20
    for k in range(0, 24, 5):
        single_run = compiled.run(trials=[k], steps=steps, record=["A.x"], engine="interpreter")
        for name in joint_run:
            np.testing.assert_array_equal(joint_run[name][k], single_run[name][0])


@pytest.mark.parametrize("fails", [False, True])
def test_non_finite_values_after_the_end_of_a_member_are_ignored(fails: bool) -> None:
    """Check that a pole after the end of a member is not reported, and a pole before the end is."""
    model = loop_model(
        {"cond": True, "v_initial": "(0.0, 0.0)"},
        {"x_next": "x + 1.0", "y_next": "1.0 / (x - pole)", "row": "1.0 / (x - pole)"},
        port_values={"last": 5.0, "pole": 0.5},
        carried="x y",
        recorded="row",
        go="x + 1.0 < last",
    )
    compiled = mdf_loop.compile(model, device="cpu")
    sweep = {"last": [5.0, 20.0], "pole": [5.0, 7.0 if fails else 100.0]}
    if fails:
        with pytest.raises(NotFiniteError, match="at step 7"):
            compiled.run(sweep=sweep, nan="error")
    else:
        results = compiled.run(sweep=sweep, nan="error")
        assert results.loops["A.loop"].iterations.tolist() == [5, 20]
