"""Loops that run all members to the end and select for each member the values of its last iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.importing.opening import open_document
from mdf_loop.ir import Loop, Program
from mdf_loop.ir.check import check
from mdf_loop.lower.builder import Options
from mdf_loop.passes.segments.loop_segment import LoopSegment
from mdf_loop.passes.segments.pregenerate_random_numbers import pregenerate_random_numbers
from mdf_loop.passes.segments.run_past_termination import run_past_termination
from mdf_loop.passes.segments.split_into_segments import split_into_segments
from mdf_loop.pipeline import ONNXRUNTIME, passes_of_evaluation, prepare
from mdf_loop.reading import read
from mdf_loop.run.interpret import interpret
from tests.models.loops import loop_model
from tests.ops.op_running import session_of


def model(
    go: str = "abs(x) < 1.0", more: str = "y + 1.0", leak: str = "", **others: Any
) -> dict[str, Any]:
    arguments = {"cond": True, "v_initial": "(0.0, 0.0)"}
    body = {"x_next": f"x {leak} + 0.5 * numpy.random.normal()", "y_next": more}
    return loop_model(arguments, body, carried="x y", go=go, **others)


def loop_of_trials(source: Any) -> tuple[Program, LoopSegment]:
    """Return the loop of trials as a program of some iterations, with pregenerated random numbers."""
    program = read(open_document(source), options=Options())
    segments = split_into_segments(
        prepare(program, ONNXRUNTIME, passes_of_evaluation({"random_keys"}))
    )
    assert segments is not None
    (segment,) = (each for each in segments if isinstance(each, LoopSegment))
    return pregenerate_random_numbers(segment.program, segment.max_iterations), segment


def loop_of(program: Program) -> Loop:
    (loop,) = (op for op in program.ops if isinstance(op, Loop))
    return loop


AFTER = """\
  loop %i < %A.loop:Max
    carry %x: float64[batch] from %x_before to %step.x_next:Add_2 giving %A.loop.x_next at the end
    carry %y: float64[batch] from %y_before to %step.y_next:Mul giving %A.loop.y_next at the end
    scan %step.x_next:Mul_2: float64[batch] of %A.loop:Mul_31 axis 0
    %step.x_next:Add_2: float64[batch] = Add(%x, %step.x_next:Mul_2)
    %step.y_next:Mul: float64[batch] = Mul(%y, %const_8)
    record %step.x_next:Add_2 giving %step.x_next:Add_2 of all: float64[d, batch]
    record %step.y_next:Mul giving %step.y_next:Mul of all: float64[d, batch]
    record %x giving %x of all: float64[d, batch]
  %A.loop:Abs: float64[d, batch] = Abs(%x of all)
  %A.loop:Less: bool[d, batch] = Less(%A.loop:Abs, %const_6)
  %const_35: int64[1] = [0]
  %A.loop:Unsqueeze_2: bool[1, batch] = Unsqueeze(%condition_before, %const_35)
  %A.loop:Xor: bool[1, batch] = Xor(%A.loop:Unsqueeze_2, %A.loop:Unsqueeze_2)
  %A.loop:Concat: bool[d_2, batch] = Concat(%A.loop:Unsqueeze_2, %A.loop:Less, %A.loop:Xor, axis=0)
  %A.loop:Cast_4: uint8[d_2, batch] = Cast(%A.loop:Concat, to=2)
  %A.loop:ArgMin: int64[batch] = ArgMin(%A.loop:Cast_4, axis=0, keepdims=0)
  %A.loop:Min: int64[batch] = Min(%A.loop:ArgMin, %most)
"""


def test_the_loop_has_no_condition_and_last_values_are_selected_after_it() -> None:
    program, segment = loop_of_trials(model(more="y * 0.5"))
    assert "while %condition_before for each batch" in str(program)
    transformed = run_past_termination(program, segment.max_iterations)
    assert not check(transformed)
    assert AFTER in str(transformed)
    assert [output.name for output in transformed.outputs] == [
        output.name for output in program.outputs
    ]


SUMS = """\
  %A.loop:Gather: float64[batch] = Gather(%A.loop:Mul_31, %const_36, axis=0)
  %A.loop:Add_32: float64[batch] = Add(%x_before, %A.loop:Gather)
  %const_37: int64[1, 1] = [[0]]
  %A.loop:Unsqueeze_3: float64[1, batch] = Unsqueeze(%A.loop:Add_32, %const_35)
  %A.loop:ScatterND: float64[d, batch] = ScatterND(%A.loop:Mul_31, %const_37, %A.loop:Unsqueeze_3)
  %A.loop:CumSum: float64[d, batch] = CumSum(%A.loop:ScatterND, %const_36)
