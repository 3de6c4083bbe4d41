"""Registry rows of operators that query shapes, rearrange elements, and select elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array, Op
from mdf_loop.ops import cuda_replacements, known_kernels, speeds
from mdf_loop.ops.batching import products, reductions, rows, selection, shapes
from mdf_loop.ops.decompositions import selection as decomposing
from mdf_loop.ops.decompositions import text
from mdf_loop.ops.derivatives import movement as moving
from mdf_loop.ops.derivatives import selection as choices
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.failure_conditions import (
    has_index_outside,
    has_index_tuple_outside,
    has_invalid_slice,
    has_too_few_elements,
    may_mismatch_unknown_extent,
    unless_shape_and_values_known,
    unless_values_known,
)
from mdf_loop.ops.known_kernels import NUMBERS, NUMBERS_AND_BOOL, first_dtype
from mdf_loop.ops.native import filling, positions, shaping
from mdf_loop.ops.native import selection as native_selection
from mdf_loop.ops.opset_changes import opset_of_reduction, part_count_as_attribute
from mdf_loop.ops.registry import Bits, Row, always, never


def _first(op: Op) -> Sequence[int]:
    return (0,)


def _all(op: Op) -> Sequence[int]:
    return range(len(op.inputs))


def _data_and_filling(op: Op) -> Sequence[int]:
    return range(0, len(op.inputs), 2)[:2]


def _one_hot(index: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Return OneHot: `on` at the index along a new axis and `off` elsewhere; negative indices count from the end."""
    extent = int(np.ravel(depth)[0])
    positions = np.asarray(index).astype(np.int64)
    positions = np.where(positions < 0, positions + extent, positions)
    off, on = values
    rank = positions.ndim + 1
    places = np.arange(extent).reshape(extent, *(1,) * (rank - 1 - axis % rank))
    is_on = np.expand_dims(positions, axis % rank) == places
    return np.asarray(np.where(is_on, on, off), values.dtype)


_copied = partial(Row, moves=_first, bits=Bits.FIXED)
_indexed = partial(_copied, has_kernel=known_kernels.for_indexed_dtypes(NUMBERS_AND_BOOL))
_counted = partial(Row, bits=Bits.FIXED, never_negative=always)


def _pad(
    x: Array,
    pads: Array,
    value: Array | None = None,
    axes: Array | None = None,
    mode: str = "constant",
) -> Array:
    """Return an array padded as by ONNX's Pad, in which negative pads crop.

    Raises:
        RunError: the mode `reflect` needs more elements than an axis has.
    """
    along = np.arange(x.ndim) if axes is None else np.asarray(axes) % max(1, x.ndim)
    ends = np.zeros((x.ndim, 2), np.int64)
    ends[along] = np.reshape(pads, (2, -1)).T
    sides = zip(x.shape, *np.maximum(-ends, 0).T.tolist(), strict=True)
    cropped = x[tuple(slice(before, extent - after) for extent, before, after in sides)]
    if mode == "reflect" and np.any(ends >= np.maximum(cropped.shape, 1)[:, np.newaxis]):
        raise RunError("onnx::Pad reflects more elements than the axis has")
    filling = {} if mode != "constant" or value is None else {"constant_values": value.item()}
    padded: Array = np.pad(cropped, np.maximum(ends, 0).tolist(), mode, **filling)  # type: ignore[call-overload]
    return padded


