"""Operators on text that ONNX Runtime gets wrong."""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.emit.compositions.registry import attribute, composes, ints, operand, rank
from mdf_loop.ir import Op, Value


@composes("Gather")
def gather(b: Builder, op: Op) -> Value:
    """`GatherND`, which takes rows: the axis comes first, and goes back to its place.

    ONNX Runtime's Gather copies only the first text of each row (1.31); right it is along the last
    axis.
    """
    data, indices = operand(op, 0), operand(op, 1)
    places = b.op("Unsqueeze", indices, ints(b, -1))
    axes, own = rank(data, "onnx::Gather of text"), rank(indices, "onnx::Gather of text")
    axis = attribute(op, "axis") % axes
    first = (axis, *(k for k in range(axes) if k != axis))
    back = (*range(own, own + axis), *range(own), *range(own + axis, own + axes - 1))
    rows = b.op("GatherND", b.op("Transpose", data, perm=first) if axis else data, places)
    return b.op("Transpose", rows, perm=back) if axis else rows
