"""Derivatives at points where a function has no derivative, and their finite values there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Output, Program
from mdf_loop.run.interpret import interpret
from tests.ops.derivatives.differentiating import differentiated
from tests.ops.op_running import program_of

KINKS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("Abs", ([0.0, -1.0],), {}, [0, -1]),
    ("Relu", ([0.0, 1.0],), {}, [0, 1]),
    ("ReduceMax", ([2.0, 1.0, 2.0],), {}, [0.5, 0, 0.5]),
    ("ReduceMin", ([1.0, 1.0, 2.0],), {}, [0.5, 0.5, 0]),
    ("ReduceL1", ([0.0, -1.0],), {}, [0, -1]),
    ("ReduceL2", ([0.0, 0.0],), {}, [0, 0]),
    ("ReduceL2", ([3.0, -4.0],), {}, [0.6, -0.8]),
    ("ReduceProd", ([0.0, 3.0, 2.0],), {}, [6, 0, 0]),
    ("ReduceProd", ([0.0, 0.0, 2.0],), {}, [0, 0, 0]),
    ("ReduceProd", ([np.inf, 3.0, 2.0],), {}, [6, np.inf, np.inf]),
    ("ReduceLogSumExp", ([-np.inf, 0.0, 0.0],), {}, [0, 0.5, 0.5]),
    ("LpNormalization", ([0.0, 0.0],), {"axis": 0}, [0, 0]),
    ("MaxPool", ([[[1.0, 1.0, 0.0]]],), {"kernel_shape": (2,)}, [[[0.5, 1.5, 0]]]),
    ("MaxPool", ([[[-1.0, -3.0]]],), {"kernel_shape": (3,), "pads": (1, 1)}, [[[2, 0]]]),
    ("LpPool", ([[[0.0, 0.0, 3.0]]],), {"kernel_shape": (2,)}, [[[0, 0, 1]]]),
    ("GlobalLpPool", ([[[0.0, 0.0]]],), {}, [[[0, 0]]]),
    ("MeanVarianceNormalization", ([[[[1.0, 1.0]]]],), {}, [[[[0, 0]]]]),
    ("Det", ([[1.0, 2.0], [2.0, 4.0]],), {}, [[4, -2], [-2, 1]]),
    ("Det", ([[0.0, 0.0], [0.0, 0.0]],), {}, [[0, 0], [0, 0]]),
    ("Gather", ([1.0, 2.0, np.inf], np.array([0, 0])), {}, [2, 0, 0]),
    ("MatMul", ([np.inf, 1.0], [2.0, 3.0]), {}, [2, 3]),
]


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "expected"),
    KINKS,
    ids=[f"{op}-{feeds[0]}" for op, feeds, *_ in KINKS],
)
def test_the_cotangent_at_a_kink(
    op_type: str, operands: Any, attributes: Any, expected: Any
) -> None:
    """Check the cotangent of the first operand for cotangents of 1.

    The tangent for a tangent of ones has the same sum.
    """
    arrays = [np.asarray(x) for x in operands]
    constant_positions = tuple(range(1, len(arrays)))
    program = program_of(op_type, arrays, constant=constant_positions, **attributes)
    derived = differentiated(program)
    shape = next(e.value.shape for e in derived.inputs if e.value.name == "g y0")
    feeds = {"x0": arrays[0], "t x0": np.ones(arrays[0].shape), "g y0": np.ones(shape)}
    derivatives = interpret(derived, feeds)
    np.testing.assert_allclose(derivatives["g x0"], expected, rtol=1e-15)
    np.testing.assert_allclose(np.sum(derivatives["t y0"]), np.sum(expected), rtol=1e-15)


@pytest.mark.parametrize("reduction", ["mul", "max"])
def test_a_scatter_with_another_reduction_is_refused_by_name(reduction: str) -> None:
    arrays = [np.ones(3), np.array([0, 2]), np.ones(2)]
    program = program_of("ScatterElements", arrays, constant=(1,), reduction=reduction)
    with pytest.raises(
        UnsupportedError, match=f"ScatterElements has no .* reduction='{reduction}'"
    ):
        differentiated(program)


@pytest.mark.parametrize(
    ("op_type", "arrays", "attributes", "output_count", "sentence"),
    [
        ("MaxPool", [np.ones((1, 1, 3))], {"kernel_shape": (2,)}, 2, "MaxPool with indices"),
        ("GridSample", [np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 2))], {}, 1, "GridSample has no"),
        ("Unique", [np.ones(2)], {}, 1, "Unique has no derivative here"),
        ("ReduceL2", [np.ones(2), np.zeros(0, int)], {"noop_with_empty_axes": 1}, 1, "no axes"),
    ],
)
def test_operations_without_derivative_are_refused_by_name(
    op_type: str, arrays: Any, attributes: Any, output_count: int, sentence: str
) -> None:
    known = [k for k, a in enumerate(arrays) if a.dtype != np.float64]
    program = program_of(op_type, arrays, output_count, constant=known, **attributes)
    with pytest.raises(UnsupportedError, match=sentence):
        differentiated(program)


def test_flat_functions_have_zero_derivatives() -> None:
    program = program_of("Round", [np.array([0.3, 2.7])])
    assert isinstance(program, Program)
    derived = differentiated(program)
    assert [output.name for output in derived.outputs] == ["t y0", "g x0"]
    assert all(isinstance(output, Output) for output in derived.outputs)
    feeds = {"x0": np.array([0.3, 2.7]), "t x0": np.ones(2), "g y0": np.ones(2)}
    assert all(not array.any() for array in interpret(derived, feeds).values())
