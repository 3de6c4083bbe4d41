"""Lowering of subscripts `value[...]`: integers, slices, new axes, index arrays, masks."""

from __future__ import annotations

from types import EllipsisType
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.errors import ArityError, ExpressionError, OperandError
from mdf_loop.ir import Value
from mdf_loop.ir.types import is_sequence
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.reductions import count_reduced_elements
from mdf_loop.lower.sequences import known_sequence_member
from mdf_loop.lower.terms import Term, promote, tensor
from mdf_loop.ops.build_helpers import cast, extents, ints, is_scalar, kind, rank


class SliceIndex(Struct, frozen=True):
    """Slice `start:stop:step` in a subscript, where None is an omitted bound."""

    start: Value | None = None
    stop: Value | None = None
    step: Value | None = None


Index: TypeAlias = Value | SliceIndex | EllipsisType | None
"""Part of a subscript; None is a new axis."""


def subscript(b: ModelBuilder, term: Term, indices: tuple[Index, ...]) -> Term:
    """Return the subscript `term[indices]` of a tensor, tuple or sequence."""
    if isinstance(term, tuple):
        return _tuple_element(b, term, indices)
    if is_sequence(term.dtype):
        return _sequence_member(b, term, indices)
    if _consumed_axes(indices) > rank(term):
        if _is_single_zero(b, indices):  # `loop[0]` also denotes the only result of a loop
            return term
        raise OperandError(
            f"{term.type} has {rank(term)} axes, but {_consumed_axes(indices)} subscripts",
            hint="leave out subscripts, or give the value more axes",
        )
    expanded_indices = _expand_ellipsis(indices, rank(term))
    index_arrays = [
        index for index in expanded_indices if isinstance(index, Value) and not is_scalar(index)
    ]
    if len(index_arrays) > 1:
        return _gather_elements(b, term, expanded_indices)
    if index_arrays:
        _refuse_separated_indices(expanded_indices)
    _check_parts(b, term, expanded_indices)
    axis = 0
    selected_value = term
    for index in expanded_indices:
        selected_value, axis = _apply_index(b, selected_value, axis, index)
    return selected_value


def _sequence_member(b: ModelBuilder, sequence: Value, indices: tuple[Index, ...]) -> Value:
    """Return `sequence[k]`, where a negative k counts from the end."""
    if len(indices) == 1 and isinstance(indices[0], Value) and kind(indices[0]) in "iu":
        operands = (sequence, cast(b, indices[0], "int64"))
        static_member = known_sequence_member(b, operands)
        return b.op("SequenceAt", *operands) if static_member is None else static_member
    raise OperandError(
        f"'{sequence.name}' is {sequence.type}: a subscript of it is one whole number",
        hint="take its members one by one, or join all with onnx::ConcatFromSequence",
    )


def _apply_index(b: ModelBuilder, value: Value, axis: int, index: Index) -> tuple[Value, int]:
    """Apply one index of a subscript to an axis, and return the value and the next axis."""
    if index is None:
        return b.op("Unsqueeze", value, ints(b, axis)), axis + 1
    if isinstance(index, SliceIndex):
        return _apply_slice(b, value, axis, index), axis + 1
    assert isinstance(index, Value)  # an ellipsis has become slices
    if index.dtype == "bool":
        return _select_by_mask(b, value, axis, index), axis + 1
    return b.op("Gather", value, cast(b, index, "int64"), axis=axis), axis + rank(index)


def _consumed_axes(indices: tuple[Index, ...]) -> int:
    """Return the number of axes that the indices of a subscript apply to."""
    return sum(
        max(rank(index), 1) if isinstance(index, Value) and index.dtype == "bool" else 1
        for index in indices
        if index is not None and index is not ...
    )


def _expand_ellipsis(indices: tuple[Index, ...], axes: int) -> tuple[Index, ...]:
    """Return the indices of a subscript with `...` replaced by full slices."""
    ellipsis_positions = [k for k, index in enumerate(indices) if index is ...]
    if not ellipsis_positions:
        return indices
    if len(ellipsis_positions) > 1:
        raise ExpressionError("a subscript has more than one '...'")
    missing_axis_count = axes - _consumed_axes(indices)
    return (
        *indices[: ellipsis_positions[0]],
        *(SliceIndex(),) * missing_axis_count,
        *indices[ellipsis_positions[0] + 1 :],
    )


