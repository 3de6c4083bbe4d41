"""Decompositions of nan-propagating maxima and minima into ONNX operations that may ignore nan.

ONNX Runtime's `ReduceMax` of [1, nan, 2] may be 2, depending on the position of nan. Its `ArgMax` compares
with nan, which is False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Branch, If, Op, Value
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.decompositions.build_helpers import attribute, constant_like, operand

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def extreme(b: Builder, op: Op, *, op_type: str) -> Value:
    """Build operations that compute `ReduceMax` or `ReduceMin`, or nan if an element is nan.

    ReduceMax of an empty mask is the smallest integer of the dtype. So the mask is compared with 0, not cast.
    """
    x = operand(op)
    reduction_attributes = {**op.attributes, "keepdims": attribute(op, "keepdims")}
    nan_mask = cast(b, b.op("IsNaN", x), "int32")
    has_nan = b.op(
        "Greater",
        b.op("ReduceMax", nan_mask, **reduction_attributes),
        constant_like(b, 0, nan_mask),
    )
    return b.op(
        "Where", has_nan, constant_like(b, np.nan, x), b.op(op_type, x, **reduction_attributes)
    )


def arg_extreme(b: Builder, op: Op, op_type: str) -> Value:
    """Build an `If` that computes `ArgMax` or `ArgMin`, or the position of the first nan.

        r = arg_extreme_with_nan(x) if IsNaN(ReduceSum(x)) else ArgMax(x)

    A sum with nan is nan. So arrays without nan need only one kernel more than the operation. An array with
    opposite infinities takes the other branch, which gives the same position.
    """
    x = operand(op)
    nan_body, ordinary_body = b.body(), b.body()
    nan_position = arg_extreme_with_nan(nan_body, op, op_type)
    ordinary_position = ordinary_body.op(op_type, x, **_arg_extreme_attributes(op))
    nan_choice = If(
        "nan",
        b.op("IsNaN", b.op("ReduceSum", x, keepdims=0)),
        Branch(tuple(nan_body.ops), (nan_position,)),
        Branch(tuple(ordinary_body.ops), (ordinary_position,)),
        (b.new("int64", ordinary_position.shape),),
        op.where,
    )
    return b.append(nan_choice).outputs[0]


def arg_extreme_with_nan(b: Builder, op: Op, op_type: str) -> Value:
    """Build operations that compute `ArgMax` or `ArgMin`, or the first nan's position, without an `If`."""
    x, reduction_attributes = operand(op), _arg_extreme_attributes(op)
    nan_mask = cast(b, b.op("IsNaN", x), "int32")
    has_nan = b.op(
        "ReduceMax",
        nan_mask,
        axes=(reduction_attributes["axis"],),
        keepdims=reduction_attributes["keepdims"],
    )
    first_nan_position = b.op("ArgMax", nan_mask, **reduction_attributes)
    return b.op(
        "Where",
        cast(b, has_nan, "bool"),
        first_nan_position,
        b.op(op_type, x, **reduction_attributes),
    )


def _arg_extreme_attributes(op: Op) -> dict[str, Any]:
    """Return the attributes of the `ArgMax` or `ArgMin` that an operation decomposes into."""
    return {name: attribute(op, name) for name in ("axis", "keepdims", "select_last_index")}
