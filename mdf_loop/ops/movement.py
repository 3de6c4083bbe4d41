"""Operators that ask for shapes, arrange elements, and choose them by their places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array, Op
from mdf_loop.ops import for_cuda, speeds, sure_kernels
from mdf_loop.ops.batching import products, reductions, rows, selection, shapes
from mdf_loop.ops.compositions import selection as composing
from mdf_loop.ops.compositions import text
from mdf_loop.ops.derivatives import movement as moving
from mdf_loop.ops.derivatives import selection as choices
from mdf_loop.ops.derivatives.rule import NOTHING
from mdf_loop.ops.failing import (
    index_outside,
    step_of_zero,
    too_few,
    tuple_outside,
    unless_fixed,
    unless_fixed_and_known,
    unless_known,
)
from mdf_loop.ops.native import choosing, filling, positions, shaping
from mdf_loop.ops.newer_forms import counted_parts, of_reduction
from mdf_loop.ops.registry import Bits, Row, no, yes
from mdf_loop.ops.sure_kernels import NUMBERS, PLAIN, first_dtype


def _first(op: Op) -> Sequence[int]:
    return (0,)


def _all(op: Op) -> Sequence[int]:
    return range(len(op.inputs))


def _data_and_filling(op: Op) -> Sequence[int]:
    return range(0, len(op.inputs), 2)[:2]


def _one_hot(index: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Return `on` at the index along a new axis and `off` elsewhere; a negative index counts from the end."""
    extent = int(np.ravel(depth)[0])
    whole = np.asarray(index).astype(np.int64)
    whole = np.where(whole < 0, whole + extent, whole)
    off, on = values
    rank = whole.ndim + 1
    places = np.arange(extent).reshape(extent, *(1,) * (rank - 1 - axis % rank))
    is_on = np.expand_dims(whole, axis % rank) == places
    return np.asarray(np.where(is_on, on, off), values.dtype)


_copied = partial(Row, moves=_first, bits=Bits.FIXED)
_indexed = partial(_copied, has_kernel=sure_kernels.indexed(PLAIN))
_counted = partial(Row, bits=Bits.FIXED, never_negative=yes)


def _padded(
    x: Array,
    pads: Array,
    value: Array | None = None,
    axes: Array | None = None,
    mode: str = "constant",
) -> Array:
    """Pad by numpy, which pads nothing negative: that is cut off.

    Raises:
        RunError: an axis is reflected beyond its first or last element.
    """
    along = np.arange(x.ndim) if axes is None else np.asarray(axes) % max(1, x.ndim)
    ends = np.zeros((x.ndim, 2), np.int64)
    ends[along] = np.reshape(pads, (2, -1)).T
    sides = zip(x.shape, *np.maximum(-ends, 0).T.tolist(), strict=True)
    kept = x[tuple(slice(before, extent - after) for extent, before, after in sides)]
    if mode == "reflect" and np.any(ends >= np.maximum(kept.shape, 1)[:, np.newaxis]):
        raise RunError("onnx::Pad reflects more elements than the axis has")
    filling = {} if mode != "constant" or value is None else {"constant_values": value.item()}
    made: Array = np.pad(kept, np.maximum(ends, 0).tolist(), mode, **filling)  # type: ignore[call-overload]
    return made


