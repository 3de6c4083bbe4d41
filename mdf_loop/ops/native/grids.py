"""Loops over all places of an array, with how far each place is from the beginning of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mdf_loop.ops.native.code import NUMBER, Arrays, Extent, Failure
from mdf_loop.ops.native.extents import less

NO_POSITION = "a subscript is outside of its array"
"""What to do where a position does not exist."""


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """How many elements lie between neighbours along each axis."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def over_grid(
    writer: Arrays,
    shape: Sequence[Extent],
    steps: Sequence[Sequence[Extent]],
    write: Callable[[list[str]], None],
) -> None:
    """Code for each place of a grid, in order; `steps` are how far others move along its axes.

    for k0 in range(shape[0]): for k1 in range(shape[1]): ...
        write([k0 * steps[0][0] + k1 * steps[0][1] + ..., k0 * steps[1][0] + ..., ...])
    """

    def axis(number: int, places: list[str]) -> None:
        if number == len(shape):
            write(places)
        elif shape[number] == 1:
            axis(number + 1, places)
        else:

            def one(k: str) -> None:
                moved = (
                    further(writer, p, k, s[number]) for p, s in zip(places, steps, strict=True)
                )
                axis(number + 1, list(moved))

            writer.repeat("0", str(shape[number]), 1, one)

    axis(0, ["0"] * len(steps))


def further(writer: Arrays, place: str, number: str, step: Extent) -> str:
    """`place + number * step`."""
    if step == 0:
        return place
    far = number if step == 1 else writer.times(number, step)
    return far if place == "0" else writer.one.put(f"add i64 {place}, {far}")


def position(writer: Arrays, dtype: str, register: str, extent: Extent, failure: Failure) -> str:
    """The place of a position, which may count from the end; where there is none, a failure.

    That may tell the position, then the first and the last one that exist.
    """
    code = writer.one
    is_narrow = dtype == "int32" and register.startswith("%")
    number = code.cast("sext", dtype, register, "int64") if is_narrow else register
    first, last = less(code, 0, extent), less(code, extent, 1)
    low = code.compare("slt", "int64", number, str(first))
    high = code.compare("sgt", "int64", number, str(last))
    told = [number, first, last][: failure.sentence.count(NUMBER)]
    code.fail_if(code.binary("or", "bool", low, high), failure, told)
    negative = code.compare("slt", "int64", number, "0")
    behind = code.binary("add", "int64", number, str(extent))
    return code.choose(negative, "int64", behind, number)
