"""Decomposition of `OrderedSum` into ONNX operations that add in an order independent of addresses.

    few terms         last element of a CumSum: one after the other
    rows              ReduceSum along the first axis: each row is added to the sums before it
    a vector          its rows of eight are added, then these eight parts in pairs
    several vectors   the same, with the terms transposed to the first axis

ONNX Runtime's ReduceSum along the last axis depends on the address of each row. Along a middle axis it is a
matrix product, with another order from some hundred rows on. Along the first axis it adds row by row. A Reshape
that merges axes stands before it, because the runtime moves a Transpose through a sum. That sum would then be
along another axis (tests/traps/test_order_of_sums.py).

-0.0 is the neutral element: x + -0.0 is x, whatever its sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Shape, Value
from mdf_loop.ops.build_helpers import cast, extents, ints, scalar
from mdf_loop.ops.decompositions.build_helpers import attribute, constant_like, operand
from mdf_loop.ops.ordered_sum import MIN_TERMS_IN_PARTS, PARTIAL_SUM_COUNT, are_adjacent

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def ordered_sum(b: Builder, op: Op) -> Value:
    """Build the operations of an `OrderedSum`, a sum in the order that `ops.ordered_sum` defines."""
    x = operand(op)
    if x.shape is None:
        return _sum_of_unknown_rank(b, op)
    shape, rank = extents(x), len(extents(x))
    axes = op.attributes.get("axes", range(rank))
    reduced_axes = sorted({int(axis) % rank for axis in axes})
    term_count = _known_size([shape[axis] for axis in reduced_axes])
    if term_count == 1:
        return x if attribute(op, "keepdims") else b.op("Squeeze", x, ints(b, *reduced_axes))
    if 0 in shape:  # There are no terms.
        return b.op("ReduceSum", x, ints(b, *reduced_axes), keepdims=attribute(op, "keepdims"))
    adjacent_axes = reduced_axes
    if not are_adjacent(reduced_axes):
        other_axes = [axis for axis in range(rank) if axis not in reduced_axes]
        x = b.op("Transpose", x, perm=(*other_axes, *reduced_axes))
        adjacent_axes = [*range(len(other_axes), rank)]
    summed_x = _sum_adjacent_axes(b, x, adjacent_axes, term_count)
    return (
        b.op("Unsqueeze", summed_x, ints(b, *reduced_axes))
        if attribute(op, "keepdims")
        else summed_x
    )


def _sum_adjacent_axes(b: Builder, x: Value, axes: Sequence[int], count: int | None) -> Value:
    """Build the ordered sum of an array along adjacent axes."""
    shape, first_axis, end_axis = extents(x), axes[0], axes[-1] + 1
    front_shape, tail_shape = shape[:first_axis], shape[end_axis:]
    if count is not None and count < MIN_TERMS_IN_PARTS:
        return _sum_sequentially(b, x, first_axis, end_axis, count)
    if not tail_shape:
        return _sum_in_parts(b, x, front_shape, count)
    if count is not None and _is_not_single_element((*front_shape, *tail_shape)):
        return _sum_rows(b, x, first_axis, end_axis, count)
    return _sum_sequentially(b, x, first_axis, end_axis, count)


def _known_size(shape: Sequence[int | str]) -> int | None:
    """Return the number of elements of an array of a shape, or None if it is unknown."""
    known_extents = [extent for extent in shape if isinstance(extent, int)]
    return (
        math.prod(known_extents) if len(known_extents) == len(shape) or 0 in known_extents else None
    )


def _is_not_single_element(shape: Sequence[int | str]) -> bool:
    """Return True if an array of this shape is known not to have exactly one element."""
    return any(isinstance(extent, int) and extent != 1 for extent in shape)


# --- sequential sums ----------------------------------------------------------------------------


def _sum_sequentially(b: Builder, x: Value, begin: int, end: int, count: int | None) -> Value:
    """Build the sum along axes `begin` to `end` as the last element of a cumulative sum."""
    shape = extents(x)
    if end - begin > 1:
        x = _reshape_to_axes(b, x, [*range(begin), None, *range(end, len(shape))], count)
    if count is None:  # The axis may be empty, with the sum 0.
        pads = np.zeros((2, len(extents(x))), np.int64)
        pads[0, begin] = 1
        x = b.op("Pad", x, b.constant(pads.ravel()), _build_axis_neutral_element(b, x, begin))
    prefix_sums = b.op("CumSum", x, scalar(b, begin, "int64"))
    last_index = scalar(b, -1 if count is None else count - 1, "int64")
    return b.op("Gather", prefix_sums, last_index, axis=begin)


def _build_axis_neutral_element(b: Builder, x: Value, axis: int) -> Value:
    """Build the initial term of a sum along an axis: 0.0 if the axis is empty, else -0.0."""
    return _build_neutral_element(
        b, x, b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0)
    )


def _build_neutral_element(b: Builder, x: Value, count: Value) -> Value:
    """Build the initial term of a sum of `count` terms: 0.0 if `count` is 0, else -0.0.

    The term is selected by Gather, because Where would lose the sign.
    """
    is_empty = cast(b, b.op("Equal", count, scalar(b, 0, "int64")), "int64")
    return b.op("Gather", b.constant(np.array([-0.0, 0.0], x.dtype)), is_empty, axis=0)


def _sum_rows(b: Builder, x: Value, begin: int, end: int, count: int) -> Value:
    """Build the sum along axes in front of the last axis by row-wise additions."""
    shape = extents(x)
    other_axes = [*range(begin), *range(end, len(shape))]
    # All extents are known. The runtime would remove a Reshape that changes nothing.
    if len(shape) == 2:
        expanded_x = b.op("Expand", x, ints(b, 1, *(int(extent) for extent in shape)))
        return b.op("ReduceSum", expanded_x, ints(b, 0, 1), keepdims=0)
    permuted_rows = b.op("Transpose", x, perm=(*range(begin, end), *other_axes)) if begin else x
    row_sums = b.op(
        "ReduceSum", b.op("Reshape", permuted_rows, ints(b, count, -1)), ints(b, 0), keepdims=0
    )
    return (
        row_sums
        if len(other_axes) == 1
        else b.op("Reshape", row_sums, _target_shape(b, x, other_axes, None))
    )


# --- sums in eight parts ------------------------------------------------------------------------


def _sum_in_parts(
    b: Builder, x: Value, front_shape: Sequence[int | str], count: int | None
) -> Value:
    """Build the sums along the last axes from eight partial sums of each vector.

    `front_shape` contains the extents of all other axes.
    """
    vector_count = _known_size(front_shape)
    if count is None:
        return _restore_front_axes(
            b,
            _sum_part_pairs(b, _sum_parts_of_unknown_length(b, x, len(front_shape))),
            x,
            front_shape,
        )
    padding_count = -count % PARTIAL_SUM_COUNT
    if vector_count == 1:
        x = b.op("Reshape", x, ints(b, -1)) if padding_count and len(extents(x)) > 1 else x
        x = _pad_last_axis(b, x, padding_count)
        terms_by_part = b.op(
            "Reshape", x, ints(b, (count + padding_count) // PARTIAL_SUM_COUNT, PARTIAL_SUM_COUNT)
        )
        partial_sums = b.op("ReduceSum", terms_by_part, ints(b, 0), keepdims=0)
        # The runtime allocates these 64 bytes itself, which fixes their alignment.
        vector_sum = b.op("ReduceSum", partial_sums, keepdims=0)
        return (
            b.op("Reshape", vector_sum, ints(b, *(1,) * len(front_shape)))
            if front_shape
            else vector_sum
        )
    term_table = (
        x
        if len(front_shape) == 1 == len(extents(x)) - 1
        else b.op("Reshape", x, ints(b, -1, count))
    )
    transposed_table = b.op("Transpose", _pad_last_axis(b, term_table, padding_count), perm=(1, 0))
    terms_by_part = b.op(
        "Reshape", transposed_table, ints(b, (count + padding_count) // PARTIAL_SUM_COUNT, -1)
    )
    partial_sums = b.op("ReduceSum", terms_by_part, ints(b, 0), keepdims=0)
    return _restore_front_axes(b, _sum_part_pairs(b, partial_sums), x, front_shape)


def _pad_last_axis(b: Builder, x: Value, padding_count: int) -> Value:
    """Append `padding_count` elements -0.0 to the last axis."""
    if not padding_count:
        return x
    rank = len(extents(x))
    return b.op("Pad", x, ints(b, *(0,) * (2 * rank - 1), padding_count), constant_like(b, -0.0, x))


def _sum_part_pairs(b: Builder, partial_sums: Value) -> Value:
    """Add the eight partial sums of each vector pairwise, in three steps, to one sum."""
    for _ in range(PARTIAL_SUM_COUNT.bit_length() - 1):
        part_pairs = b.op("Reshape", partial_sums, ints(b, 2, -1))
        partial_sums = b.op("ReduceSum", part_pairs, ints(b, 0), keepdims=0)
    return partial_sums


def _restore_front_axes(
    b: Builder, sums: Value, x: Value, front_shape: Sequence[int | str]
) -> Value:
    """Reshape one-dimensional sums to the axes of x that were not summed."""
    if len(front_shape) == 1:
        return sums
    if not front_shape:
        return b.op("Reshape", sums, b.constant(np.zeros(0, np.int64)))
    return b.op("Reshape", sums, _target_shape(b, x, list(range(len(front_shape))), None))


def _sum_parts_of_unknown_length(b: Builder, x: Value, front_axis_count: int) -> Value:
    """Build the eight partial sums of vectors whose number of terms is known only at run time.

    Fewer than 16 terms form one part, and the other seven parts are -0.0.
    """
    one, zero, part_count = (scalar(b, k, "int64") for k in (1, 0, PARTIAL_SUM_COUNT))
    shape = b.op("Shape", x)
    term_shape = b.op("Slice", shape, ints(b, front_axis_count), ints(b, len(extents(x))))
    term_count = b.op("ReduceProd", term_shape, keepdims=0)
    front_shape = b.op("Slice", shape, ints(b, 0), ints(b, front_axis_count))
    vector_count = b.op("ReduceProd", front_shape, keepdims=0) if front_axis_count else one
    used_part_count = b.op(
        "Where", b.op("Less", term_count, scalar(b, MIN_TERMS_IN_PARTS, "int64")), one, part_count
    )
    row_count = b.op(
        "Div", b.op("Add", term_count, b.op("Sub", used_part_count, one)), used_part_count
    )
    # A sum of one row would lose the sign of zeros.
    row_count = b.op("Max", row_count, scalar(b, 2, "int64"))
    padding_count = b.op("Sub", b.op("Mul", row_count, used_part_count), term_count)
    term_table = b.op("Reshape", x, _concatenate_extents(b, vector_count, term_count), allowzero=1)
    padded_table = b.op(
        "Pad",
        term_table,
        _concatenate_extents(b, zero, zero, zero, padding_count),
        _build_neutral_element(b, x, term_count),
    )
    transposed_table = b.op("Transpose", padded_table, perm=(1, 0))
    partial_sum_terms = b.op(
        "Reshape",
        transposed_table,
        _concatenate_extents(b, row_count, used_part_count, vector_count),
        allowzero=1,
    )
    missing_part_count = b.op("Sub", part_count, used_part_count)
    padded_sum_terms = b.op(
        "Pad",
        partial_sum_terms,
        _concatenate_extents(b, zero, zero, zero, zero, missing_part_count, zero),
        constant_like(b, -0.0, x),
    )
    flat_rows = b.op(
        "Reshape",
        padded_sum_terms,
        _concatenate_extents(b, row_count, b.op("Mul", part_count, vector_count)),
        allowzero=1,
    )
    return b.op("ReduceSum", flat_rows, ints(b, 0), keepdims=0)


def _sum_of_unknown_rank(b: Builder, op: Op) -> Value:
    """Build the ordered sum along all axes, or along adjacent axes, of an array of unknown rank."""
    x, keepdims = operand(op), attribute(op, "keepdims")
    axes, shape = op.attributes.get("axes"), b.op("Shape", x)
    if axes is None:
        ordered_sums = _sum_in_parts(b, b.op("Reshape", x, ints(b, -1)), (), None)
        kept_unit_extents = b.op("ConstantOfShape", b.op("Shape", shape), value=np.array([1]))
        return b.op("Reshape", ordered_sums, kept_unit_extents) if keepdims else ordered_sums
    first_axis, end_axis, max_int64 = min(axes), max(axes) + 1, int(np.iinfo(np.int64).max)
    front_shape = b.op("Slice", shape, ints(b, 0), ints(b, first_axis))
    reduced_shape = b.op("Slice", shape, ints(b, first_axis), ints(b, end_axis or max_int64))
    tail_shape = (
        b.op("Slice", shape, ints(b, end_axis), ints(b, max_int64)) if end_axis else ints(b)
    )
    table_extents = [
        b.op("ReduceProd", shape_part, keepdims=1)
        for shape_part in (front_shape, reduced_shape, tail_shape)
    ]
    sum_table = b.op(
        "Reshape", x, b.op("Concat", *table_extents[: 2 + bool(end_axis)], axis=0), allowzero=1
    )
    if end_axis:
        ordered_sums = _sum_sequentially(b, sum_table, 1, 2, None)
    else:  # The last axis is reduced.
        ordered_sums = _sum_in_parts(b, sum_table, extents(sum_table)[:1], None)
    kept_unit_extents = ints(b, *(1,) * len(axes)) if keepdims else ints(b)
    return b.op(
        "Reshape",
        ordered_sums,
        b.op("Concat", front_shape, kept_unit_extents, tail_shape, axis=0),
        allowzero=1,
    )


# --- shapes -------------------------------------------------------------------------------------


def _concatenate_extents(b: Builder, *extents: Value) -> Value:
    """Concatenate scalar integers to one int64[n] value."""
    return b.op("Concat", *(b.op("Unsqueeze", n, ints(b, 0)) for n in extents), axis=0)


def _reshape_to_axes(b: Builder, x: Value, axes: Sequence[int | None], count: int | None) -> Value:
    """Reshape an array to the extents of its own axes, with `count` for None in `axes`.

    If `count` is None, None in `axes` stands for all remaining elements.
    """
    return b.op("Reshape", x, _target_shape(b, x, axes, count))


def _target_shape(b: Builder, x: Value, axes: Sequence[int | None], count: int | None) -> Value:
    """Build the target shape of a Reshape that infers at most one extent."""
    shape: Shape = x.shape
    assert shape is not None
    target_extents = [count if axis is None else shape[axis] for axis in axes]
    if all(isinstance(extent, int) for extent in target_extents):
        return ints(b, *(extent for extent in target_extents if isinstance(extent, int)))
    unknown_positions = [
        k for k, extent in enumerate(target_extents) if not isinstance(extent, int)
    ]
    if len(unknown_positions) == 1 and 0 not in target_extents:
        return ints(b, *(extent if isinstance(extent, int) else -1 for extent in target_extents))
    runtime_shape = b.op("Shape", x)
    runtime_extents = [
        ints(b, extent)
        if isinstance(extent, int)
        else ints(b, -1)
        if axis is None
        else b.op("Slice", runtime_shape, ints(b, axis), ints(b, axis + 1))
        for axis, extent in zip(axes, target_extents, strict=True)
    ]
    return b.op("Concat", *runtime_extents, axis=0)