def _sliced(
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    """Return the elements that the ONNX document names; Python's slices end backward ones earlier."""
    places = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(
        places, np.ravel(starts).tolist(), np.ravel(ends).tolist(), strides, strict=True
    ):
        parts[axis] = _part_of_axis(x.shape[axis], start, end, step)
    made: Array = x[tuple(parts)]
    return made


def _part_of_axis(extent: int, start: int, end: int, step: int) -> slice:
    """Return Python's slice for the ends of an ONNX `Slice`, which are moved inside of the axis."""
    first, last = (end + extent if end < 0 else end for end in (start, end))
    if step >= 0:
        return slice(min(max(first, 0), extent), min(max(last, 0), extent), step)
    first = min(max(first, 0), extent - 1)
    return slice(first, min(last, extent - 1) if last >= 0 else None, step)


def _by_tuples(data: Array, indices: Array, batch_dims: int = 0) -> Array:
    """`data[batch, *indices[batch, k]]`: also of no batches, of which onnx finds no extents."""
    batch, own = indices.shape[:batch_dims], (1,) * (indices.ndim - 1 - batch_dims)
    members = tuple(grid.reshape(*batch, *own) for grid in np.indices(batch))
    made: Array = np.asarray(data)[(*members, *np.moveaxis(indices, -1, 0))]
    return made


def _refuse_outside(x: Array, indices: Array, axis: int) -> None:
    count = x.shape[axis]
    if indices.size and not -count <= indices.min() <= indices.max() < count:
        raise IndexError(f"an index is not on axis {axis}, which has {count} elements")


def _taken(x: Array, indices: Array, axis: int = 0) -> Array:
    """Return parts along an axis; numpy takes any index of parts without elements."""
    _refuse_outside(x, indices, axis)
    return np.asarray(np.take(x, indices, axis))


def _elements(x: Array, indices: Array, axis: int = 0) -> Array:
    """By numpy; along other axes the indices may be fewer than the data, which the reference refuses."""
    _refuse_outside(x, indices, axis)
    places: list[Array] = [*np.indices(indices.shape, sparse=True)]
    places[axis] = indices
    made: Array = x[tuple(places)]
    return made


def _wrong_gather(op: Op) -> bool:
    """It copies the first text of each row and leaves the others empty."""
    shape = op.inputs[0].shape if op.inputs[0] else None
    last = shape is not None and op.attributes.get("axis", 0) in (-1, len(shape) - 1)
    return first_dtype(op) == "string" and not last


def _wrong_scatter(op: Op) -> bool:
    """MLFloat16 data type is not supported with opset 16 when reduction is add."""
    return first_dtype(op) == "float16" and "reduction" in op.attributes


SHAPES = (
    _counted(
        name="Shape",
        by_shape=True,
        native_whole=shaping.shape,
        may_fail=no,
        has_kernel=sure_kernels.of(PLAIN),
        batched=shapes.shape,
    ),
    _counted(
        name="Size",
        by_shape=True,
        native_whole=shaping.size,
        may_fail=no,
        has_kernel=sure_kernels.of(PLAIN),
        batched=shapes.size,
    ),
    _indexed(
        name="Reshape",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.reshaped,
        may_fail=unless_fixed_and_known(1),
        batched=shapes.reshape,
    ),
    _copied(
        name="Flatten",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.flattened,
        may_fail=no,
        batched=shapes.flatten,
    ),
    _indexed(
        name="Squeeze",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.squeezed,
        may_fail=unless_fixed_and_known(1),
        batched=shapes.squeeze,
    ),
    _indexed(
        name="Unsqueeze",
        derivative=moving.RESHAPED,
        in_order=True,
        native_whole=shaping.unsqueezed,
        may_fail=unless_known(1),
        batched=shapes.unsqueeze,
    ),
    _copied(
        name="Transpose",
        speed=speeds.TRANSPOSED,
        derivative=moving.TRANSPOSE,
        native_whole=shaping.transposed,
        may_fail=no,
        has_kernel=sure_kernels.of(PLAIN),
        batched=shapes.transpose,
    ),
)

COPIES = (
    _copied(
        name="Concat",
        derivative=moving.CONCAT,
        moves=_all,
        native_whole=shaping.joined,
        may_fail=no,
        has_kernel=sure_kernels.of(PLAIN),
        batched=shapes.concat,
    ),
    _indexed(
        name="Split",
        derivative=moving.SPLIT,
        composed=composing.split,
        may_fail=unless_fixed_and_known(1),
        batched=reductions.along_axis,
        newer_forms=((18, counted_parts),),
    ),
    _indexed(
        name="Slice",
        derivative=moving.SLICE,
        meaning=_sliced,
        native_whole=shaping.sliced,
        may_fail=step_of_zero,
        batched=shapes.slice_,
    ),
    _indexed(
        name="Expand",
        derivative=moving.EXPAND,
        in_order=True,
        native_whole=shaping.expanded,
        may_fail=unless_fixed_and_known(1),
        batched=shapes.expand,
    ),
    _indexed(name="Tile", derivative=moving.TILE, may_fail=unless_known(1), batched=shapes.tile),
    _copied(
        name="Pad",
        derivative=moving.PAD,
        moves=_data_and_filling,
        meaning=_padded,
        may_fail=unless_fixed_and_known(1, 3),
        batched=shapes.pad,
    ),
    _copied(
        name="CenterCropPad",
        derivative=moving.CENTER_CROP_PAD,
        may_fail=unless_fixed_and_known(1),
        batched=shapes.center_crop_pad,
    ),
    _copied(
        name="Trilu",
        derivative=moving.ITSELF,
        may_fail=unless_known(1),
        as_signed=True,
        batched=products.last_two_axes,
    ),
    _copied(
        name="DepthToSpace",
        may_fail=unless_fixed,
        batched=rows.row_by_row,
        composed=composing.depth_to_space,
    ),
    _copied(
        name="SpaceToDepth",
        may_fail=unless_fixed,
        batched=rows.row_by_row,
        composed=composing.space_to_depth,
    ),
    _copied(name="ReverseSequence", derivative=moving.ITSELF),
)

_VARIES = "the shape of its result would differ from value to value"

CHOSEN = (
    _indexed(
        name="Gather",
        meaning=_taken,
        derivative=choices.GATHER,
        native_whole=choosing.gather,
        may_fail=index_outside,
        for_cuda=for_cuda.index,
        wrong_kernel=_wrong_gather,
        batched=selection.gather,
        composed=text.gather,
    ),
    _indexed(
        name="GatherElements",
        derivative=choices.GATHER_ELEMENTS,
        native_whole=positions.gather_elements,
        meaning=_elements,
        may_fail=index_outside,
        for_cuda=for_cuda.index,
        batched=selection.elements,
    ),
    _indexed(
        name="GatherND",
        derivative=choices.GATHER_ND,
        native_whole=positions.gather_nd,
        meaning=_by_tuples,
        may_fail=tuple_outside,
        for_cuda=for_cuda.index_tuple,
        batched=selection.gather_nd,
    ),
    Row(
        name="ScatterElements",
        exact_integers=True,
        speed=speeds.COPIED,
        derivative=choices.SCATTER_ELEMENTS,
        native_whole=positions.scatter_elements,
        may_fail=index_outside,
        for_cuda=for_cuda.index,
        has_kernel=sure_kernels.indexed(PLAIN),
        wrong_kernel=_wrong_scatter,
        opset=of_reduction,
        batched=selection.elements,
    ),
    Row(
        name="ScatterND",
        exact_integers=True,
        speed=speeds.COPIED,
        derivative=choices.SCATTER_ND,
        batched=selection.scatter_nd,
        native_whole=positions.scatter_nd,
        may_fail=tuple_outside,
        for_cuda=for_cuda.index_tuple,
        has_kernel=sure_kernels.indexed(PLAIN),
        wrong_kernel=_wrong_scatter,
        opset=of_reduction,
    ),
    _copied(
        name="Compress",
        derivative=choices.COMPRESS,
        may_fail=unless_fixed_and_known(1),
        batched=selection.compress,
    ),
    Row(
        name="TopK",
        derivative=choices.TOP_K,
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=too_few,
        has_kernel=sure_kernels.indexed(NUMBERS),
        batched=reductions.along_axis,
    ),
    Row(name="Unique", bits=Bits.ONCE, exact_integers=True, may_fail=no, not_batched=_VARIES),
    _counted(name="NonZero", may_fail=no, not_batched=_VARIES, composed=composing.nonzero),
)

MADE = (
    Row(name="Constant", may_fail=no, has_kernel=yes, bits=Bits.FIXED),
    Row(
        name="ConstantOfShape",
        bits=Bits.FIXED,
        native_whole=filling.filled,
        may_fail=unless_known(0),
        not_batched=_VARIES,
    ),
    Row(
        name="Range",
        derivative=moving.RANGE,
        exact_integers=True,  # the kernel adds the step again and again, which rounds floats
        native_whole=filling.in_a_row,
        may_fail=unless_known(0, 1, 2),
        not_batched=_VARIES,
    ),
    Row(
        name="EyeLike",
        derivative=NOTHING,
        bits=Bits.FIXED,
        may_fail=no,
        composed=composing.eye_like,
    ),
    Row(
        name="OneHot",
        bits=Bits.ONCE,  # of depth 0, kernels and composition differ
        may_fail=unless_known(1),
        batched=reductions.along_axis,
        composed=composing.one_hot,
        meaning=_one_hot,
    ),
)

ROWS = (*SHAPES, *COPIES, *CHOSEN, *MADE)
