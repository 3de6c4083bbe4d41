"""Loops in chunks: loop reports, and outputs after an early stop."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import RecordShapeError, RunError
from mdf_loop.ir import StopReason
from mdf_loop.lower.builder import Options
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.loop_stepper import LoopStepper
from mdf_loop.run.onnxruntime.session import Session
from mdf_loop.run.outputs import LoopReport
from tests.models.growing import GROWING_ROW
from tests.models.loops import loop_model
from tests.placements import STANDARD
from tests.run.segment_running import (
    CHAIN,
    NEWTON,
    after,
    by_chance,
    cut,
    follow_loop,
    opened,
    run,
    run_in_segments,
    same_outputs,
)

# --- how it went ----------------------------------------------------------------------------------


def reports(source: Any, follower: Any = follow_loop, **inputs: Any) -> Mapping[str, LoopReport]:
    program, arrays = opened(source, inputs.pop("options", None), **inputs)
    segments = cut(program)
    assert segments is not None
    return run(segments, arrays, follower).loops


def test_why_each_loop_has_stopped() -> None:
    program, arrays = opened(CHAIN)
    segments = cut(program)
    assert segments is not None
    partial_run = run(segments, arrays, follow_loop)
    assert partial_run.loops["A.f"] == LoopReport(8, StopReason.TRIP_COUNT)
    assert partial_run.loops["B.f"].stopped_by is StopReason.CONDITION
    assert partial_run.loops["B.f"].iterations == int(partial_run.outputs["B.f.iterations"]) > 8
    bounded = reports(NEWTON, options=Options(max_iterations=3))
    assert bounded == {"A.loop": LoopReport(3, StopReason.MAX_ITERATIONS)}
    args = {"M": 3, "cond": True, "v_initial": "(1.0,)"}
    both = loop_model(args, {"x_next": "x + 1"}, carried="x", go="x < 3")
    assert reports(both) == {"A.loop": LoopReport(3, StopReason.CONDITION)}


@pytest.mark.parametrize(
    ("args", "go", "options", "total"),
    [
        ({"M": 5}, "True", Options(), 5),
        ({"M": "m"}, "True", Options(), 0),
        ({"M": 5, "cond": True}, "x < 3", Options(), None),
        ({"cond": True}, "x < 3", Options(), None),
        ({"cond": True}, "x < 3", Options(max_iterations=8), None),
        ({}, "True", Options(max_iterations=8), 8),
    ],
)
def test_the_total_is_known_where_no_condition_decides(
    args: Any, go: str, options: Options, total: int | None
) -> None:
    totals = []

    def follower(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
        totals.append(stepper.total)
        return follow_loop(stepper, stopping)

    args = {**args, "v_initial": "(1.0,)"}
    source = loop_model(args, {"x_next": "x + 1"}, carried="x", go=go, port_values={"m": -5})
    program, arrays = opened(source, options)
    segments = cut(program)
    assert segments is not None
    run(segments, arrays, follower)
    assert totals == [total]


# --- stopped --------------------------------------------------------------------------------------


def run_until_stopped(source: Any, follower: Any, **inputs: Any) -> Any:
    """Return the outputs of a stopped run and those of the whole program."""
    program, arrays = opened(source, **inputs)
    segments = cut(program)
    assert segments is not None
    return run(segments, arrays, follower), Session(program, STANDARD).run(arrays)


def test_stopped_later_operations_use_the_partial_results() -> None:
    partial_run, unbroken_outputs = run_until_stopped(CHAIN, after(3))
    last = unbroken_outputs["A.rows"][2]
    assert partial_run.stopped_by is StopReason.INTERRUPTED
    assert partial_run.outputs["A.rows"].tolist() == unbroken_outputs["A.rows"][:3].tolist()
    assert partial_run.outputs["A.last"] == partial_run.outputs["C.x"] * 1 == last
    assert partial_run.loops["A.f"] == LoopReport(3, StopReason.INTERRUPTED)


def test_stopped_later_loops_are_not_begun() -> None:
    partial_run, unbroken_outputs = run_until_stopped(CHAIN, after(3))
    rows = unbroken_outputs["A.rows"][:3]
    assert partial_run.loops["B.f"] == LoopReport(0, StopReason.INTERRUPTED)
    assert partial_run.outputs["B.f.iterations"] == 0
    assert partial_run.outputs["B.rows"].shape == (0,)
    assert partial_run.outputs["B.last"] == rows[2] * rows.sum()


def test_stopped_missing_outputs_have_a_reason() -> None:
    partial_run, unbroken_outputs = run_until_stopped(CHAIN, after(3))
    assert set(partial_run.missing_reasons) == {"C.z"}
    assert "a subscript is outside of its array" in partial_run.missing_reasons["C.z"]
    assert set(partial_run.outputs) == set(unbroken_outputs) - {"C.z"}


def test_stopped_in_the_second_loop() -> None:
    partial_run, unbroken_outputs = run_until_stopped(CHAIN, after(10))
    assert partial_run.loops["A.f"] == LoopReport(8, StopReason.TRIP_COUNT)
    assert partial_run.loops["B.f"] == LoopReport(10, StopReason.INTERRUPTED)
    assert partial_run.outputs["B.rows"].tolist() == unbroken_outputs["B.rows"][:10].tolist()
    assert partial_run.outputs["C.z"] == unbroken_outputs["B.rows"][0] + 10
    assert not partial_run.missing_reasons


def test_stopped_before_the_first_iteration() -> None:
    partial_run, _ = run_until_stopped(CHAIN, lambda stepper, stopping: StopReason.TIME_LIMIT)
    assert partial_run.outputs["A.rows"].shape == (0,)
    assert partial_run.outputs["A.last"] == 1.5
    assert partial_run.loops["A.f"] == LoopReport(0, StopReason.TIME_LIMIT)


def test_stopped_rows_that_are_all_alike_are_as_many_as_iterations() -> None:
    args = {"M": 50, "v_initial": "(1.0,)"}
    source = loop_model(
        args, {"x_next": "x + a", "r": "a"}, carried="x", recorded="r", port_values={"a": 0.5}
    )
    partial_run, _ = run_until_stopped(source, after(7))
    assert partial_run.outputs["A.r1"].tolist() == [0.5] * 7


ENDLESS = loop_model(
    {"cond": True, "v_initial": "(0.0,)"}, {"x_next": "x + 1"}, carried="x", go="x >= 0"
)


@pytest.mark.parametrize("reason", [StopReason.TIME_LIMIT, StopReason.INTERRUPTED])
def test_a_loop_that_never_ends_is_stopped(reason: StopReason) -> None:
    program, arrays = opened(ENDLESS)
    segments = cut(program)
    assert segments is not None
    limit = 0.3 if reason is StopReason.TIME_LIMIT else None
    with Stopping(limit) as stopping:
        if limit is None:
            threading.Timer(0.3, stopping.request_stop, [reason]).start()
        partial_run = run_in_segments(segments, arrays, stopping)
    assert partial_run.stopped_by is reason
    assert partial_run.loops["A.loop"].stopped_by is reason
    assert partial_run.outputs["A.r0"] == partial_run.loops["A.loop"].iterations > 0


def test_stopped_in_a_straight_segment_dependent_outputs_are_missing() -> None:
    program, arrays = opened(CHAIN)
    segments = cut(program)
    assert segments is not None

    def follower(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
        reason = follow_loop(stepper, Stopping())
        stopping.request_stop(StopReason.TIME_LIMIT)
        while not stopping._is_terminated:
            pass
        return reason

    with Stopping(grace=0.0) as stopping:
        partial_run = run_in_segments(segments, arrays, stopping, follower)
    assert partial_run.stopped_by is StopReason.TIME_LIMIT
    assert set(partial_run.outputs) >= {"A.rows", "A.last", "C.x"}
    assert partial_run.missing_reasons["B.rows"] == StopReason.TIME_LIMIT.value


# --- errors ---------------------------------------------------------------------------------------


def test_rows_of_another_shape_than_those_of_earlier_chunks() -> None:
    program, arrays = opened(GROWING_ROW, n=3)
    segments = cut(program)
    assert segments is not None
    for longest in (1, 5):
        with pytest.raises(
            RecordShapeError, match=r"'longer' has shape \[2\] .* but \[4\]"
        ) as caught:
            run(segments, arrays, by_chance(np.random.default_rng(0), longest))
        assert caught.value.findings[0].where.endswith(".functions['grow']")


def test_an_error_in_an_iteration_names_its_place() -> None:
    args = {"M": 9, "v_initial": "(1.0,)"}
    source = loop_model(
        args, {"x_next": "x + a[i]"}, carried="x", port_values={"a": [1.0, 2.0, 3.0]}
    )
    program, arrays = opened(source)
    segments = cut(program)
    assert segments is not None
    sentences = []
    for attempt in (
        lambda: run(segments, arrays, by_chance(np.random.default_rng(0), 2)),
        lambda: Session(program, STANDARD).run(arrays),
    ):
        with pytest.raises(RunError) as caught:
            attempt()
        sentences.append(caught.value.findings[0])
    assert sentences[0].where == sentences[1].where != ""
    assert sentences[0].hint == sentences[1].hint


# --- several threads ------------------------------------------------------------------------------


def test_several_threads_use_the_same_pieces() -> None:
    program, arrays = opened(CHAIN)
    segments = cut(program)
    assert segments is not None
    starts = [0.1 * k for k in range(8)]
    single_run = [Session(program, STANDARD).run({**arrays, "x": np.array(x)}) for x in starts]
    outputs: dict[int, Any] = {}

    def work(number: int) -> None:
        inputs = {**arrays, "x": np.array(starts[number])}
        follower = by_chance(np.random.default_rng(number))
        outputs[number] = run_in_segments(segments, inputs, Stopping(), follower).outputs

    threads = [threading.Thread(target=work, args=[number]) for number in range(len(starts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, expected in enumerate(single_run):
        same_outputs(outputs[number], expected)


def test_loop_outputs_are_not_copied() -> None:
    program, arrays = opened(loop_model({"M": 1000}, {"y": "i * 0.5"}, recorded="y"))
    segments = cut(program)
    assert segments is not None
    steppers: list[LoopStepper] = []

    def follower(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
        steppers.append(stepper)
        return follow_loop(stepper, stopping)

    partial_run = run(segments, arrays, follower)
    (rows,) = steppers[0].rows.arrays().values()
    assert np.shares_memory(partial_run.outputs["A.r0"], rows)
    assert len(segments.segments) == 1


# --- what rests on how many rows there are --------------------------------------------------------

FIFTY = {"M": 50, "v_initial": "(1.0,)"}


def with_outputs(source: Any, **formulas: str) -> Any:
    """Return the model of one loop with additional outputs."""
    node = source["model"]["graphs"]["graph"]["nodes"]["A"]
    node["output_ports"] |= {name: {"value": text} for name, text in formulas.items()}
    return source


@pytest.mark.parametrize("row", ["x * 1", "a"])
def test_outputs_that_need_all_rows_are_missing_after_a_stop(row: str) -> None:
    source = loop_model(
        FIFTY, {"x_next": "x + a", "r": row}, carried="x", recorded="r", port_values={"a": 0.5}
    )
    more = {"mean": "numpy.mean(loop[1])", "last": "loop[1][-1]", "twice": "loop[0] * 2"}
    partial_run, unbroken_outputs = run_until_stopped(with_outputs(source, **more), after(7))
    assert set(partial_run.missing_reasons) == {"A.mean", "A.last"}
    assert partial_run.missing_reasons["A.mean"] == StopReason.INTERRUPTED.value
    assert partial_run.outputs["A.r1"].tolist() == unbroken_outputs["A.r1"][:7].tolist()
    assert partial_run.outputs["A.twice"] == 2 * partial_run.outputs["A.r0"] == 9.0
    complete, unbroken_outputs = run_until_stopped(with_outputs(source, **more), follow_loop)
    same_outputs(complete.outputs, unbroken_outputs)


def test_the_last_row_of_an_unfinished_loop_is_missing() -> None:
    args = {**FIFTY, "recordings": {"r": {"keep": "last"}}}
    source = loop_model(args, {"x_next": "x + 1", "r": "x * 2"}, carried="x", recorded="r")
    nothing, _ = run_until_stopped(source, lambda stepper, stopping: StopReason.TIME_LIMIT)
    assert "A.r1" in nothing.missing_reasons
    assert nothing.outputs["A.r0"] == 1.0
    partial_run, _ = run_until_stopped(source, after(3))
    assert partial_run.outputs["A.r1"] == 6.0
