"""Derivatives of operators that move elements, whose cotangents move the elements back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast, extents, ints, rank, scalar, sum_of
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, optional_operand
from mdf_loop.ops.derivatives.rule import (
    ExplicitDerivative,
    TangentsOrCotangents,
    first_operand_cotangent,
    is_float,
    linear,
    sum_values,
)
from mdf_loop.ops.derivatives.scatter_add import scatter_add_rows, slice_list
from mdf_loop.ops.derivatives.shapes import (
    broadcast_like,
    extent,
    reshape_like,
    shape_of,
    sum_copies,
    sum_to_shape,
    with_shape_of,
    zeros,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


# --- axes -------------------------------------------------------------------------------------


def _reshape_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    return reshape_like(b, cotangent, operand(op))


def _transpose_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    axis_order = attribute(op, "perm") or tuple(reversed(range(rank(operand(op)))))
    return b.op("Transpose", cotangent, perm=tuple(int(k) for k in np.argsort(axis_order)))


def _expand_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    return sum_to_shape(b, cotangent, operand(op))


def _tile_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    x = operand(op)
    return reshape_like(b, sum_copies(b, cotangent, operand(op, 1), shape_of(b, x)), x)


RESHAPE_DERIVATIVE = linear(first_operand_cotangent(_reshape_cotangent))
TRANSPOSE_DERIVATIVE = linear(first_operand_cotangent(_transpose_cotangent))
EXPAND_DERIVATIVE = linear(first_operand_cotangent(_expand_cotangent))
TILE_DERIVATIVE = linear(first_operand_cotangent(_tile_cotangent))


# --- Concat and Split -------------------------------------------------------------------------


def _concat_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    """Build the cotangent of operand k of Concat: a slice of the result's cotangent."""
    (cotangent,), axis = result_cotangents, attribute(op, "axis") % rank(operand(op))
    if cotangent is None:
        return None
    slice_start = _build_concat_offset(b, op, k, axis)
    slice_end = b.op("Add", slice_start, extent(b, operand(op, k), axis))
    return b.op(
        "Slice",
        cotangent,
        _reshape_to_vector(b, slice_start),
        _reshape_to_vector(b, slice_end),
        ints(b, axis),
    )


def _build_concat_offset(b: Builder, op: Op, count: int, axis: int) -> Value:
    """Build the sum of the extents of the first `count` operands of Concat."""
    return sum_values(
        b,
        [scalar(b, 0, "int64"), *(extent(b, operand(op, k), axis) for k in range(count))],
    )


def _reshape_to_vector(b: Builder, number: Value) -> Value:
    return b.op("Reshape", number, ints(b, 1))


def _split_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    if k != 0 or all(result_cotangent is None for result_cotangent in result_cotangents):
        return None
    part_cotangents = [
        result_cotangent or zeros(b, y)
        for result_cotangent, y in zip(result_cotangents, op.outputs, strict=True)
    ]
    return b.op("Concat", *part_cotangents, axis=attribute(op, "axis"))


CONCAT_DERIVATIVE = linear(_concat_cotangent, ())
SPLIT_DERIVATIVE = linear(_split_cotangent)


# --- slices -----------------------------------------------------------------------------------


def _slice_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    """Build the cotangent of the operand of Slice: zeros, with the result's cotangent in the slice.

    If a step may differ from 1, rows are added at their indices along each axis.
    """
    x, starts_operand, steps_operand = operand(op), operand(op, 1), optional_operand(op, 4)
    axes = _sliced_axes(b, op)
    constant_steps = None if steps_operand is None else b.constant_of(steps_operand)
    if steps_operand is None or (constant_steps is not None and np.all(constant_steps == 1)):
        return _pad_slice(b, x, cotangent, starts_operand, axes)
    for k, axis in enumerate(axes):
        extent_along_axis = extent(b, x, axis)
        all_indices = b.op("Range", scalar(b, 0, "int64"), extent_along_axis, scalar(b, 1, "int64"))
        axis_start, axis_end, axis_step = (
            cast(b, slice_list(b, operand(op, operand_position), k, k + 1), "int64")
            for operand_position in (1, 2, 4)
        )
        sliced_indices = b.op("Slice", all_indices, axis_start, axis_end, ints(b, 0), axis_step)
        cotangent = scatter_add_rows(b, cotangent, sliced_indices, extent_along_axis, axis)
    return cotangent


