"""Extremes in which nan wins, of ONNX operations whose kernels may pass it over.

ONNX Runtime's `ReduceMax` of [1, nan, 2] may be 2, by where nan stands; its `ArgMax` compares with
nan, which is false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
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
    """Return `ArgMax` or `ArgMin`, or the place of nan where there is one."""
    x, axis = operand(op), attribute(op, "axis")
    how = {"axis": axis, "keepdims": attribute(op, "keepdims")}
    how["select_last_index"] = attribute(op, "select_last_index")
    missing = cast(b, b.op("IsNaN", x), "int32")
    lost = b.op("ReduceMax", missing, axes=(axis,), keepdims=how["keepdims"])
    first = b.op("ArgMax", missing, **how)
    return b.op("Where", cast(b, lost, "bool"), first, b.op(word, x, **how))
