"""Pregeneration of random numbers, which depend only on the iteration number, for many iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.importing.opening import open_document
from mdf_loop.ir import Loop, Op, Program
from mdf_loop.ir.check import check
from mdf_loop.lower.builder import Options
from mdf_loop.passes.segments.loop_segment import LoopSegment
from mdf_loop.passes.segments.pregenerate_random_numbers import pregenerate_random_numbers
from mdf_loop.passes.segments.split_into_segments import split_into_segments
from mdf_loop.pipeline import ONNXRUNTIME, passes_of_evaluation, prepare
from mdf_loop.reading import read
from mdf_loop.run.interpret import interpret
from tests.models.loops import loop_model
from tests.ops.op_running import session_of


def model(step: str = "x + 0.1 + 0.25 * numpy.random.normal()", more: str = "y") -> dict[str, Any]:
    return loop_model(
        {"cond": True, "v_initial": "(0.0, 0.0)"},
        {"x_next": step, "y_next": more},
        carried="x y",
        go="abs(x + y) < 1.0",
    )


def segment_of(source: Any, swept: str = "random_keys") -> LoopSegment:
    """Return the loop of trials, as a program of some iterations."""
    program = read(open_document(source), options=Options())
    segments = split_into_segments(prepare(program, ONNXRUNTIME, passes_of_evaluation({swept})))
    assert segments is not None
    (segment,) = (segment for segment in segments if isinstance(segment, LoopSegment))
    return segment


def inside(program: Program) -> list[str]:
    (loop,) = (op for op in program.ops if isinstance(op, Loop))
    return [op.op_type for op in loop.ops if isinstance(op, Op)]


def test_random_numbers_are_generated_before_the_loop() -> None:
    segment = segment_of(model())
    transformed = pregenerate_random_numbers(segment.program, segment.max_iterations)
    assert not check(transformed)
    assert sorted(inside(transformed)) == ["Abs", "Add", "Add", "Add", "Less"]
    (loop,) = (op for op in transformed.ops if isinstance(op, Loop))
    assert [carried.name for carried in loop.carried] == ["x_next", "y_next"]
    (scanned,) = loop.scanned
    assert scanned.row.type == "float64[batch]"


@pytest.mark.parametrize(
    "step", ["x + 0.1", "x + 0.25 * numpy.random.random()", "x + i", "x * 0.5 + numpy.exp(i)"]
)
def test_results_are_bit_identical(step: str) -> None:
    segment = segment_of(model(step, "y + numpy.random.normal()"))
    transformed = pregenerate_random_numbers(segment.program, segment.max_iterations)
    members = 5
    rng = np.random.default_rng(1)
    feeds: dict[str, Any] = {}
    for entry in segment.program.inputs:
        value = entry.value
        shape = tuple(members if extent == "batch" else extent for extent in value.shape or ())
        if value.dtype == "uint64":
            feeds[value.name] = rng.integers(1, 2**63, shape).astype(np.uint64)
        elif value.dtype == "bool":
            feeds[value.name] = np.array([True, True, False, True, True])
        else:
            feeds[value.name] = np.zeros(shape, value.dtype)
    for most in (0, 1, 7):
        feeds[segment.max_iterations.name] = np.array(most)
        for engine in (interpret, run_on_onnx_runtime):
            expected, actual = engine(segment.program, feeds), engine(transformed, feeds)
            for name, array in expected.items():
                assert actual[name].tobytes() == array.tobytes(), name


def run_on_onnx_runtime(program: Program, feeds: dict[str, Any]) -> dict[str, Any]:
    names = [output.name for output in program.outputs]
    return dict(zip(names, session_of(program).run(names, feeds), strict=True))


def test_a_counter_read_by_few_operations_stays_in_the_loop() -> None:
    """Use a counter of each member that few operations read."""
    source = loop_model(
        {"cond": True, "v_initial": "(0, 0.0)"},
        {"k_next": "k + 1", "x_next": "x + (k * 3 + 1) * last"},
        port_values={"last": 3.0},
        carried="k x",
        go="k * 3 < last",
    )
    segment = segment_of(source, "last")
    assert pregenerate_random_numbers(segment.program, segment.max_iterations) is segment.program


def test_a_run_pregenerates_random_numbers() -> None:
    source = model()
    standard_model = mdf_loop.compile(source, device="cpu", native="off")
    auto = mdf_loop.compile(source, device="cpu")
    actual, expected = standard_model.run(trials=300), auto.run(trials=300, engine="interpreter")
    for name in expected:
        np.testing.assert_array_equal(actual[name], expected[name])
    assert actual.loops == expected.loops
