"""Compare every derivative in both directions with central differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdf_loop.ir import Op
from mdf_loop.ir.check import check
from mdf_loop.ops.derivatives.rule import DecomposedDerivative
from mdf_loop.ops.derivatives.sweep import derivative_of
from mdf_loop.ops.registry import rows
from mdf_loop.pipeline import LEGAL, prepare
from mdf_loop.run.interpret import interpret
from tests.ops.derivatives.derivative_cases import CASES, Case, P, call
from tests.ops.derivatives.differentiating import (
    assert_equal_to_differences,
    decompose_operations,
    differentiated,
    random_tangents_and_cotangents,
    select_outputs,
)
from tests.ops.op_running import float32_run, only_op, program_of
from tests.passes.batch_running import on_runtime
from tests.strategies.same_operands import SameOperands

NOT_IN_REFERENCE = frozenset(
    (
        *("GlobalLpPool", "LRN", "MaxPool", "OneHot", "ConvTranspose", "LpNormalization"),
        *("GroupNormalization", "MeanVarianceNormalization"),
    )
)
"""Operators that onnx's reference lacks or gets wrong here; their decompositions give the numbers."""

WITHOUT_CASE = {
    **dict.fromkeys(("RNN", "GRU", "LSTM"), "their composition is a loop: test_recurrent"),
    **dict.fromkeys(("NonZero", "StringNormalizer"), "they give no floats"),
    "SplitToSequence": "it gives a sequence",
    "GridSample": "it is refused",
}
"""Rows with a derivative or a decomposition that have no case."""


def operation_of(case: Case) -> Op:
    """Return the operation of a case."""
    op: Op = only_op(call(case)[0], case.op_type)
    return op


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rules_agree_with_central_differences(case: Case) -> None:
    program, arrays = call(case)
    reference = decompose_operations(program) if case.op_type in NOT_IN_REFERENCE else None
    assert_equal_to_differences(program, arrays, reference=reference)


def test_every_operation_with_a_derivative_has_a_case() -> None:
    known = {
        row.name for row in rows() if row.derivative is not None or row.decomposition is not None
    }
    known -= {row.name for row in rows() if row.is_random or row.schema is not None}
    assert known == {case.op_type for case in CASES} | WITHOUT_CASE.keys()


DECOMPOSED = [
    case for case in CASES if isinstance(derivative_of(operation_of(case)), DecomposedDerivative)
]


@pytest.mark.parametrize("case", DECOMPOSED, ids=str)
def test_decompositions_for_derivatives_keep_the_outputs(case: Case) -> None:
    program, arrays = call(case)
    actual = interpret(decompose_operations(program), arrays)
    if case.op_type in NOT_IN_REFERENCE:
        known = [None if a is None else np.asarray(a) for a in case.arrays]
        numbers = float32_run(case.op_type, known, case.output_count, **case.attributes)
        expected, tolerance = dict(zip(actual, numbers, strict=True)), 1e-5
    else:
        expected, tolerance = interpret(program, arrays), 1e-12
    for name, array in actual.items():
        np.testing.assert_allclose(array, expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_run_on_onnxruntime(case: Case) -> None:
    program, arrays = call(case)
    numbers = decompose_operations(program) if case.op_type in NOT_IN_REFERENCE else program
    derived = select_outputs(differentiated(program), lambda name: name[0] in "tg")
    feeds = {**arrays, **random_tangents_and_cotangents(numbers, arrays)}
    expected = interpret(derived, feeds)
    actual = on_runtime(prepare(derived, LEGAL), feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_of_float32_are_float32(case: Case) -> None:
    arrays = [to_float32(array) for array in case.arrays]
    program, _ = call(replace(case, arrays=tuple(arrays)), variable="float32")
    derived = differentiated(program)
    assert not check(derived)
    types = {entry.value.name: entry.value.dtype for entry in program.inputs}
    types |= {output.name: output.value.dtype for output in program.outputs}
    assert all(
        o.value.dtype == types[o.name.removeprefix("t ").removeprefix("g ")]
        for o in derived.outputs
    )


def to_float32(array: Any) -> Any:
    return array.astype(np.float32) if np.asarray(array).dtype == np.float64 else array


X = np.array([[0.9, 0.4], [1.3, 1.1]])
SAME = [
    *(SameOperands(name, (0, 1), (X, X), {}) for name in ("Add", "Sub", "Mul", "Div", "Pow")),
    *(SameOperands(name, (0, 1), (X, X), {}) for name in ("MatMul", "PRelu", "Mod", "Max", "Min")),
    *(SameOperands(name, (0, 2), (X, P(2), X), {}) for name in ("Mean", "Sum")),
    SameOperands("Where", (1, 2), (X > 1, X, X), {}),
    SameOperands("Concat", (0, 1, 2), (X, X, X), {"axis": 1}),
    SameOperands("Gemm", (0, 1, 2), (X, X, X), {"transA": 1, "beta": 0.5}),
    SameOperands("Einsum", (0, 1), (X, X), {"equation": "ij,kj->ik"}),
    SameOperands("Einsum", (0, 1), (X, X), {"equation": "ij,ij->"}),
    SameOperands("Clip", (1, 2), (X, np.array(1.05), np.array(1.05)), {}),
    SameOperands(
        "ScatterElements", (0, 2), (X, np.array([[0, 1], [1, 1]]), X), {"reduction": "add"}
    ),
    SameOperands("ScatterND", (0, 2), (X, np.array([[1], [1]]), X), {"reduction": "add"}),
    SameOperands("ScatterND", (0, 2), (X, np.array([[1], [0]]), X), {}),
    SameOperands("LayerNormalization", (0, 1, 2), (X[0], X[0], X[0]), {}),
    SameOperands("BatchNormalization", (1, 2, 3, 4), (X, *[X[0]] * 4), {}),
    SameOperands("Conv", (0, 1), (X[None, None], X[None, None]), {"pads": (1, 0, 1, 1)}),
]


@pytest.mark.parametrize("call", SAME, ids=lambda call: f"{call.op_type}{call.positions}")
def test_the_derivative_of_the_same_value_at_several_positions(call: SameOperands) -> None:
    assert_equal_to_differences(call.program(), {"x0": call.shared})


def test_an_exponent_may_have_another_dtype() -> None:
    arrays = [np.array([0.5, 2.0]), np.array(1.5, np.float32)]
    derived = differentiated(program_of("Pow", arrays))
    assert not check(derived)
    feeds = {f"x{k}": a for k, a in enumerate(arrays)}
    random_tangents_and_cotangents = {
        "t x0": np.zeros(2),
        "t x1": np.array(1, np.float32),
        "g y0": np.ones(2),
    }
    numbers = interpret(derived, {**feeds, **random_tangents_and_cotangents})
    slopes = arrays[0] ** 1.5 * np.log(arrays[0])
    np.testing.assert_allclose(numbers["t y0"], slopes, rtol=1e-15)
    np.testing.assert_allclose(numbers["g x1"], np.float32(slopes.sum()), rtol=1e-7)
    assert numbers["g x1"].dtype == np.float32