def _is_single_zero(b: ModelBuilder, indices: tuple[Index, ...]) -> bool:
    if len(indices) != 1 or not isinstance(indices[0], Value):
        return False
    constant_index = b.constant_of(indices[0])
    return constant_index is not None and constant_index.shape == () and constant_index == 0


# --- results of a loop ---------------------------------------------------------------------------


def _tuple_element(b: ModelBuilder, term: tuple[Term, ...], indices: tuple[Index, ...]) -> Term:
    index, *further_indices = indices
    selected_term: Term
    if isinstance(index, SliceIndex):
        start, stop, step = (
            _known_position(b, bound) for bound in (index.start, index.stop, index.step)
        )
        if step == 0:
            raise ExpressionError("a slice cannot have the step 0")
        selected_term = term[start:stop:step]
    else:
        constant_index = b.constant_of(index) if isinstance(index, Value) else None
        if constant_index is None or constant_index.shape != ():
            return subscript(b, tensor(b, term), indices)
        position = _to_position(constant_index.item())
        if not -len(term) <= position < len(term):
            raise ArityError(
                f"result {position} does not exist: there are {len(term)} results "
                f"(numbered 0 to {len(term) - 1})"
            )
        selected_term = term[position]
        if isinstance(index, Value) and isinstance(selected_term, Value):
            selected_term = b.mark_unrolled_if(index, selected_term)
    return subscript(b, selected_term, tuple(further_indices)) if further_indices else selected_term


def _known_position(b: ModelBuilder, bound: Value | None) -> int | None:
    constant_bound = b.evaluated(bound)
    if bound is not None and (constant_bound is None or constant_bound.shape != ()):
        raise ExpressionError(
            "which results are meant must be known when the model is compiled",
            hint="take them one by one",
        )
    return None if constant_bound is None else _to_position(constant_bound.item())


def _to_position(number: object) -> int:
    if not isinstance(number, int):
        raise OperandError(f"a subscript is a whole number, not {number}")
    return number


# --- one axis ------------------------------------------------------------------------------------


def _check_parts(b: ModelBuilder, value: Value, index_parts: tuple[Index, ...]) -> None:
    """Raise an error if an index of a subscript is no integer or is out of range."""
    axis = 0
    for index in index_parts:
        if isinstance(index, Value) and index.dtype != "bool":
            _check_integer(b, value, axis, index)
        axis += _consumed_axes((index,))


def _check_integer(b: ModelBuilder, value: Value, axis: int, index: Value) -> None:
    if kind(index) not in "iu":
        raise OperandError(
            f"a subscript is a whole number, not {index.type}",
            hint="round it first, e.g. x[int(i)]",
        )
    constant_index = b.constant_of(index)
    extent = extents(value)[axis]
    if constant_index is not None and isinstance(extent, int):
        invalid_indices = constant_index[(constant_index < -extent) | (constant_index >= extent)]
        if invalid_indices.size:
            raise OperandError(
                f"subscript {invalid_indices.flat[0]} is outside of axis {axis} of {value.type}",
                hint=f"subscripts go from {-extent} to {extent - 1}" if extent else "",
            )


def _select_by_mask(b: ModelBuilder, value: Value, axis: int, mask: Value) -> Value:
    """Return the elements of a value at which a mask is true.

    Their number is known only at run time.
    """
    if rank(mask) == 0 or (rank(mask) > 1 and (axis > 0 or rank(mask) != rank(value))):
        raise OperandError(
            f"the truth values {mask.type} cannot choose from {value.type}",
            hint="choose along one axis, or write numpy.where(condition, x, y)",
        )
    masked_extents = extents(value)[axis : axis + rank(mask)]
    for mask_extent, masked_extent in zip(extents(mask), masked_extents, strict=True):
        if (
            mask_extent != masked_extent
            and isinstance(mask_extent, int)
            and isinstance(masked_extent, int)
        ):
            raise OperandError(f"the truth values {mask.type} do not fit {value.type}")
    if rank(mask) > 1:
        return b.op("Compress", value, b.op("Reshape", mask, ints(b, -1)))
    return b.op("Compress", value, mask, axis=axis)


