"""Decompositions of extremes that propagate nan into ONNX operations whose kernels may ignore nan.

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


def extreme(b: Builder, op: Op, *, word: str) -> Value:
    """Build `ReduceMax` or `ReduceMin`, or nan if an element is nan.

    ReduceMax of an empty mask is the smallest integer of the dtype. So the mask is compared with 0, not cast.
    """
    x = operand(op)
    options = {**op.attributes, "keepdims": attribute(op, "keepdims")}
    missing = cast(b, b.op("IsNaN", x), "int32")
    has_nan = b.op("Greater", b.op("ReduceMax", missing, **options), constant_like(b, 0, missing))
    return b.op("Where", has_nan, constant_like(b, np.nan, x), b.op(word, x, **options))


def arg_extreme(b: Builder, op: Op, word: str) -> Value:
    """Build an If operation that computes `ArgMax` or `ArgMin`, or the position of the first nan.

        r = arg_extreme_with_nan(x) if IsNaN(ReduceSum(x)) else ArgMax(x)

    A sum with nan is nan. So arrays without nan need only one kernel more than the operation. An array with
    opposite infinities takes the other branch, which gives the same position.
    """
    x = operand(op)
    with_nan, without = b.body(), b.body()
    place_of_nan = arg_extreme_with_nan(with_nan, op, word)
    usual_place = without.op(word, x, **_place_attributes(op))
    choice = If(
        "nan",
        b.op("IsNaN", b.op("ReduceSum", x, keepdims=0)),
        Branch(tuple(with_nan.ops), (place_of_nan,)),
        Branch(tuple(without.ops), (usual_place,)),
        (b.new("int64", usual_place.shape),),
        op.where,
    )
    return b.append(choice).outputs[0]


def arg_extreme_with_nan(b: Builder, op: Op, word: str) -> Value:
    """Build `ArgMax` or `ArgMin`, or the position of the first nan, without an If operation."""
    x, how = operand(op), _place_attributes(op)
    missing = cast(b, b.op("IsNaN", x), "int32")
    has_nan = b.op("ReduceMax", missing, axes=(how["axis"],), keepdims=how["keepdims"])
    first = b.op("ArgMax", missing, **how)
    return b.op("Where", cast(b, has_nan, "bool"), first, b.op(word, x, **how))


def _place_attributes(op: Op) -> dict[str, Any]:
    """Return the attributes of the corresponding `ArgMax` or `ArgMin`."""
    return {name: attribute(op, name) for name in ("axis", "keepdims", "select_last_index")}
