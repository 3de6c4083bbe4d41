"""Limits on the ends of backward slices, as ONNX Runtime misreads 2**31 - 1 and 2**63 - 1.

    y = Slice(x, start, end, axes, -1)    ->    e = Min(end, 2147483646)
                                                y = Slice(x, start, e, axes, -1)

ONNX clamps an end that exceeds the extent of the axis to the last element, so a backward slice is empty.
ONNX Runtime interprets the ends 2**31 - 1 and 2**63 - 1 as "down to the first element".

Preserves: results bit for bit, for axes of up to 2**31 - 1 elements.

Source: onnxruntime 1.32, `slice_helper.h`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Array, Op, Program, Value
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.passes.rewrite import rewrite

_IGNORED_ENDS = np.array([2**31 - 1, 2**63 - 1])
"""Ends of backward slices that ONNX Runtime does not treat as positions."""

_MAX_END = 2**31 - 2
"""Largest end of a backward slice that ONNX Runtime treats as a position."""


def protect_backward_slices(program: Program) -> Program:
    """Limit the ends of slices with a negative step to at most `_MAX_END`."""
    producers: dict[Value, Op] = {}

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        producers[op.outputs[0]] = op
        if op.op_type != "Slice" or len(op.inputs) < 5 or op.inputs[4] is None:
            return None
        ends, steps = operand(op, 2), operand(op, 4)
        constant_ends, constant_steps = b.constant_of(ends), b.constant_of(steps)
        if constant_steps is not None and np.all(constant_steps > 0):
            return None
        if constant_ends is not None and not np.isin(constant_ends, _IGNORED_ENDS).any():
            return None
        if _is_capped(b, producers, ends, constant_steps):
            return None
        capped_ends = b.op("Min", ends, _max_ends(b, ends, steps, constant_steps))
        return (b.op("Slice", *op.inputs[:2], capped_ends, *op.inputs[3:]),)

    return rewrite(program, rule)


def _is_capped(
    b: Builder, producers: Mapping[Value, Op], ends: Value, constant_steps: Array | None
) -> bool:
    """Return True if a `Min` already limits the ends of backward slices to `_MAX_END`."""
    min_op = producers.get(ends)
    if min_op is None or min_op.op_type != "Min" or len(min_op.inputs) != 2:
        return False
    slice_end_limits = operand(min_op, 1)
    if constant_steps is not None:
        constant_limits = b.constant_of(slice_end_limits)
        return constant_limits is not None and bool(
            np.all((constant_limits <= _MAX_END) | (constant_steps > 0))
        )
    selection_op = producers.get(slice_end_limits)
    if selection_op is None or selection_op.op_type != "Where":
        return False
    backward_limits = b.constant_of(operand(selection_op, 1))
    return backward_limits is not None and bool(np.all(backward_limits == _MAX_END))


def _max_ends(b: Builder, ends: Value, steps: Value, constant_steps: Array | None) -> Value:
    """Return the largest allowed slice end per axis, which is lower for negative steps."""
    max_backward_end, max_forward_end = (
        np.array(end, ends.dtype) for end in (_MAX_END, np.iinfo(ends.dtype).max)
    )
    if constant_steps is not None:
        return b.constant(np.where(constant_steps < 0, max_backward_end, max_forward_end))
    is_backward = b.op("Less", steps, b.constant(np.array(0, steps.dtype)))
    return b.op("Where", is_backward, b.constant(max_backward_end), b.constant(max_forward_end))