def _apply_slice(b: ModelBuilder, value: Value, axis: int, slice_index: SliceIndex) -> Value:
    if slice_index == SliceIndex():
        return value
    step = 1 if slice_index.step is None else _known_step(b, slice_index.step)
    int64_limits = np.iinfo(np.int64)
    default_start, default_stop = (
        (0, int64_limits.max) if step > 0 else (int64_limits.max, int64_limits.min)
    )
    start, stop = (
        _slice_bound(b, slice_index.start, default_start),
        _slice_bound(b, slice_index.stop, default_stop),
    )
    if step < 0 and slice_index.start is not None:
        stop = _backward_slice_end(b, value, axis, start, stop)
    return b.op("Slice", value, start, stop, ints(b, axis), ints(b, step))


def _known_step(b: ModelBuilder, step: Value) -> int:
    constant_step = b.evaluated(step)
    if (
        constant_step is None
        or constant_step.shape != ()
        or constant_step.dtype.kind not in "iu"
        or constant_step == 0
    ):
        raise ExpressionError(
            "the step of a slice must be a whole number other than 0, known when compiled"
        )
    return int(constant_step)


def _slice_bound(b: ModelBuilder, bound: Value | None, default: int) -> Value:
    if bound is None:
        return ints(b, default)
    if kind(bound) not in "iu" or bound.shape != ():
        raise OperandError(
            f"the ends of a slice are whole numbers, not {bound.type}",
            hint="round them first, e.g. x[:int(n)]",
        )
    if bound.dtype == "uint64":  # larger than any extent, not negative
        bound = b.op("Min", bound, b.constant(np.array(2**63 - 1, np.uint64)))
    return b.op("Reshape", cast(b, bound, "int64"), ints(b, 1))


def _backward_slice_end(
    b: ModelBuilder, value: Value, axis: int, start: Value, stop: Value
) -> Value:
    """Return the end of a backward slice, corrected for a start before the first element.

    ONNX clamps such a start to the first element, so the end must be at the first element, too.
    """
    constant_start = b.constant_of(start)
    if constant_start is not None and constant_start >= -1:
        return stop
    axis_extent = count_reduced_elements(b, value, axis)
    extent_vector = (
        ints(b, axis_extent)
        if isinstance(axis_extent, int)
        else b.op("Reshape", axis_extent, ints(b, 1))
    )
    return b.op("Where", b.op("Less", start, b.op("Neg", extent_vector)), extent_vector, stop)


# --- several index arrays ------------------------------------------------------------------------


def _refuse_separated_indices(index_parts: tuple[Index, ...]) -> None:
    """Raise an error for index arrays on both sides of a slice, such as `x[i, :, j]`.

    numpy moves their axes to the front.
    """
    index_positions = [k for k, index in enumerate(index_parts) if isinstance(index, Value)]
    if index_positions[-1] - index_positions[0] >= len(index_positions):
        raise ExpressionError(
            "subscripts with numbers and index arrays on both sides of a slice are not supported",
            hint="write two subscripts, e.g. x[0][:, i]",
        )


def _gather_elements(b: ModelBuilder, value: Value, index_parts: tuple[Index, ...]) -> Value:
    """Return `value[i, j]` for index arrays: elements (i[0], j[0]), (i[1], j[1]) ..."""
    index_arrays = [index for index in index_parts if isinstance(index, Value)]
    if index_parts[: len(index_arrays)] != tuple(index_arrays) or any(
        index != SliceIndex() for index in index_parts[len(index_arrays) :]
    ):
        raise ExpressionError(
            "several index arrays must stand first in a subscript",
            hint="write x[i, j] or x[i][:, j]",
        )
    if any(index.dtype == "bool" for index in index_arrays):
        raise ExpressionError("truth values cannot choose together with other index arrays")
    _check_parts(b, value, index_parts)
    int_arrays = promote(b, *(cast(b, index, "int64") for index in index_arrays))
    zero = b.constant(np.array(0))
    zeros_of_broadcast_shape = int_arrays[0]
    for index in int_arrays[1:]:
        zeros_of_broadcast_shape = b.op(
            "Add", b.op("Mul", zeros_of_broadcast_shape, zero), b.op("Mul", index, zero)
        )
    index_columns = [
        b.op("Unsqueeze", b.op("Add", index, zeros_of_broadcast_shape), ints(b, -1))
        for index in int_arrays
    ]
    return b.op("GatherND", value, b.op("Concat", *index_columns, axis=-1))
