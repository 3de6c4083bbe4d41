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
    batching_error,
    operand_values,
    optional_operand,
    present_operands,
    refuse_other_batched,
    required_operand,
    shift_axis,
)
from mdf_loop.ops.build_helpers import cast, ints, rank, scalar, size_between

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- shape and size ---------------------------------------------------------------------------


def shape(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build ONNX's Shape of a single model run, which all runs share."""
    x = required_operand(operands)
    first_axis, end_axis, _ = slice(attribute(op, "start"), attribute(op, "end")).indices(x.rank)
    shape_slice = (x.single_run_value.shape or ())[first_axis:end_axis]
    if all(isinstance(extent, int) for extent in shape_slice):
        return (ints(scope.b, *(int(extent) for extent in shape_slice)),)
    return (scope.b.op("Shape", x.value, start=first_axis + 1, end=end_axis + 1),)


def size(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build ONNX's Size (number of elements) of a single model run, which all runs share."""
    run_shape = scope.b.op("Shape", required_operand(operands).value, start=1)
    return (scope.b.op("ReduceProd", run_shape, keepdims=0),)


# --- axes -------------------------------------------------------------------------------------


def transpose(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Transpose for a batch of model runs: permute or reverse the axes of each run."""
    x = required_operand(operands)
    axis_order = attribute(op, "perm") or tuple(reversed(range(x.rank)))
    return scope.append_copy(op, x.value, perm=(0, *(axis + 1 for axis in axis_order)))


def unsqueeze(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Unsqueeze for a batch of model runs: insert axes of extent 1 into each run."""
    refuse_other_batched(op, operands, 0)
    axes = scope.constant(op, operands, 1)
    assert axes is not None
    return scope.append_copy(
        op, required_operand(operands).value, _shift_axes(scope.b, axes.tolist())
    )


def squeeze(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Squeeze for a batch of model runs: remove the given axes, or all axes of extent 1, from each run."""
    refuse_other_batched(op, operands, 0)
    x, axes = required_operand(operands), scope.constant(op, operands, 1)
    if axes is not None:
        return scope.append_copy(op, x.value, _shift_axes(scope.b, axes.tolist()))
    run_extents = x.single_run_value.shape or ()
    if any(isinstance(extent, str) for extent in run_extents):
        raise batching_error(
            op, f"the shape of {x.single_run_value.type} must be known, or the axes given"
        )
    unit_axes = [axis for axis, extent in enumerate(run_extents) if extent == 1]
    return (
        scope.append_copy(op, x.value, _shift_axes(scope.b, unit_axes)) if unit_axes else (x.value,)
    )


def _shift_axes(b: Builder, axes: Sequence[int]) -> Value:
    return ints(b, *map(shift_axis, axes))


# --- shapes given as inputs -------------------------------------------------------------------


def reshape(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Reshape for a batch of model runs, with a target shape that keeps the run axis.

    The target shape begins with 0, which keeps the run axis, or with the number of runs.

    With zero runs, Reshape cannot infer an extent, so the target shape contains the known extents.
    """
    refuse_other_batched(op, operands, 0)
    b, member_shape = scope.b, op.outputs[0].shape
    if is_fixed(member_shape) and 0 not in member_shape:
        return scope.append_copy(
            op, required_operand(operands).value, ints(b, 0, *member_shape), allowzero=0
        )
    known_shape = b.constant_of(required_operand(operands, 1).value)
    if known_shape is not None and -1 in known_shape and 0 not in known_shape:
        operand_shape = b.op("Shape", required_operand(operands).value, start=1)
        known_product = ints(b, int(-np.prod(known_shape)))
        inferred_extent = b.op("Div", b.op("ReduceProd", operand_shape, keepdims=1), known_product)
        target_extents = (
            inferred_extent if extent == -1 else ints(b, int(extent)) for extent in known_shape
        )
        target_shape = b.op("Concat", ints(b, 0), *target_extents, axis=0)
        return scope.append_copy(op, required_operand(operands).value, target_shape, allowzero=0)
    first_extent = scope.run_count() if attribute(op, "allowzero") else ints(b, 0)
    target_shape = b.op("Concat", first_extent, required_operand(operands, 1).value, axis=0)
    return scope.append_copy(op, required_operand(operands).value, target_shape)


def flatten(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Flatten for a batch of model runs: reshape each run to two axes."""
    b, x = scope.b, required_operand(operands)
    axis = attribute(op, "axis")
    split_axis = 1 + (axis + x.rank if axis < 0 else axis)
    flattened_extents = (
        size_between(b, x.value, 1, split_axis),
        size_between(b, x.value, split_axis),
    )
    flattened_shape = b.op("Concat", scope.run_count(), *flattened_extents, axis=0)
    return (b.op("Reshape", x.value, flattened_shape, allowzero=1),)


def expand(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Expand for a batch of model runs, with broadcasting of each run to the target shape.

    `[runs, n]` to the shape `[m, n]` broadcasts `[runs, 1, n]` with `[1, m, n]`.
    """
    refuse_other_batched(op, operands, 0)
    x, target_shape = required_operand(operands, 0), required_operand(operands, 1)
    axis_count = max(rank(op.outputs[0]), x.rank)
    target_axis_count = _known_length(op, target_shape)
    padded_shape = scope.b.op(
        "Concat",
        ints(scope.b, *[1] * (1 + axis_count - target_axis_count)),
        target_shape.value,
        axis=0,
    )
    return scope.append_copy(op, scope.align_rank(x, axis_count), padded_shape)


def tile(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Tile for a batch of model runs, without repetition of the run axis."""
    refuse_other_batched(op, operands, 0)
    repeats = scope.b.op("Concat", ints(scope.b, 1), required_operand(operands, 1).value, axis=0)
    return scope.append_copy(op, required_operand(operands).value, repeats)


def pad(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Pad for a batch of model runs, without padding of the run axis."""
    refuse_other_batched(op, operands, 0, 2)
    b, x, fill_value = scope.b, required_operand(operands), optional_operand(operands, 2)
    if fill_value is not None and fill_value.is_batched:
        return (_pad_per_run(scope, op, operands, fill_value),)
    axes, pads = scope.constant(op, operands, 3), required_operand(operands, 1).value
    if axes is not None:
        return scope.append_copy(
            op, x.value, pads, *operand_values(operands[2:3]), _shift_axes(b, axes.tolist())
        )
    axis_count, pad_count, zero = ints(b, x.rank), ints(b, 2 * x.rank), ints(b, 0)
    leading_pads, trailing_pads = (
        b.op("Slice", pads, zero, axis_count),
        b.op("Slice", pads, axis_count, pad_count),
    )
    shifted_pads = b.op("Concat", zero, leading_pads, zero, trailing_pads, axis=0)
    return scope.append_copy(op, x.value, shifted_pads, *operand_values(operands[2:]))


def _pad_per_run(scope: BatchScope, op: Op, operands: Operands, fill_value: Operand) -> Value:
    """Pad each model run with its own fill value, which Where selects at the padded positions."""
    b, x, (_, pads, _, *axes) = scope.b, required_operand(operands), operands
    operand_shape = b.op("Shape", x.value, start=int(x.is_batched)) if x.rank else ints(b)
    zeros = b.op("Expand", scalar(b, 0, "int64"), operand_shape)
    pad_mask = b.op(
        "Pad", zeros, *operand_values([pads]), scalar(b, 1, "int64"), *operand_values(axes)
    )
    zero_fill = Operand(
        fill_value.single_run_value, scalar(b, 0, fill_value.value.dtype), is_batched=False
    )
    padded_runs = (
        pad(scope, op, [x, pads, zero_fill, *axes])[0]
        if x.is_batched
        else _pad_shared(scope, op, operands)
    )
    aligned_fill_values = scope.align_rank(fill_value, x.rank)
    return b.op("Where", cast(b, pad_mask, "bool"), aligned_fill_values, padded_runs)


def _pad_shared(scope: BatchScope, op: Op, operands: Operands) -> Value:
    """Pad with zeros an operand that all model runs share."""
    x, pads, _, *axes = operand_values(operands)
    return scope.append_copy(op, x, pads, None, *axes)[0]


def center_crop_pad(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build CenterCropPad for a batch of model runs: crop or pad the axes of each run."""
    refuse_other_batched(op, operands, 0)
    x = required_operand(operands)
    axes = attribute(op, "axes") or range(x.rank)
    return scope.append_copy(
        op, x.value, required_operand(operands, 1).value, axes=tuple(map(shift_axis, axes))
    )


def slice_(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Slice for a batch of model runs, along the given axes or the first axes of each run."""
    refuse_other_batched(op, operands, 0)
    starts_operand = required_operand(operands, 1)
    axes = scope.constant(op, operands, 3)
    listed_axes = range(_known_length(op, starts_operand)) if axes is None else axes.tolist()
    shifted_axes = scope.b.constant(
        np.array([*map(shift_axis, listed_axes)], starts_operand.single_run_value.dtype)
    )
    steps_operand = optional_operand(operands, 4)
    return scope.append_copy(
        op,
        *operand_values(operands[:3]),
        shifted_axes,
        *([] if steps_operand is None else [steps_operand.value]),
    )


def _known_length(op: Op, x: Operand) -> int:
    """Return the number of elements of a one-dimensional operand, which must be known at compile time."""
    vector_length = (x.single_run_value.shape or ("",))[0]
    if not isinstance(vector_length, int):
        raise batching_error(op, f"the length of '{x.single_run_value.name}' must be known")
    return vector_length


# --- concatenation ----------------------------------------------------------------------------


def concat(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Concat for a batch of model runs, with shared operands expanded to all runs."""
    batched_operands = (scope.with_run_axis(x) for x in present_operands(operands))
    return scope.append_copy(op, *batched_operands, axis=shift_axis(attribute(op, "axis")))
