"""Derivatives can be differentiated again, with correct results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.derivatives.derivative_cases import Case, F, I, P, call
from tests.ops.derivatives.differentiating import (
    assert_equal_to_differences,
    differentiated,
    random_tangents_and_cotangents,
    select_outputs,
)

MAIN = [
    Case("Mul", (F(2, 3), P(3))),
    Case("Div", (F(2, 3), P(3))),
    Case("Pow", (P(2, 3), F(3))),
    Case("Tanh", (F(3),)),
    Case("Sigmoid", (F(3),)),
    Case("Softplus", (F(3),)),
    Case("MatMul", (F(2, 3), F(3))),
    Case("MatMul", (F(2, 2, 3), F(3, 2))),
    Case("Gemm", (F(3, 2), F(2, 3), F(1)), {"transA": 1, "transB": 1, "alpha": 0.5}),
    Case("Einsum", (F(2, 3), F(3, 2)), {"equation": "ij,jk->ik"}),
    Case("Det", (F(3, 3),)),
    Case("Gather", (F(3, 2), I(2, 0, 2)), {"axis": 0}),
    Case("GatherND", (F(3, 2), np.array([[0, 1], [0, 1]]))),
    Case("ScatterElements", (F(3, 2), np.array([[0, 1]]), F(1, 2))),
    Case("Slice", (F(4, 3), I(3, 1), I(0, 3), I(0, 1), I(-2, 1))),
    Case("Pad", (F(2, 2), I(1, 0, 0, -1), np.array(0.5))),
    Case("Softmax", (F(2, 3),)),
    Case("LogSoftmax", (F(2, 3),)),
    Case("ReduceSum", (F(2, 3), I(1))),
    Case("ReduceMean", (F(2, 3),), {"axes": (1,)}),
    Case("ReduceL2", (F(2, 3),), {"axes": (1,)}),
    Case("ReduceLogSumExp", (F(2, 3),), {"axes": (1,)}),
    Case("ReduceProd", (F(2, 3),), {"axes": (1,)}),
    Case("ReduceProd", (np.array([[0.5, 0.0, 2.0, 0.0]]),), {"axes": (1,)}),
    Case("ReduceProd", (F(2, 3),), {"axes": (0,)}, shapes=[("n", 3)]),
    Case("CumSum", (F(2, 3), np.array(1)), {"reverse": 1}),
    Case("Conv", (F(1, 2, 4), F(2, 2, 3), F(2)), {"pads": (1, 1), "strides": (2,)}),
    Case("MaxPool", (F(1, 2, 4),), {"kernel_shape": (2,)}),
    Case("LayerNormalization", (F(2, 3), F(3), F(3))),
    Case("Gelu", (F(3),)),
]


@pytest.mark.parametrize("direction", ["g ", "t "])
@pytest.mark.parametrize("case", MAIN, ids=str)
def test_a_derivative_is_differentiated_again(case: Case, direction: str) -> None:
    """Differentiate by all inputs: operands, tangents and cotangents."""
    program, arrays = call(case)
    derived = select_outputs(differentiated(program), lambda name: name.startswith(direction))
    feeds = {**arrays, **random_tangents_and_cotangents(program, arrays)}
    assert_equal_to_differences(derived, feeds, order="second ")
