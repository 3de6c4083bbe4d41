"""Extremes in which nan wins, of ONNX operations whose kernels may pass it over.

ONNX Runtime's `ReduceMax` of [1, nan, 2] may be 2, by where nan stands; its `ArgMax` compares with
nan, which is false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Branch, If, Op, Value
from mdf_loop.ops.compositions.words import attribute, number, operand
from mdf_loop.ops.words import cast

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def extreme(b: Builder, op: Op, *, word: str) -> Value:
    """Return `ReduceMax` or `ReduceMin`, or nan where there is one.

    The largest of no integers is the smallest number of their dtype: it is compared with 0, not cast.
    """
    x = operand(op)
    how = {**op.attributes, "keepdims": attribute(op, "keepdims")}
    missing = cast(b, b.op("IsNaN", x), "int32")
    lost = b.op("Greater", b.op("ReduceMax", missing, **how), number(b, 0, missing))
    return b.op("Where", lost, number(b, np.nan, x), b.op(word, x, **how))


def place(b: Builder, op: Op, word: str) -> Value:
    """Return `ArgMax` or `ArgMin`, or the place of nan where there is one.

        r = place_with_nan(x) if IsNaN(ReduceSum(x)) else ArgMax(x)

    A sum with nan is nan, so that arrays without nan take one kernel that reads them and the kernel of
    the operation. An array of opposite infinities takes the other branch, which gives the same place.
    """
    x = operand(op)
    with_nan, without = b.body(), b.body()
    place_of_nan = place_with_nan(with_nan, op, word)
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


def place_with_nan(b: Builder, op: Op, word: str) -> Value:
    """Return `ArgMax` or `ArgMin`, or the place of nan where there is one, without a branch."""
    x, how = operand(op), _place_attributes(op)
    missing = cast(b, b.op("IsNaN", x), "int32")
    lost = b.op("ReduceMax", missing, axes=(how["axis"],), keepdims=how["keepdims"])
    first = b.op("ArgMax", missing, **how)
    return b.op("Where", cast(b, lost, "bool"), first, b.op(word, x, **how))


def _place_attributes(op: Op) -> dict[str, Any]:
    """Return the attributes of the `ArgMax` or `ArgMin` that an operation is."""
    return {name: attribute(op, name) for name in ("axis", "keepdims", "select_last_index")}
