"""Fusion of consecutive `Unsqueeze` operations, and of consecutive `Squeeze` operations.

    u = Unsqueeze(x, 0); y = Unsqueeze(u, 0)     ->   y = Unsqueeze(x, [0, 1])
    s = Squeeze(x, 1);   y = Squeeze(s, 0)       ->   y = Squeeze(x, [0, 1])

Preserves: results bit for bit. Every operation costs ONNX Runtime about a microsecond, even if the operation
computes no element. Imported loops often build the indices of `ScatterND` by two insertions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.build_helpers import ints
from mdf_loop.passes.rewrite import rewrite


def fuse_axis_changes(program: Program) -> Program:
    """Fuse each chain of `Unsqueeze` (or of `Squeeze`) operations into one operation."""
    return rewrite(program, _AxisChangeFuser().rule)


class _AxisChange(NamedTuple):
    """Insertion of axes by an `Unsqueeze`, or removal of axes by a `Squeeze`."""

    op_type: str
    source: Value
    axes: Sequence[int]


class _AxisChangeFuser:
    """Rewrite rule that fuses chains of `Unsqueeze` or of `Squeeze`."""

    def __init__(self) -> None:
        self.axis_changes: dict[Value, _AxisChange] = {}

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """Fuse an `Unsqueeze` or `Squeeze` with an earlier one, or return None if there is none.

        Return the result of the fused operation.
        """
        axis_change = _axis_change(b, op)
        if axis_change is None:
            return None
        earlier_change = self.axis_changes.get(axis_change.source)
        if earlier_change is None or earlier_change.op_type != op.op_type:
            self.axis_changes[op.outputs[0]] = axis_change
            return None
        fused_change = _fuse_changes(earlier_change, axis_change)
        self.axis_changes[op.outputs[0]] = fused_change
        return (b.op(fused_change.op_type, fused_change.source, ints(b, *fused_change.axes)),)


def _axis_change(b: Builder, op: Op) -> _AxisChange | None:
    """Return the axis insertion or removal of an operation, or None for other operations."""
    if op.op_type not in ("Unsqueeze", "Squeeze") or len(op.inputs) != 2:
        return None
    source_value, axes_value = op.inputs
    higher_rank_value = op.outputs[0] if op.op_type == "Unsqueeze" else source_value
    constant_axes = None if axes_value is None else b.constant_of(axes_value)
    if (
        source_value is None
        or constant_axes is None
        or higher_rank_value is None
        or higher_rank_value.shape is None
    ):
        return None
    return _AxisChange(
        op.op_type,
        source_value,
        [int(axis) % len(higher_rank_value.shape) for axis in constant_axes],
    )


def _fuse_changes(first: _AxisChange, second: _AxisChange) -> _AxisChange:
    """Return one `Unsqueeze` or `Squeeze` equivalent to two consecutive ones.

    The axes of a change are positions in the array of higher rank. An insertion therefore shifts the axes
    of the insertion before it, and a removal shifts the axes of the removal after it.
    """
    full_rank_change, reduced_rank_change = (
        (second, first) if first.op_type == "Unsqueeze" else (first, second)
    )
    full_rank = (
        len(full_rank_change.axes) + max((*full_rank_change.axes, *reduced_rank_change.axes)) + 1
    )
    other_axes = [axis for axis in range(full_rank) if axis not in full_rank_change.axes]
    fused_axes = sorted(
        (*full_rank_change.axes, *(other_axes[axis] for axis in reduced_rank_change.axes))
    )
    return _AxisChange(first.op_type, first.source, fused_axes)