"""


def test_a_loop_that_only_adds_becomes_prefix_sums() -> None:
    program, segment = loop_of_trials(model())
    transformed = run_past_termination(program, segment.max_iterations)
    assert not check(transformed)
    assert not any(isinstance(op, Loop) for op in transformed.ops)
    assert SUMS in str(transformed)


@pytest.mark.parametrize(
    "changed",
    [{"leak": "* 0.5"}, {"more": "y + x"}, {"more": "y + y"}, {"more": "y - 1.0"}],
    ids=["it is scaled", "it adds what is carried", "it doubles", "it takes away"],
)
def test_other_bodies_remain_a_loop(changed: dict[str, Any]) -> None:
    program, segment = loop_of_trials(model(**changed))
    assert loop_of(run_past_termination(program, segment.max_iterations)).condition is None


@pytest.mark.parametrize(
    "changed",
    [
        {"more": "y + 7 // (int(x) + 8)"},
        {"recorded": "x_next"},
    ],
    ids=["it may fail", "it records"],
)
def test_other_loops_are_unchanged(changed: dict[str, Any]) -> None:
    program, segment = loop_of_trials(model(**changed))
    assert run_past_termination(program, segment.max_iterations) is program


def test_loops_with_a_large_state_are_unchanged() -> None:
    source = loop_model(
        {"cond": True, "v_initial": "start"},
        {"x_next": "x + numpy.random.normal(0.0, 0.5)"},
        port_values={"start": [0.0] * 9},
        carried="x",
        go="abs(x[0]) < 1.0",
    )
    program, segment = loop_of_trials(source)
    assert loop_of(program).scanned
    assert run_past_termination(program, segment.max_iterations) is program


MODELS = {
    "the condition reads what is carried": model(),
    "it reads the number of the iteration": model("abs(x) + 0.01 * i < 1.0"),
    "it reads what was carried before": model("abs(x + y) < 3.0"),
    "it is not computed with the same bits everywhere": model("numpy.tanh(x) < 0.5"),
    "it leaks": model(leak="* 0.9"),
    "all leaks, and the condition reads what was carried before": model(
        "abs(x + y) < 3.0", "0.9 * y + 1.0", "* 0.9"
    ),
    "whole numbers are carried, too": loop_model(
        {"cond": True, "v_initial": "(0.0, 3)"},
        {"x_next": "x + 0.5 * numpy.random.normal()", "y_next": "y + 2"},
        carried="x y",
        go="abs(x) + y < 30",
    ),
    "several numbers are carried": loop_model(
        {"cond": True, "v_initial": "start"},
        {"x_next": "x + numpy.random.normal(0.0, 0.3, 3)"},
        port_values={"start": [0.0, 0.1, 0.2]},
        carried="x",
        go="numpy.max(x) < 1.0",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_results_are_bit_identical(name: str) -> None:
    program, segment = loop_of_trials(MODELS[name])
    transformed = run_past_termination(program, segment.max_iterations)
    assert transformed is not program
    assert not check(transformed)
    rng = np.random.default_rng(1)
    feeds: dict[str, Any] = {}
    for entry in program.inputs:
        value = entry.value
        shape = tuple(6 if extent == "batch" else extent for extent in value.shape or ())
        feeds[value.name] = np.zeros(shape, value.dtype)
        if value.dtype == "uint64":
            feeds[value.name] = rng.integers(1, 2**63, shape).astype(np.uint64)
        if value.dtype == "bool":
            feeds[value.name] = np.array([True, True, False, True, True, True])
    for most in (0, 1, 2, 40):
        feeds[segment.max_iterations.name] = np.array(most)
        expected = interpret(program, feeds)
        for engine in (interpret, run_on_onnx_runtime):
            actual = engine(transformed, feeds)
            for output, array in expected.items():
                assert actual[output].tobytes() == array.tobytes(), (output, most)


def run_on_onnx_runtime(program: Program, feeds: dict[str, Any]) -> dict[str, Any]:
    names = [output.name for output in program.outputs]
    return dict(zip(names, session_of(program).run(names, feeds), strict=True))
