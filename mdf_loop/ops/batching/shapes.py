"""Batching of operators that query shapes or rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operand,
    Operands,
    attribute,
    behind_run_axis,
    operand_values,
    optional,
    present_operands,
    refusal,
    refuse_other_batched,
    required,
)
from mdf_loop.ops.build_helpers import cast, ints, rank, scalar, size_between

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- shape and size ---------------------------------------------------------------------------


def shape(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Return the shape of one run, which all runs share."""
    x = required(operands)
    start, stop, _ = slice(attribute(op, "start"), attribute(op, "end")).indices(x.rank)
    known = (x.member.shape or ())[start:stop]
    if all(isinstance(extent, int) for extent in known):
        return (ints(scope.b, *(int(extent) for extent in known)),)
    return (scope.b.op("Shape", x.value, start=start + 1, end=stop + 1),)


def size(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Return the number of elements of one run."""
    extents = scope.b.op("Shape", required(operands).value, start=1)
    return (scope.b.op("ReduceProd", extents, keepdims=0),)


# --- axes -------------------------------------------------------------------------------------


def transpose(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Transpose each run in the order `perm`, or reverse the axes of each run."""
    x = required(operands)
    order = attribute(op, "perm") or tuple(reversed(range(x.rank)))
    return scope.apply(op, x.value, perm=(0, *(axis + 1 for axis in order)))


def unsqueeze(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Insert axes of extent 1 into each run, behind the run axis."""
    refuse_other_batched(op, operands, 0)
    axes = scope.constant(op, operands, 1)
    assert axes is not None
    return scope.apply(op, required(operands).value, _axes_behind_runs(scope.b, axes.tolist()))


def squeeze(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Remove the given axes of each run, or all axes whose extent is known to be 1."""
    refuse_other_batched(op, operands, 0)
    x, axes = required(operands), scope.constant(op, operands, 1)
    if axes is not None:
        return scope.apply(op, x.value, _axes_behind_runs(scope.b, axes.tolist()))
    extents = x.member.shape or ()
    if any(isinstance(extent, str) for extent in extents):
        raise refusal(op, f"the shape of {x.member.type} must be known, or the axes given")
    single = [axis for axis, extent in enumerate(extents) if extent == 1]
    return scope.apply(op, x.value, _axes_behind_runs(scope.b, single)) if single else (x.value,)


def _axes_behind_runs(b: Builder, axes: Sequence[int]) -> Value:
    return ints(b, *map(behind_run_axis, axes))


# --- shapes given as inputs -------------------------------------------------------------------


def reshape(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Reshape each run; the target shape begins with 0, which keeps the run axis, or with the number of runs.

    With zero runs, Reshape cannot infer an extent, so the target shape contains the known extents.
    """
    refuse_other_batched(op, operands, 0)
    b, member_shape = scope.b, op.outputs[0].shape
    if is_fixed(member_shape) and 0 not in member_shape:
        return scope.apply(op, required(operands).value, ints(b, 0, *member_shape), allowzero=0)
    known = b.constant_of(required(operands, 1).value)
    if known is not None and -1 in known and 0 not in known:
        own = b.op("Shape", required(operands).value, start=1)
        others = ints(b, int(-np.prod(known)))
        rest = b.op("Div", b.op("ReduceProd", own, keepdims=1), others)
        parts = (rest if extent == -1 else ints(b, int(extent)) for extent in known)
        target_shape = b.op("Concat", ints(b, 0), *parts, axis=0)
        return scope.apply(op, required(operands).value, target_shape, allowzero=0)
    front = scope.count() if attribute(op, "allowzero") else ints(b, 0)
    target_shape = b.op("Concat", front, required(operands, 1).value, axis=0)
    return scope.apply(op, required(operands).value, target_shape)


def flatten(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Flatten each run into two axes."""
    b, x = scope.b, required(operands)
    axis = attribute(op, "axis")
    middle = 1 + (axis + x.rank if axis < 0 else axis)
    sides = size_between(b, x.value, 1, middle), size_between(b, x.value, middle)
    shape = b.op("Concat", scope.count(), *sides, axis=0)
    return (b.op("Reshape", x.value, shape, allowzero=1),)


def expand(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Expand each run; `[runs, n]` to the shape `[m, n]` broadcasts `[runs, 1, n]` with `[1, m, n]`."""
    refuse_other_batched(op, operands, 0)
    x, target_shape = required(operands, 0), required(operands, 1)
    axes = max(rank(op.outputs[0]), x.rank)
    length = _list_length(op, target_shape)
    shape = scope.b.op(
        "Concat", ints(scope.b, *[1] * (1 + axes - length)), target_shape.value, axis=0
    )
    return scope.apply(op, scope.align_rank(x, axes), shape)


def tile(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Tile for all runs, with 1 repeat of the run axis."""
    refuse_other_batched(op, operands, 0)
    repeats = scope.b.op("Concat", ints(scope.b, 1), required(operands, 1).value, axis=0)
    return scope.apply(op, required(operands).value, repeats)


def pad(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Pad each run, without padding of the run axis."""
    refuse_other_batched(op, operands, 0, 2)
    b, x, filling = scope.b, required(operands), optional(operands, 2)
    if filling is not None and filling.batched:
        return (_pad_per_run(scope, op, operands, filling),)
    axes, pads = scope.constant(op, operands, 3), required(operands, 1).value
    if axes is not None:
        return scope.apply(
            op, x.value, pads, *operand_values(operands[2:3]), _axes_behind_runs(b, axes.tolist())
        )
    middle, end, none = ints(b, x.rank), ints(b, 2 * x.rank), ints(b, 0)
    before, behind = b.op("Slice", pads, none, middle), b.op("Slice", pads, middle, end)
    around = b.op("Concat", none, before, none, behind, axis=0)
    return scope.apply(op, x.value, around, *operand_values(operands[2:]))


def _pad_per_run(scope: BatchScope, op: Op, operands: Operands, filling: Operand) -> Value:
    """Pad each run with a separate fill value, which Where selects at the padded positions."""
    b, x, (_, pads, _, *axes) = scope.b, required(operands), operands
    own = b.op("Shape", x.value, start=int(x.batched)) if x.rank else ints(b)
    inside = b.op("Expand", scalar(b, 0, "int64"), own)
    marked = b.op(
        "Pad", inside, *operand_values([pads]), scalar(b, 1, "int64"), *operand_values(axes)
    )
    zero = Operand(filling.member, scalar(b, 0, filling.value.dtype), batched=False)
    around = (
        pad(scope, op, [x, pads, zero, *axes])[0] if x.batched else _pad_shared(scope, op, operands)
    )
    number = scope.align_rank(filling, x.rank)
    return b.op("Where", cast(b, marked, "bool"), number, around)


def _pad_shared(scope: BatchScope, op: Op, operands: Operands) -> Value:
    """Pad an operand that all runs share with zeros."""
    x, pads, _, *axes = operand_values(operands)
    return scope.apply(op, x, pads, None, *axes)[0]


def center_crop_pad(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Crop or pad the axes of each run."""
    refuse_other_batched(op, operands, 0)
    x = required(operands)
    axes = attribute(op, "axes") or range(x.rank)
    return scope.apply(
        op, x.value, required(operands, 1).value, axes=tuple(map(behind_run_axis, axes))
    )


def slice_(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Slice the given axes of each run, or the first axes if none are given."""
    refuse_other_batched(op, operands, 0)
    starts = required(operands, 1)
    axes = scope.constant(op, operands, 3)
    places = range(_list_length(op, starts)) if axes is None else axes.tolist()
    moved = scope.b.constant(np.array([*map(behind_run_axis, places)], starts.member.dtype))
    step = optional(operands, 4)
    return scope.apply(
        op, *operand_values(operands[:3]), moved, *([] if step is None else [step.value])
    )


def _list_length(op: Op, x: Operand) -> int:
    """Return the number of elements of a one-dimensional operand, which must be known at compile time."""
    extent = (x.member.shape or ("",))[0]
    if not isinstance(extent, int):
        raise refusal(op, f"the length of '{x.member.name}' must be known")
    return extent


# --- concatenation ----------------------------------------------------------------------------


def concat(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Concatenate the operands of each run; an operand that all runs share is expanded to all runs."""
    parts = (scope.with_run_axis(x) for x in present_operands(operands))
    return scope.apply(op, *parts, axis=behind_run_axis(attribute(op, "axis")))