def _sliced_axes(b: Builder, op: Op) -> list[int]:
    axes, starts = optional_operand(op, 3), operand(op, 1)
    if axes is None:
        (start_count,) = extents(starts)
        assert isinstance(start_count, int), "as many starts as the type of the result says"
        return list(range(start_count))
    constant_axes = b.constant_of(axes)
    assert constant_axes is not None, "the type of the result is told by axes that are known"
    return [int(axis) % rank(operand(op)) for axis in constant_axes]


def _pad_slice(b: Builder, x: Value, cotangent: Value, starts: Value, axes: list[int]) -> Value:
    """Pad the cotangent of a Slice (with steps of 1) with zeros to the shape of the operand."""
    axes_constant = b.constant(np.array(axes, np.int64))
    x_extents, cotangent_extents = (
        b.op("Gather", shape_of(b, x_or_cotangent), axes_constant, axis=0)
        for x_or_cotangent in (x, cotangent)
    )
    zero, constant_starts, starts = (
        scalar(b, 0, "int64"),
        b.constant_of(starts),
        cast(b, starts, "int64"),
    )
    if constant_starts is None or np.any(constant_starts < 0):
        starts = b.op("Where", b.op("Less", starts, zero), b.op("Add", starts, x_extents), starts)
    leading_pads = b.op("Min", b.op("Max", starts, zero), x_extents)
    trailing_pads = b.op("Sub", b.op("Sub", x_extents, leading_pads), cotangent_extents)
    return b.op(
        "Pad", cotangent, _build_all_axis_pads(b, (leading_pads, trailing_pads), axes, rank(x))
    )


def _build_all_axis_pads(
    b: Builder, start_and_end_pads: tuple[Value, Value], axes: list[int], rank: int
) -> Value:
    """Build the `pads` operand of ONNX's Pad for all axes from the pads of some axes."""
    listed_pads = b.op("Concat", *start_and_end_pads, ints(b, 0), axis=0)
    position_by_axis = {axis: k for k, axis in enumerate(axes)}
    pad_positions = [
        position_by_axis[axis] + pad_side * len(axes) if axis in position_by_axis else 2 * len(axes)
        for pad_side in (0, 1)
        for axis in range(rank)
    ]
    return b.op("Gather", listed_pads, ints(b, *pad_positions), axis=0)


SLICE_DERIVATIVE = linear(first_operand_cotangent(_slice_cotangent))


# --- pads -------------------------------------------------------------------------------------


def _pad_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    """Build the cotangent of the array or the fill value of Pad.

    With constant padding, the cotangent of the array is `cotangent` without the pads. The cotangent of the fill value is the
    sum of `cotangent` over the pads.
    """
    (cotangent,) = result_cotangents
    if cotangent is None or k not in (0, 2):
        return None
    if k == 2:
        return _fill_value_cotangent(b, op, cotangent)
    if attribute(op, "mode") != "constant":
        return _mirrored_pad_cotangent(b, op, cotangent)
    axes_operand = [] if optional_operand(op, 3) is None else [None, optional_operand(op, 3)]
    return b.op("Pad", cotangent, b.op("Neg", operand(op, 1)), *axes_operand)


