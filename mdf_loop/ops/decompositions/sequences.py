"""Decompositions of sequence operators that ONNX Runtime lacks for narrow integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Carried, Loop, Op, Value
from mdf_loop.ir.types import element_type, sequence_of
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, optional_operand

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def split_to_sequence(b: Builder, op: Op) -> Value:
    """Build SplitToSequence as a loop that inserts slices of x into a sequence.

    for i in range(count):  parts = SequenceInsert(parts, x[start(i) : start(i + 1)])
    """
    x, axis = operand(op), attribute(op, "axis")
    part_bounds = _build_part_bounds(b, op)
    body = b.body()
    part_index = body.new("int64", (), "i")
    loop_condition = body.new("bool", (), "go")
    sequence_dtype = sequence_of(x.dtype)
    previous_sequence = body.new(sequence_dtype, None, "parts")
    if optional_operand(op, 1) is None and not attribute(op, "keepdims"):
        sequence_part = body.op("Gather", x, part_index, axis=axis)
    else:
        start_position = body.op("Unsqueeze", part_index, ints(body, 0))
        end_position = body.op("Add", start_position, ints(body, 1))
        slice_start, slice_end = (
            body.op("Gather", part_bounds, position, axis=0)
            for position in (start_position, end_position)
        )
        sequence_part = body.op("Slice", x, slice_start, slice_end, ints(body, axis))
    extended_sequence = body.op("SequenceInsert", previous_sequence, sequence_part)
    part_count = b.op("Sub", b.op("Size", part_bounds), b.constant(np.array(1)))
    final_sequence = b.new(sequence_dtype, None, "parts")
    empty_sequence = b.op("SequenceEmpty", dtype=element_type(x.dtype))
    carried_values = (
        Carried(empty_sequence, previous_sequence, extended_sequence, final_sequence, "parts"),
    )
    loop = Loop(
        b.label,
        part_count,
        None,
        part_index,
        loop_condition,
        None,
        carried_values,
        (),
        tuple(body.ops),
        where=op.where,
    )
    return b.append(loop).carried[0].final


def _build_part_bounds(b: Builder, op: Op) -> Value:
    """Build the start index of each part of a SplitToSequence, followed by the extent of the axis."""
    axis, split_operand = attribute(op, "axis"), optional_operand(op, 1)
    axis_extent = b.op("Gather", b.op("Shape", operand(op)), b.constant(np.array(axis)), axis=0)
    zero, one = (b.constant(np.array(k)) for k in (0, 1))
    if split_operand is None:
        return b.op("Range", zero, b.op("Add", axis_extent, one), one)
    part_lengths = (
        split_operand
        if split_operand.dtype == "int64"
        else b.op("Cast", split_operand, to=element_type("int64"))
    )
    if split_operand.shape == ():
        part_starts = b.op("Range", zero, axis_extent, part_lengths)
        return b.op("Concat", part_starts, b.op("Unsqueeze", axis_extent, ints(b, 0)), axis=0)
    part_bounds = b.op("Concat", ints(b, 0), b.op("CumSum", part_lengths, zero), axis=0)
    is_complete = b.op("Equal", b.op("ReduceSum", part_lengths, keepdims=0), axis_extent)
    return b.guard(
        part_bounds, is_complete, "the parts of onnx::SplitToSequence do not make up its axis"
    )
