"""Lowering of NumPy's shape functions: reshape, transpose, concatenate, repeat, roll ..."""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arguments import Axes, Extents, Terms
from mdf_loop.lower.arrays import shape_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.reductions import count_reduced_elements, nonnegative_axes, nonnegative_axis
from mdf_loop.lower.terms import Term, literal, promote, tensor
from mdf_loop.ops.build_helpers import cast, extents, ints, kind, rank, scalar

_INT64 = np.iinfo(np.int64)

# --- shape queries -------------------------------------------------------------------------------


@register_as("numpy.ndim")
def ndim(b: ModelBuilder, a: Value, /) -> Value:
    """Return the number of axes of an array."""
    b.record_shape_query(a)
    return literal(b, rank(a))


@register_as("numpy.size")
def size(b: ModelBuilder, a: Value, /, axis: int | None = None) -> Value:
    """Return the number of elements of an array, or the extent of one axis."""
    b.record_shape_query(a)
    element_count = count_reduced_elements(b, a, axis)
    return literal(b, element_count) if isinstance(element_count, int) else element_count


@register_as("numpy.shape")
def shape(b: ModelBuilder, a: Value, /) -> Term:
    """Return the shape of an array as a vector of integers."""
    return tuple(size(b, a, axis) for axis in range(rank(a)))


# --- changes of axes -----------------------------------------------------------------------------


@register_as("numpy.reshape")
def reshape(b: ModelBuilder, a: Value, shape: Extents, /) -> Value:
    """Return the array in another shape, in row-major order, where one extent may be -1."""
    constant_shape = b.constant_of(shape)
    if constant_shape is not None and 0 in constant_shape and -1 in constant_shape:
        raise OperandError(
            f"an extent of {constant_shape.tolist()} is undetermined: beside 0, -1 may stand for any number",
            hint="write the extent instead of -1",
        )
    reshaped_value = b.op(
        "Reshape", a, shape, allowzero=int(constant_shape is None or 0 in constant_shape)
    )
    element_count, requested_count = (
        None if value.shape is None else count_reduced_elements(b, value, None)
        for value in (a, reshaped_value)
    )
    if (
        isinstance(element_count, int)
        and isinstance(requested_count, int)
        and element_count != requested_count
    ):
        raise OperandError(
            f"{a.type} has {element_count} elements, which do not fill {reshaped_value.type}",
            hint="let one extent be -1 to have it computed",
        )
    return reshaped_value


@register_as("numpy.ravel")
def ravel(b: ModelBuilder, a: Value, /) -> Value:
    """Return all elements of an array in one axis, in row-major order."""
    return b.op("Reshape", a, ints(b, -1))


@register_as("numpy.squeeze")
def squeeze(b: ModelBuilder, a: Value, /, axis: Axes = None) -> Value:
    """Return the array without its axes of extent 1, or without the axes in `axis`."""
    if axis is None:
        all_extents = extents(a)
        if any(isinstance(extent, str) for extent in all_extents):
            raise OperandError(
                f"which axes of {a.type} have extent 1 is not known", hint="give axis="
            )
        axis = tuple(k for k, extent in enumerate(all_extents) if extent == 1)
    axes = nonnegative_axes(a, axis)
    return b.op("Squeeze", a, ints(b, *axes)) if axes else a


@register_as("numpy.expand_dims")
def expand_dims(b: ModelBuilder, a: Value, axis: Axes, /) -> Value:
    """Return the array with new axes of extent 1 at the positions `axis` of the result."""
    axes = axis if isinstance(axis, tuple) else (0 if axis is None else axis,)
    return b.op("Unsqueeze", a, ints(b, *(nonnegative_axis(a, k, len(axes)) for k in axes)))


def _register_at_least(count: int) -> None:
    @register_as(f"numpy.atleast_{count}d")
    def call(b: ModelBuilder, a: Value, /) -> Value:
        missing_axis_count = max(count - rank(a), 0)
        return (
            b.op("Unsqueeze", a, ints(b, *range(missing_axis_count))) if missing_axis_count else a
        )

    call.__doc__ = f"Return the array with leading axes added up to rank {count}."


_register_at_least(1)
_register_at_least(2)


@register_as("numpy.transpose", "numpy.permute_dims")
def transpose(b: ModelBuilder, a: Value, /, axes: Axes = None) -> Value:
    """Return the array with its axes in another order, reversed by default."""
    axis_order = nonnegative_axes(a, axes)
    if axes is None:
        axis_order = axis_order[::-1]
    if len(axis_order) != rank(a):
        raise OperandError(f"the axes {axes} are not those of {a.type}", hint="name every axis")
    return b.op("Transpose", a, perm=axis_order) if axis_order else a


