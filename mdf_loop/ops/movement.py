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
from mdf_loop.ops.known_kernels import NUMBER_AND_BOOL_DTYPES, NUMBER_DTYPES, first_dtype
from mdf_loop.ops.native import filling, positions, shaping
from mdf_loop.ops.native import selection as native_selection
from mdf_loop.ops.opset_changes import opset_of_reduction, part_count_as_attribute
from mdf_loop.ops.registry import Reproducibility, Row, always, never


def _first_position(op: Op) -> Sequence[int]:
    return (0,)


def _all_positions(op: Op) -> Sequence[int]:
    return range(len(op.inputs))


def _data_and_fill_value_positions(op: Op) -> Sequence[int]:
    return range(0, len(op.inputs), 2)[:2]


def _one_hot(index: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Return the result of OneHot: `on` at the index along a new axis, and `off` elsewhere.

    Negative indices count from the end.
    """
    depth_extent = int(np.ravel(depth)[0])
    indices = np.asarray(index).astype(np.int64)
    indices = np.where(indices < 0, indices + depth_extent, indices)
    off_value, on_value = values
    rank = indices.ndim + 1
    axis_positions = np.arange(depth_extent).reshape(depth_extent, *(1,) * (rank - 1 - axis % rank))
    is_on = np.expand_dims(indices, axis % rank) == axis_positions
    return np.asarray(np.where(is_on, on_value, off_value), values.dtype)


_copy_row = partial(Row, moved_operands=_first_position, reproducibility=Reproducibility.FIXED)
_indexed_row = partial(_copy_row, has_kernel=known_kernels.indexed_data_has(NUMBER_AND_BOOL_DTYPES))
_nonnegative_row = partial(Row, reproducibility=Reproducibility.FIXED, never_negative=always)


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
    padded_axes = np.arange(x.ndim) if axes is None else np.asarray(axes) % max(1, x.ndim)
    axis_pads = np.zeros((x.ndim, 2), np.int64)
    axis_pads[padded_axes] = np.reshape(pads, (2, -1)).T
    axis_crops = zip(x.shape, *np.maximum(-axis_pads, 0).T.tolist(), strict=True)
    cropped_x = x[
        tuple(slice(first_crop, extent - last_crop) for extent, first_crop, last_crop in axis_crops)
    ]
    if mode == "reflect" and np.any(axis_pads >= np.maximum(cropped_x.shape, 1)[:, np.newaxis]):
        raise RunError("onnx::Pad reflects more elements than the axis has")
    fill_options = {} if mode != "constant" or value is None else {"constant_values": value.item()}
    padded_x: Array = np.pad(cropped_x, np.maximum(axis_pads, 0).tolist(), mode, **fill_options)  # type: ignore[call-overload]
    return padded_x


def _slice(
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    """Return the elements that ONNX's Slice selects.

    The bounds of backward slices differ from Python's.
    """
    sliced_axes = range(len(starts)) if axes is None else axes.tolist()
    axis_steps = [1] * len(starts) if steps is None else steps.tolist()
    axis_slices = [slice(None)] * x.ndim
    for axis, start, end, step in zip(
        sliced_axes, np.ravel(starts).tolist(), np.ravel(ends).tolist(), axis_steps, strict=True
    ):
        axis_slices[axis] = _axis_slice(x.shape[axis], start, end, step)
    selected_elements: Array = x[tuple(axis_slices)]
    return selected_elements


def _axis_slice(extent: int, start: int, end: int, step: int) -> slice:
    """Return the Python slice of an axis for the bounds of an ONNX `Slice`, clipped to the axis."""
    first_index, last_index = (
        slice_bound + extent if slice_bound < 0 else slice_bound for slice_bound in (start, end)
    )
    if step >= 0:
        return slice(min(max(first_index, 0), extent), min(max(last_index, 0), extent), step)
    first_index = min(max(first_index, 0), extent - 1)
    return slice(first_index, min(last_index, extent - 1) if last_index >= 0 else None, step)


def _gather_nd(data: Array, indices: Array, batch_dims: int = 0) -> Array:
    """Return the result of GatherND: `data[batch, *indices[batch, k]]`, also for an empty batch."""
    batch_shape, unit_extents = indices.shape[:batch_dims], (1,) * (indices.ndim - 1 - batch_dims)
    batch_indices = tuple(
        index_grid.reshape(*batch_shape, *unit_extents) for index_grid in np.indices(batch_shape)
    )
    gathered_elements: Array = np.asarray(data)[(*batch_indices, *np.moveaxis(indices, -1, 0))]
    return gathered_elements


def _check_indices(x: Array, indices: Array, axis: int) -> None:
    axis_extent = x.shape[axis]
    if indices.size and not -axis_extent <= indices.min() <= indices.max() < axis_extent:
        raise IndexError(f"an index is not on axis {axis}, which has {axis_extent} elements")


def _gather(x: Array, indices: Array, axis: int = 0) -> Array:
    """Return the result of ONNX's Gather: the rows of an array at indices along an axis.

    Raises:
        IndexError: an index is out of range, which numpy does not check for empty rows.
    """
    _check_indices(x, indices, axis)
    return np.asarray(np.take(x, indices, axis))


def _gather_elements(x: Array, indices: Array, axis: int = 0) -> Array:
    """Return the result of GatherElements, whose indices may have smaller extents than the data.

    onnx's reference does not allow smaller extents.
    """
    _check_indices(x, indices, axis)
    index_arrays: list[Array] = [*np.indices(indices.shape, sparse=True)]
    index_arrays[axis] = indices
    gathered_elements: Array = x[tuple(index_arrays)]
    return gathered_elements


def _has_wrong_text_gather(op: Op) -> bool:
    """Return True for Gather of strings, whose kernel in ONNX Runtime copies only one string per row."""
    x_shape = op.inputs[0].shape if op.inputs[0] else None
    is_last_axis = x_shape is not None and op.attributes.get("axis", 0) in (-1, len(x_shape) - 1)
    return first_dtype(op) == "string" and not is_last_axis


def _has_failing_half_scatter(op: Op) -> bool:
    """Return True for a float16 scatter with a reduction, which the CPU kernel refuses."""
    return first_dtype(op) == "float16" and "reduction" in op.attributes


SHAPE_QUERY_ROWS = (
    _nonnegative_row(
        name="Shape",
        reads_only_shapes=True,
        native_array_code=shaping.shape,
        may_fail=never,
        has_kernel=known_kernels.all_operands_have(NUMBER_AND_BOOL_DTYPES),
        batching_rule=shapes.shape,
    ),
    _nonnegative_row(
        name="Size",
        reads_only_shapes=True,
        native_array_code=shaping.size,
        may_fail=never,
        has_kernel=known_kernels.all_operands_have(NUMBER_AND_BOOL_DTYPES),
        batching_rule=shapes.size,
    ),
    _indexed_row(
        name="Reshape",
        derivative=moving.RESHAPE_DERIVATIVE,
        keeps_order=True,
        native_array_code=shaping.reshape,
        may_fail=unless_shape_and_values_known(1),
        batching_rule=shapes.reshape,
    ),
    _copy_row(
        name="Flatten",
        derivative=moving.RESHAPE_DERIVATIVE,
        keeps_order=True,
        native_array_code=shaping.flatten,
        may_fail=never,
        batching_rule=shapes.flatten,
    ),
    _indexed_row(
        name="Squeeze",
        derivative=moving.RESHAPE_DERIVATIVE,
        keeps_order=True,
        native_array_code=shaping.squeeze,
        may_fail=unless_shape_and_values_known(1),
        batching_rule=shapes.squeeze,
    ),
    _indexed_row(
        name="Unsqueeze",
        derivative=moving.RESHAPE_DERIVATIVE,
        keeps_order=True,
        native_array_code=shaping.unsqueeze,
        may_fail=unless_values_known(1),
        batching_rule=shapes.unsqueeze,
    ),
    _copy_row(
        name="Transpose",
        loop_cost=speeds.TRANSPOSE_COST,
        derivative=moving.TRANSPOSE_DERIVATIVE,
        native_array_code=shaping.transpose,
        may_fail=never,
        has_kernel=known_kernels.all_operands_have(NUMBER_AND_BOOL_DTYPES),
        batching_rule=shapes.transpose,
    ),
)

ARRANGEMENT_ROWS = (
    _copy_row(
        name="Concat",
        derivative=moving.CONCAT_DERIVATIVE,
        moved_operands=_all_positions,
        native_array_code=shaping.concatenate,
        may_fail=never,
        has_kernel=known_kernels.all_operands_have(NUMBER_AND_BOOL_DTYPES),
        batching_rule=shapes.concat,
    ),
    _indexed_row(
        name="Split",
        derivative=moving.SPLIT_DERIVATIVE,
        decomposition=decomposing.split,
        may_fail=unless_shape_and_values_known(1),
        batching_rule=reductions.apply_along_axis,
        newer_encodings=((18, part_count_as_attribute),),
    ),
    _indexed_row(
        name="Slice",
        derivative=moving.SLICE_DERIVATIVE,
        numpy_function=_slice,
        native_array_code=shaping.slice_axes,
        may_fail=has_invalid_slice,
        batching_rule=shapes.slice_,
    ),
    _indexed_row(
        name="Expand",
        derivative=moving.EXPAND_DERIVATIVE,
        keeps_order=True,
        native_array_code=shaping.expand,
        may_fail=unless_shape_and_values_known(1),
        batching_rule=shapes.expand,
    ),
    _indexed_row(
        name="Tile",
        derivative=moving.TILE_DERIVATIVE,
        may_fail=unless_values_known(1),
        batching_rule=shapes.tile,
    ),
    _copy_row(
        name="Pad",
        derivative=moving.PAD_DERIVATIVE,
        moved_operands=_data_and_fill_value_positions,
        numpy_function=_pad,
        may_fail=unless_shape_and_values_known(1, 3),
        batching_rule=shapes.pad,
    ),
    _copy_row(
        name="CenterCropPad",
        derivative=moving.CENTER_CROP_PAD_DERIVATIVE,
        may_fail=unless_shape_and_values_known(1),
        batching_rule=shapes.center_crop_pad,
    ),
    _copy_row(
        name="Trilu",
        derivative=moving.SELF_TRANSPOSED_DERIVATIVE,
        may_fail=unless_values_known(1),
        treats_uint64_as_int64=True,
        batching_rule=products.apply_to_last_two_axes,
    ),
    _copy_row(
        name="DepthToSpace",
        may_fail=may_mismatch_unknown_extent,
        batching_rule=rows.apply_to_rows,
        decomposition=decomposing.depth_to_space,
    ),
    _copy_row(
        name="SpaceToDepth",
        may_fail=may_mismatch_unknown_extent,
        batching_rule=rows.apply_to_rows,
        decomposition=decomposing.space_to_depth,
    ),
    _copy_row(name="ReverseSequence", derivative=moving.SELF_TRANSPOSED_DERIVATIVE),
)

_VARYING_SHAPE_REASON = "the shape of its result would differ from value to value"

SELECTION_ROWS = (
    _indexed_row(
        name="Gather",
        numpy_function=_gather,
        derivative=choices.GATHER_DERIVATIVE,
        native_array_code=native_selection.gather,
        may_fail=has_index_outside,
        cuda_replacement=cuda_replacements.check_index,
        wrong_kernel=_has_wrong_text_gather,
        batching_rule=selection.gather,
        decomposition=text.gather,
    ),
    _indexed_row(
        name="GatherElements",
        derivative=choices.GATHER_ELEMENTS_DERIVATIVE,
        native_array_code=positions.gather_elements,
        numpy_function=_gather_elements,
        may_fail=has_index_outside,
        cuda_replacement=cuda_replacements.check_index,
        batching_rule=selection.apply_to_elements,
    ),
    _indexed_row(
        name="GatherND",
        derivative=choices.GATHER_ND_DERIVATIVE,
        native_array_code=positions.gather_nd,
        numpy_function=_gather_nd,
        may_fail=has_index_tuple_outside,
        cuda_replacement=cuda_replacements.check_index_tuple,
        batching_rule=selection.gather_nd,
    ),
    Row(
        name="ScatterElements",
        has_exact_integers=True,
        loop_cost=speeds.COPY_COST,
        derivative=choices.SCATTER_ELEMENTS_DERIVATIVE,
        native_array_code=positions.scatter_elements,
        may_fail=has_index_outside,
        cuda_replacement=cuda_replacements.check_index,
        has_kernel=known_kernels.indexed_data_has(NUMBER_AND_BOOL_DTYPES),
        wrong_kernel=_has_failing_half_scatter,
        opset=opset_of_reduction,
        batching_rule=selection.apply_to_elements,
    ),
    Row(
        name="ScatterND",
        has_exact_integers=True,
        loop_cost=speeds.COPY_COST,
        derivative=choices.SCATTER_ND_DERIVATIVE,
        batching_rule=selection.scatter_nd,
        native_array_code=positions.scatter_nd,
        may_fail=has_index_tuple_outside,
        cuda_replacement=cuda_replacements.check_index_tuple,
        has_kernel=known_kernels.indexed_data_has(NUMBER_AND_BOOL_DTYPES),
        wrong_kernel=_has_failing_half_scatter,
        opset=opset_of_reduction,
    ),
    _copy_row(
        name="Compress",
        derivative=choices.COMPRESS_DERIVATIVE,
        may_fail=unless_shape_and_values_known(1),
        batching_rule=selection.compress,
    ),
    Row(
        name="TopK",
        derivative=choices.TOP_K_DERIVATIVE,
        reproducibility=Reproducibility.ROUNDED_ONCE,
        has_exact_integers=True,
        may_fail=has_too_few_elements,
        has_kernel=known_kernels.indexed_data_has(NUMBER_DTYPES),
        batching_rule=reductions.apply_along_axis,
    ),
    Row(
        name="Unique",
        reproducibility=Reproducibility.ROUNDED_ONCE,
        has_exact_integers=True,
        may_fail=never,
        unbatched_reason=_VARYING_SHAPE_REASON,
    ),
    _nonnegative_row(
        name="NonZero",
        may_fail=never,
        unbatched_reason=_VARYING_SHAPE_REASON,
        decomposition=decomposing.nonzero,
    ),
)

GENERATOR_ROWS = (
    Row(name="Constant", may_fail=never, has_kernel=always, reproducibility=Reproducibility.FIXED),
    Row(
        name="ConstantOfShape",
        reproducibility=Reproducibility.FIXED,
        native_array_code=filling.fill_constant,
        may_fail=unless_values_known(0),
        unbatched_reason=_VARYING_SHAPE_REASON,
    ),
    Row(
        name="Range",
        derivative=moving.RANGE_DERIVATIVE,
        has_exact_integers=True,  # The kernel adds the step repeatedly, which rounds floats.
        native_array_code=filling.write_range,
        may_fail=unless_values_known(0, 1, 2),
        unbatched_reason=_VARYING_SHAPE_REASON,
    ),
    Row(
        name="EyeLike",
        derivative=ZERO_DERIVATIVE,
        reproducibility=Reproducibility.FIXED,
        may_fail=never,
        decomposition=decomposing.eye_like,
    ),
    Row(
        name="OneHot",
        reproducibility=Reproducibility.ROUNDED_ONCE,  # For a depth of 0, kernels and decomposition differ.
        may_fail=unless_values_known(1),
        batching_rule=reductions.apply_along_axis,
        decomposition=decomposing.one_hot,
        numpy_function=_one_hot,
    ),
)

OPERATOR_ROWS = (*SHAPE_QUERY_ROWS, *ARRANGEMENT_ROWS, *SELECTION_ROWS, *GENERATOR_ROWS)