def _fill_value_cotangent(b: Builder, op: Op, cotangent: Value) -> Value | None:
    if attribute(op, "mode") != "constant":
        return None
    zero, one = (scalar(b, k, "int64") for k in (0, 1))
    zeros_like_x = b.op("Expand", zero, shape_of(b, operand(op)))
    is_padding = cast(b, b.op("Pad", zeros_like_x, operand(op, 1), one, *op.inputs[3:]), "bool")
    return reshape_like(
        b,
        sum_of(b, b.op("Where", is_padding, cotangent, scalar(b, 0, cotangent.dtype))),
        operand(op, 2),
    )


def _mirrored_pad_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    """Build the cotangent of the array of Pad for modes that repeat elements, such as reflect.

    Each element of `cotangent` is added at the index of its source.

    The source indices are the indices of an axis padded in the same mode.
    """
    x, pads, axes_operand = operand(op), operand(op, 1), optional_operand(op, 3)
    constant_axes = None if axes_operand is None else b.constant_of(axes_operand)
    axes = (
        range(rank(x)) if constant_axes is None else [int(axis) % rank(x) for axis in constant_axes]
    )
    for k, axis in enumerate(axes):
        axis_pads = b.op("Gather", pads, ints(b, k, k + len(axes)), axis=0)
        constant_pads = b.constant_of(axis_pads)
        if constant_pads is not None and not constant_pads.any():
            continue
        extent_along_axis = extent(b, x, axis)
        all_indices = b.op("Range", scalar(b, 0, "int64"), extent_along_axis, scalar(b, 1, "int64"))
        source_indices = b.op("Pad", all_indices, axis_pads, mode=attribute(op, "mode"))
        cotangent = scatter_add_rows(b, cotangent, source_indices, extent_along_axis, axis)
    return cotangent


def _center_crop_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    """Build the cotangent of the array of CenterCropPad: the result's cotangent, cropped or padded back.

    CenterCropPad removes as many elements at the start as the reverse operation inserts.
    """
    operand_shape, axes = shape_of(b, operand(op)), op.attributes.get("axes")
    if axes is not None:
        operand_shape = b.op("Gather", operand_shape, ints(b, *axes), axis=0)
    return b.op("CenterCropPad", cotangent, operand_shape, **op.attributes)


PAD_DERIVATIVE = linear(_pad_cotangent, (0, 2))
CENTER_CROP_PAD_DERIVATIVE = linear(first_operand_cotangent(_center_crop_cotangent))


# --- operations that are their own transpose --------------------------------------------------


def _self_transposed_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    return b.op(op.op_type, cotangent, *op.inputs[1:], **op.attributes)


SELF_TRANSPOSED_DERIVATIVE = linear(first_operand_cotangent(_self_transposed_cotangent))


# --- Range ------------------------------------------------------------------------------------


def _range_tangents(
    b: Builder, op: Op, operand_tangents: TangentsOrCotangents
) -> TangentsOrCotangents:
    """Build the tangent of Range, whose elements are `start + k * delta`."""
    start_tangent, _, delta_tangent = operand_tangents
    y = op.outputs[0]
    step_tangents = (
        None if delta_tangent is None else b.op("Mul", delta_tangent, _build_range_indices(b, y))
    )
    if start_tangent is not None:
        start_tangent = broadcast_like(b, start_tangent, y)
    tangent_terms = [tangent for tangent in (start_tangent, step_tangents) if tangent is not None]
    return (with_shape_of(b, sum_values(b, tangent_terms), y) if tangent_terms else None,)


def _range_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    (cotangent,) = result_cotangents
    if cotangent is None or k == 1 or not is_float(op.inputs[k]):
        return None
    return sum_of(
        b, cotangent if k == 0 else b.op("Mul", cotangent, _build_range_indices(b, cotangent))
    )


def _build_range_indices(b: Builder, x: Value) -> Value:
    """Build the indices 0, 1, 2, ... of a one-dimensional array, in the dtype of the array."""
    positions = b.op("Range", scalar(b, 0, "int64"), extent(b, x, 0), scalar(b, 1, "int64"))
    return cast(b, positions, x.dtype)


RANGE_DERIVATIVE = ExplicitDerivative(_range_tangents, _range_cotangent)
