"""Registry row of `StopGradient`, whose result is a constant in derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import defs

from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops.batching.elementwise import elementwise
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.registry import Reproducibility, Row, Type, never

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def _infer_types(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], known: Mapping[int, Array]
) -> list[Type]:
    (x,) = inputs
    assert x is not None
    return [x]


def _decompose(b: Builder, op: Op) -> Value:
    return b.op("Identity", operand(op))


STOP_GRADIENT = "StopGradient"
"""Name of the operation that returns a value unchanged and has no derivative."""

_FLOAT_TENSOR_TYPES = ["tensor(float)", "tensor(double)", "tensor(float16)"]

OPERATOR_ROWS = (
    Row(
        name=STOP_GRADIENT,
        schema=defs.OpSchema(
            STOP_GRADIENT,
            "mdf_loop.gradients",
            1,
            inputs=[defs.OpSchema.FormalParameter("x", "T")],
            outputs=[defs.OpSchema.FormalParameter("y", "T")],
            type_constraints=[("T", _FLOAT_TENSOR_TYPES, "numbers with a point")],
        ),
        type_rule=_infer_types,
        is_elementwise=True,
        reproducibility=Reproducibility.FIXED,
        may_fail=never,
        batching_rule=elementwise,
        numpy_function=lambda x: x,
        decomposition=_decompose,
        derivative=ZERO_DERIVATIVE,
    ),
)