@register_as("numpy.swapaxes")
def swapaxes(b: ModelBuilder, a: Value, axis1: int, axis2: int, /) -> Value:
    """Return the array with two axes exchanged."""
    axis_order = list(range(rank(a)))
    first_axis, second_axis = nonnegative_axis(a, axis1), nonnegative_axis(a, axis2)
    axis_order[first_axis], axis_order[second_axis] = second_axis, first_axis
    return b.op("Transpose", a, perm=tuple(axis_order))


@register_as("numpy.moveaxis")
def moveaxis(b: ModelBuilder, a: Value, source: int, destination: int, /) -> Value:
    """Return the array with one axis moved to another position."""
    axis_order = list(range(rank(a)))
    axis_order.remove(nonnegative_axis(a, source))
    axis_order.insert(nonnegative_axis(a, destination), nonnegative_axis(a, source))
    return b.op("Transpose", a, perm=tuple(axis_order))


# --- concatenation -------------------------------------------------------------------------------


def _promote_arrays(b: ModelBuilder, arrays: Terms) -> tuple[Value, ...]:
    if not arrays:
        raise OperandError("needs at least one array")
    return promote(b, *(tensor(b, array) for array in arrays))


@register_as("numpy.concatenate", "numpy.concat")
def concatenate(b: ModelBuilder, arrays: Terms, /, axis: int | None = 0) -> Value:
    """Return arrays joined along an axis, or flattened and joined if the axis is None."""
    operands = _promote_arrays(b, arrays)
    if axis is None:
        operands, axis = tuple(ravel(b, operand) for operand in operands), 0
    return b.op("Concat", *operands, axis=nonnegative_axis(operands[0], axis))


@register_as("numpy.stack")
def stack(b: ModelBuilder, arrays: Terms, /, axis: int = 0) -> Value:
    """Return arrays of one shape joined along a new axis."""
    operands = _promote_arrays(b, arrays)
    return b.op(
        "Concat",
        *(expand_dims(b, operand, axis) for operand in operands),
        axis=nonnegative_axis(operands[0], axis, 1),
    )


@register_as("numpy.hstack")
def hstack(b: ModelBuilder, arrays: Terms, /) -> Value:
    """Return arrays joined along axis 1, or along axis 0 if they have one axis."""
    operands = [_add_leading_axes(b, operand, 1) for operand in _promote_arrays(b, arrays)]
    return b.op("Concat", *operands, axis=int(rank(operands[0]) > 1))


@register_as("numpy.vstack")
def vstack(b: ModelBuilder, arrays: Terms, /) -> Value:
    """Return the arrays joined as rows."""
    return b.op(
        "Concat",
        *(_add_leading_axes(b, operand, 2) for operand in _promote_arrays(b, arrays)),
        axis=0,
    )


@register_as("numpy.column_stack")
def column_stack(b: ModelBuilder, arrays: Terms, /) -> Value:
    """Return the arrays joined as columns."""
    operands = [_add_leading_axes(b, operand, 1) for operand in _promote_arrays(b, arrays)]
    column_arrays = [
        b.op("Unsqueeze", operand, ints(b, 1)) if rank(operand) == 1 else operand
        for operand in operands
    ]
    return b.op("Concat", *column_arrays, axis=1)


def _add_leading_axes(b: ModelBuilder, operand: Value, axis_count: int) -> Value:
    """Return the array with leading axes of extent 1 added until it has `axis_count` axes."""
    missing_axis_count = max(axis_count - rank(operand), 0)
    return (
        b.op("Unsqueeze", operand, ints(b, *range(missing_axis_count)))
        if missing_axis_count
        else operand
    )


@register_as("numpy.append")
def append(b: ModelBuilder, arr: Value, values: Value, /, axis: int | None = None) -> Value:
    """Return `values` appended to `arr`, along an axis or flattened."""
    return concatenate(b, (arr, values), axis)


# --- repetition and reordering -------------------------------------------------------------------