def _slice(
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    """Return the elements that ONNX's Slice selects; the bounds of backward slices differ from Python's."""
    places = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(
        places, np.ravel(starts).tolist(), np.ravel(ends).tolist(), strides, strict=True
    ):
        parts[axis] = _axis_slice(x.shape[axis], start, end, step)
    selected: Array = x[tuple(parts)]
    return selected


def _axis_slice(extent: int, start: int, end: int, step: int) -> slice:
    """Return the Python slice of an axis for the bounds of an ONNX `Slice`, clipped to the axis."""
    first, last = (end + extent if end < 0 else end for end in (start, end))
    if step >= 0:
        return slice(min(max(first, 0), extent), min(max(last, 0), extent), step)
    first = min(max(first, 0), extent - 1)
    return slice(first, min(last, extent - 1) if last >= 0 else None, step)


def _gather_nd(data: Array, indices: Array, batch_dims: int = 0) -> Array:
    """Return GatherND: `data[batch, *indices[batch, k]]`, with the correct shape even for an empty batch."""
    batch, own = indices.shape[:batch_dims], (1,) * (indices.ndim - 1 - batch_dims)
    members = tuple(grid.reshape(*batch, *own) for grid in np.indices(batch))
    elements: Array = np.asarray(data)[(*members, *np.moveaxis(indices, -1, 0))]
    return elements


def _refuse_outside(x: Array, indices: Array, axis: int) -> None:
    count = x.shape[axis]
    if indices.size and not -count <= indices.min() <= indices.max() < count:
        raise IndexError(f"an index is not on axis {axis}, which has {count} elements")


def _gather(x: Array, indices: Array, axis: int = 0) -> Array:
    """Return the rows of an array at indices along an axis.

    Raises:
        IndexError: an index is out of range, which numpy does not check for empty rows.
    """
    _refuse_outside(x, indices, axis)
    return np.asarray(np.take(x, indices, axis))


def _gather_elements(x: Array, indices: Array, axis: int = 0) -> Array:
    """Return GatherElements; unlike in onnx's reference, indices may have smaller extents than the data."""
    _refuse_outside(x, indices, axis)
    places: list[Array] = [*np.indices(indices.shape, sparse=True)]
    places[axis] = indices
    elements: Array = x[tuple(places)]
    return elements


def _has_wrong_text_gather(op: Op) -> bool:
    """Return True for Gather of strings, whose kernel copies only the first string of each row."""
    shape = op.inputs[0].shape if op.inputs[0] else None
    last = shape is not None and op.attributes.get("axis", 0) in (-1, len(shape) - 1)
    return first_dtype(op) == "string" and not last


def _has_failing_half_scatter(op: Op) -> bool:
    """Return True for a float16 scatter with a reduction, which the CPU kernel refuses."""
    return first_dtype(op) == "float16" and "reduction" in op.attributes


SHAPE_QUERIES = (
    _counted(
        name="Shape",
        by_shape=True,
        native_whole=shaping.shape,
        may_fail=never,
        has_kernel=known_kernels.for_dtypes(NUMBERS_AND_BOOL),
        batched=shapes.shape,
    ),
    _counted(
        name="Size",
        by_shape=True,
        native_whole=shaping.size,
        may_fail=never,
        has_kernel=known_kernels.for_dtypes(NUMBERS_AND_BOOL),
        batched=shapes.size,
    ),
    _indexed(
        name="Reshape",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.reshape,
        may_fail=unless_shape_and_values_known(1),
        batched=shapes.reshape,
    ),
    _copied(
        name="Flatten",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.flatten,
        may_fail=never,
        batched=shapes.flatten,
    ),
    _indexed(
        name="Squeeze",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.squeeze,
        may_fail=unless_shape_and_values_known(1),
        batched=shapes.squeeze,
    ),
    _indexed(
        name="Unsqueeze",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.unsqueeze,
        may_fail=unless_values_known(1),
        batched=shapes.unsqueeze,
    ),
    _copied(
        name="Transpose",
        speed=speeds.TRANSPOSED,
        derivative=moving.TRANSPOSE,
        native_whole=shaping.transpose,
        may_fail=never,
        has_kernel=known_kernels.for_dtypes(NUMBERS_AND_BOOL),
        batched=shapes.transpose,
    ),
)

ARRANGING = (
    _copied(
        name="Concat",
        derivative=moving.CONCAT,
        moves=_all,
        native_whole=shaping.concatenate,
        may_fail=never,
        has_kernel=known_kernels.for_dtypes(NUMBERS_AND_BOOL),
        batched=shapes.concat,
    ),
    _indexed(
        name="Split",
        derivative=moving.SPLIT,
        decomposition=decomposing.split,
        may_fail=unless_shape_and_values_known(1),
        batched=reductions.along_axis,
        newer_forms=((18, part_count_as_attribute),),
    ),
    _indexed(
        name="Slice",
        derivative=moving.SLICE,
        meaning=_slice,
        native_whole=shaping.slice_axes,
        may_fail=has_invalid_slice,
        batched=shapes.slice_,
    ),
    _indexed(
        name="Expand",
        derivative=moving.EXPAND,
        in_order=True,
        native_whole=shaping.expand,
        may_fail=unless_shape_and_values_known(1),
        batched=shapes.expand,
    ),
    _indexed(
        name="Tile", derivative=moving.TILE, may_fail=unless_values_known(1), batched=shapes.tile
    ),
    _copied(
        name="Pad",
        derivative=moving.PAD,
        moves=_data_and_filling,
        meaning=_pad,
        may_fail=unless_shape_and_values_known(1, 3),
        batched=shapes.pad,
    ),
    _copied(
        name="CenterCropPad",
        derivative=moving.CENTER_CROP_PAD,
        may_fail=unless_shape_and_values_known(1),
        batched=shapes.center_crop_pad,
    ),
    _copied(
        name="Trilu",
        derivative=moving.SELF_TRANSPOSED,
        may_fail=unless_values_known(1),
        as_signed=True,
        batched=products.last_two_axes,
    ),
    _copied(
        name="DepthToSpace",
        may_fail=may_mismatch_unknown_extent,
        batched=rows.row_by_row,
        decomposition=decomposing.depth_to_space,
    ),
    _copied(
        name="SpaceToDepth",
        may_fail=may_mismatch_unknown_extent,
        batched=rows.row_by_row,
        decomposition=decomposing.space_to_depth,
    ),
    _copied(name="ReverseSequence", derivative=moving.SELF_TRANSPOSED),
)

_VARYING_SHAPE = "the shape of its result would differ from value to value"

SELECTING = (
    _indexed(
        name="Gather",
        meaning=_gather,
        derivative=choices.GATHER,
        native_whole=native_selection.gather,
        may_fail=has_index_outside,
        for_cuda=cuda_replacements.checked_index,
        wrong_kernel=_has_wrong_text_gather,
        batched=selection.gather,
        decomposition=text.gather,
    ),
    _indexed(
        name="GatherElements",
        derivative=choices.GATHER_ELEMENTS,
        native_whole=positions.gather_elements,
        meaning=_gather_elements,
        may_fail=has_index_outside,
        for_cuda=cuda_replacements.checked_index,
        batched=selection.elements,
    ),
    _indexed(
        name="GatherND",
        derivative=choices.GATHER_ND,
        native_whole=positions.gather_nd,
        meaning=_gather_nd,
        may_fail=has_index_tuple_outside,
        for_cuda=cuda_replacements.checked_index_tuple,
        batched=selection.gather_nd,
    ),
    Row(
        name="ScatterElements",
        exact_integers=True,
        speed=speeds.COPIED,
        derivative=choices.SCATTER_ELEMENTS,
        native_whole=positions.scatter_elements,
        may_fail=has_index_outside,
        for_cuda=cuda_replacements.checked_index,
        has_kernel=known_kernels.for_indexed_dtypes(NUMBERS_AND_BOOL),
        wrong_kernel=_has_failing_half_scatter,
        opset=opset_of_reduction,
        batched=selection.elements,
    ),
    Row(
        name="ScatterND",
        exact_integers=True,
        speed=speeds.COPIED,
        derivative=choices.SCATTER_ND,
        batched=selection.scatter_nd,
        native_whole=positions.scatter_nd,
        may_fail=has_index_tuple_outside,
        for_cuda=cuda_replacements.checked_index_tuple,
        has_kernel=known_kernels.for_indexed_dtypes(NUMBERS_AND_BOOL),
        wrong_kernel=_has_failing_half_scatter,
        opset=opset_of_reduction,
    ),
    _copied(
        name="Compress",
        derivative=choices.COMPRESS,
        may_fail=unless_shape_and_values_known(1),
        batched=selection.compress,
    ),
    Row(
        name="TopK",
        derivative=choices.TOP_K,
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=has_too_few_elements,
        has_kernel=known_kernels.for_indexed_dtypes(NUMBERS),
        batched=reductions.along_axis,
    ),
    Row(
        name="Unique",
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=never,
        not_batched=_VARYING_SHAPE,
    ),
    _counted(
        name="NonZero",
        may_fail=never,
        not_batched=_VARYING_SHAPE,
        decomposition=decomposing.nonzero,
    ),
)

GENERATING = (
    Row(name="Constant", may_fail=never, has_kernel=always, bits=Bits.FIXED),
    Row(
        name="ConstantOfShape",
        bits=Bits.FIXED,
        native_whole=filling.fill_constant,
        may_fail=unless_values_known(0),
        not_batched=_VARYING_SHAPE,
    ),
    Row(
        name="Range",
        derivative=moving.RANGE,
        exact_integers=True,  # The kernel adds the step repeatedly, which rounds floats.
        native_whole=filling.write_range,
        may_fail=unless_values_known(0, 1, 2),
        not_batched=_VARYING_SHAPE,
    ),
    Row(
        name="EyeLike",
        derivative=ZERO_DERIVATIVE,
        bits=Bits.FIXED,
        may_fail=never,
        decomposition=decomposing.eye_like,
    ),
    Row(
        name="OneHot",
        bits=Bits.ONCE,  # For a depth of 0, kernels and decomposition differ.
        may_fail=unless_values_known(1),
        batched=reductions.along_axis,
        decomposition=decomposing.one_hot,
        meaning=_one_hot,
    ),
)

ROWS = (*SHAPE_QUERIES, *ARRANGING, *SELECTING, *GENERATING)
