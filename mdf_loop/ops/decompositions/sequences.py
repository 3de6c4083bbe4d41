"""Decompositions of sequence operators that ONNX Runtime lacks for narrow integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Carried, Loop, Op, Value
from mdf_loop.ir.types import element_type, sequence_of
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, optional

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def split_to_sequence(b: Builder, op: Op) -> Value:
    """Build SplitToSequence as a loop that inserts slices of x into a sequence.

    for i in range(count):  parts = SequenceInsert(parts, x[start(i) : start(i + 1)])
    """
    x, axis = operand(op), attribute(op, "axis")
    ends = _part_bounds(b, op)
    body = b.body()
    i = body.new("int64", (), "i")
    go = body.new("bool", (), "go")
    dtype = sequence_of(x.dtype)
    enter = body.new(dtype, None, "parts")
    if optional(op, 1) is None and not attribute(op, "keepdims"):
        part = body.op("Gather", x, i, axis=axis)
    else:
        place = body.op("Unsqueeze", i, ints(body, 0))
        after = body.op("Add", place, ints(body, 1))
        start, end = (body.op("Gather", ends, k, axis=0) for k in (place, after))
        part = body.op("Slice", x, start, end, ints(body, axis))
    leave = body.op("SequenceInsert", enter, part)
    count = b.op("Sub", b.op("Size", ends), b.constant(np.array(1)))
    final = b.new(dtype, None, "parts")
    empty = b.op("SequenceEmpty", dtype=element_type(x.dtype))
    carried = (Carried(empty, enter, leave, final, "parts"),)
    loop = Loop(b.label, count, None, i, go, None, carried, (), tuple(body.ops), where=op.where)
    return b.append(loop).carried[0].final


def _part_bounds(b: Builder, op: Op) -> Value:
    """Build the start index of each part, followed by the extent of the axis."""
    axis, split = attribute(op, "axis"), optional(op, 1)
    extent = b.op("Gather", b.op("Shape", operand(op)), b.constant(np.array(axis)), axis=0)
    zero, one = (b.constant(np.array(k)) for k in (0, 1))
    if split is None:
        return b.op("Range", zero, b.op("Add", extent, one), one)
    parts = split if split.dtype == "int64" else b.op("Cast", split, to=element_type("int64"))
    if split.shape == ():
        starts = b.op("Range", zero, extent, parts)
        return b.op("Concat", starts, b.op("Unsqueeze", extent, ints(b, 0)), axis=0)
    ends = b.op("Concat", ints(b, 0), b.op("CumSum", parts, zero), axis=0)
    fits = b.op("Equal", b.op("ReduceSum", parts, keepdims=0), extent)
    return b.guard(ends, fits, "the parts of onnx::SplitToSequence do not make up its axis")