@register_as("numpy.tile")
def tile(b: ModelBuilder, a: Value, reps: Extents, /) -> Value:
    """Return copies of the whole array joined along its axes."""
    constant_reps = b.constant_of(reps)
    repeated_axis_count = extents(reps)[0]
    if not isinstance(repeated_axis_count, int) or (
        constant_reps is not None and np.any(constant_reps < 0)
    ):
        raise OperandError("numpy.tile needs one whole number of repetitions for each axis")
    a = _add_leading_axes(b, a, repeated_axis_count)
    missing_axis_count = rank(a) - repeated_axis_count
    return b.op("Tile", a, b.op("Concat", ints(b, *(1,) * missing_axis_count), reps, axis=0))


@register_as("numpy.repeat")
def repeat(b: ModelBuilder, a: Value, repeats: int, /, axis: int | None = None) -> Value:
    """Return the array with each element (or row) repeated `repeats` times."""
    if repeats < 0:
        raise OperandError(f"numpy.repeat cannot repeat {repeats} times")
    if axis is None:
        a, axis = ravel(b, a), 0
    repeat_count, zero, one = (scalar(b, number, "int64") for number in (repeats, 0, 1))
    result_extent = b.op(
        "Mul", cast(b, size(b, a, nonnegative_axis(a, axis)), "int64"), repeat_count
    )
    source_indices = b.op(
        "Div", b.op("Range", zero, result_extent, one), b.op("Max", repeat_count, one)
    )
    return b.op("Gather", a, source_indices, axis=nonnegative_axis(a, axis))


@register_as("numpy.flip")
def flip(b: ModelBuilder, m: Value, /, axis: Axes = None) -> Value:
    """Return the array with its elements in reverse order along axes."""
    axes = nonnegative_axes(m, axis)
    if not axes:
        return m
    slice_starts, slice_ends, slice_steps = (
        (number,) * len(axes) for number in (_INT64.max, _INT64.min, -1)
    )
    return b.op(
        "Slice",
        m,
        *(
            ints(b, *slice_operand)
            for slice_operand in (slice_starts, slice_ends, axes, slice_steps)
        ),
    )


@register_as("numpy.flipud")
def flipud(b: ModelBuilder, m: Value, /) -> Value:
    """Return the array with its rows in reverse order."""
    return flip(b, m, 0)


@register_as("numpy.fliplr")
def fliplr(b: ModelBuilder, m: Value, /) -> Value:
    """Return the array with its columns in reverse order."""
    return flip(b, m, 1)


@register_as("numpy.roll")
def roll(b: ModelBuilder, a: Value, shift: Value, /, axis: int | None = None) -> Value:
    """Shift elements cyclically along an axis, or in row-major order without an axis."""
    if axis is None:
        return reshape(b, roll(b, ravel(b, a), shift, 0), shape_of(b, a))
    positions_along_axis = positions(b, a, nonnegative_axis(a, axis))
    axis_extent = size(b, a, nonnegative_axis(a, axis))
    source_positions = ops.modulo(
        b, ops.subtract(b, positions_along_axis, ops.as_scalar(b, shift)), axis_extent
    )
    return b.op("Gather", a, source_positions, axis=nonnegative_axis(a, axis))


def positions(b: ModelBuilder, value: Value, axis: int) -> Value:
    """Return the vector of indices 0, 1, 2, ... along an axis of an array."""
    axis_extent = cast(b, size(b, value, axis), "int64")
    zero, one = (b.constant(np.array(number, np.int64)) for number in (0, 1))
    return b.op("Range", zero, axis_extent, one)


@register_as("numpy.diff")
def diff(b: ModelBuilder, a: Value, /, n: int = 1, axis: int = -1) -> Value:
    """Return the n-th differences between neighboring elements along an axis."""
    if n < 0:
        raise OperandError(f"numpy.diff takes differences {n} times")
    slice_axis = ints(b, nonnegative_axis(a, axis))
    for _ in range(n):
        later_elements = b.op("Slice", a, ints(b, 1), ints(b, _INT64.max), slice_axis)
        earlier_elements = b.op("Slice", a, ints(b, 0), ints(b, -1), slice_axis)
        a = b.op("Xor" if a.dtype == "bool" else "Sub", later_elements, earlier_elements)
    return a


@register_as("numpy.take")
def take(b: ModelBuilder, a: Value, indices: Value, /, axis: int | None = None) -> Value:
    """Return the elements at `indices` along an axis, or of the flattened array."""
    if kind(indices) not in "iu":
        raise OperandError(f"numpy.take needs whole numbers, not {indices.type}")
    if axis is None:
        a, axis = ravel(b, a), 0
    return b.op("Gather", a, cast(b, indices, "int64"), axis=nonnegative_axis(a, axis))
