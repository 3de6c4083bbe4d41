"""LLVM loops over all positions of a multidimensional grid, with offsets in several arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mdf_loop.ops.native.code import NUMBER_PLACEHOLDER, ArrayCode, Extent, Failure
from mdf_loop.ops.native.extents import subtract_extents

NO_POSITION_HINT = "a subscript is outside of its array"
"""Hint in the error message for a position that does not exist."""


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous array of a given shape, in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def loop_over_grid(
    writer: ArrayCode,
    shape: Sequence[Extent],
    steps: Sequence[Sequence[Extent]],
    write: Callable[[list[str]], None],
) -> None:
    """Write nested LLVM loops over all positions of a multidimensional grid.

        for k0 in range(shape[0]): for k1 in range(shape[1]): ...
            write([k0 * steps[0][0] + k1 * steps[0][1] + ..., k0 * steps[1][0] + ..., ...])

    Args:
        writer: Writer of the code.
        shape: Extents of the grid.
        steps: Strides of each array along the axes of the grid.
        write: Writes the code of one position, for the offset of the position in each array.
    """

    def write_axis(number: int, offsets: list[str]) -> None:
        if number == len(shape):
            write(offsets)
        elif shape[number] == 1:
            write_axis(number + 1, offsets)
        else:

            def write_iteration(k: str) -> None:
                inner_offsets = [
                    advance(writer, offset, k, array_strides[number])
                    for offset, array_strides in zip(offsets, steps, strict=True)
                ]
                write_axis(number + 1, inner_offsets)

            writer.repeat("0", str(shape[number]), 1, write_iteration)

    write_axis(0, ["0"] * len(steps))


def advance(writer: ArrayCode, offset: str, number: str, step: Extent) -> str:
    """Write LLVM code of the memory offset `offset + number * step`."""
    if step == 0:
        return offset
    offset_change = number if step == 1 else writer.multiply(number, step)
    return (
        offset_change
        if offset == "0"
        else writer.scalar_code.emit(f"add i64 {offset}, {offset_change}")
    )


def write_checked_index(
    writer: ArrayCode, dtype: str, register: str, extent: Extent, failure: Failure
) -> str:
    """Write LLVM code that checks an index, and return the index as a nonnegative one.

    Args:
        writer: Writer of the code.
        dtype: Dtype of the register.
        register: The position, which may count from the end.
        extent: Extent of the axis.
        failure: The failure. Its sentence may contain the position and the first and last existing position.
    """
    scalar_code = writer.scalar_code
    is_narrow = dtype == "int32" and register.startswith("%")
    wide_position = scalar_code.cast("sext", dtype, register, "int64") if is_narrow else register
    first_position, last_position = (
        subtract_extents(scalar_code, 0, extent),
        subtract_extents(scalar_code, extent, 1),
    )
    is_too_low = scalar_code.compare("slt", "int64", wide_position, str(first_position))
    is_too_high = scalar_code.compare("sgt", "int64", wide_position, str(last_position))
    message_numbers = [wide_position, first_position, last_position][
        : failure.message.count(NUMBER_PLACEHOLDER)
    ]
    scalar_code.fail_if(
        scalar_code.binary("or", "bool", is_too_low, is_too_high), failure, message_numbers
    )
    is_negative = scalar_code.compare("slt", "int64", wide_position, "0")
    wrapped_position = scalar_code.binary("add", "int64", wide_position, str(extent))
    return scalar_code.select(is_negative, "int64", wrapped_position, wide_position)
