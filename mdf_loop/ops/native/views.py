"""Machine code of strided views: arrays of elements of another array, with a stride along each axis.

    Transpose     [n, m] -> [m, n]        axes (m, 1), (n, m)
    broadcast     [m] -> [n, m]           axes (n, 0), (m, 1)
    every other   [n, m] -> [n / 2, m]    axes (n / 2, 2 m), (m, 1)

Each pair is the extent of an axis and its stride in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from mdf_loop.ir import Value
from mdf_loop.ops.native.code import BYTES, Arrays, Cell, Code, Extent, Extents
from mdf_loop.ops.native.extents import Factors, alike, product

ONE, NOTHING = alike((1,)), alike((0,))
"""Canonical forms of the products 1 and 0."""


class Stride(Struct, frozen=True):
    """Extent and stride of an axis, as products. The stride is the distance of neighbours in elements."""

    extent: Factors
    step: Factors


def axes_of(extents: Extents) -> list[Stride]:
    """Return the extent and stride of each axis of a contiguous array."""
    return [Stride((extent,), extents[k + 1 :]) for k, extent in enumerate(extents)]


def merged(axes: Sequence[Stride]) -> list[Stride]:
    """Merge neighbouring axes that one stride can describe, and return the resulting axes."""
    strides: list[Stride] = []
    for axis in (axis for axis in axes if axis.extent != (1,)):
        if strides and alike(strides[-1].step) == alike((*axis.extent, *axis.step)):
            strides[-1] = Stride((*strides[-1].extent, *axis.extent), axis.step)
        else:
            strides.append(axis)
    return strides


def copied(writer: Arrays, dtype: str, target: str, source: str, axes: Sequence[Stride]) -> None:
    """Write a copy of the elements along strided axes to contiguous memory."""
    axes = merged(axes)
    if not axes:
        writer.copy(target, source, BYTES[dtype])
    elif all(alike(axis.extent) != NOTHING for axis in axes):
        _copied(writer, dtype, target, source, axes)


def _copied(writer: Arrays, dtype: str, target: str, source: str, axes: Sequence[Stride]) -> None:
    """Write a copy of the elements along merged axes, none of which has extent 0."""
    code, first = writer.one, axes[0]
    count, step = product(code, first.extent), product(code, first.step)
    if len(axes) == 1 and step in (0, 1):
        writer.over(count, _line(writer, dtype, target, source, bool(step)))
        return
    size = product(code, (extent for axis in axes[1:] for extent in axis.extent))

    def part(number: str) -> None:
        here = writer.at(dtype, source, writer.times(number, step))
        there = writer.at(dtype, target, writer.times(number, size))
        if len(axes) == 1:
            writer.store(code, dtype, writer.load(code, dtype, here), there)
        else:
            _copied(writer, dtype, there, here, axes[1:])

    writer.repeat("0", str(count), 1, part)


def _line(
    writer: Arrays, dtype: str, target: str, source: str, moves: bool
) -> Callable[[Code, str], None]:
    """Return a function that writes a copy of contiguous elements, or repetitions of one element."""
    one = "" if moves else writer.load(writer.one, dtype, source)

    def write(code: Code, k: str) -> None:
        register = writer.load(code, dtype, source, k) if moves else code.spread(one, dtype)
        writer.store(code, dtype, register, target, k)

    return write


def seen(
    writer: Arrays,
    output: Value,
    source: tuple[Value, Cell],
    axes: Sequence[Stride],
    begin: Extent = 0,
) -> Cell:
    """Return an array of the elements along strided axes, as a view if the elements are contiguous."""
    value, cell = source
    pointer = writer.pointer_of(value, cell)
    if begin != 0:
        pointer = writer.at(value.dtype, pointer, str(begin))
    if [alike(axis.step) for axis in merged(axes)] not in ([], [ONE]):
        target = writer.buffer(output)
        copied(writer, value.dtype, target, pointer, axes)
        pointer = target
    return writer.as_cell(output, pointer)


def broadcast(writer: Arrays, value: Value, cell: Cell, extents: Extents) -> Cell:
    """Return an array broadcast to a larger shape."""
    viewed = Value(
        value.name, value.dtype, tuple("?" if isinstance(e, str) else e for e in extents)
    )
    writer.shaped(viewed, extents)
    return seen(writer, viewed, (value, cell), _spread(writer.extents(value), extents))


def _spread(input_extents: Extents, target: Extents) -> list[Stride]:
    """Return the strided axes of an array that is broadcast to a larger shape."""
    own = [Stride((1,), ())] * (len(target) - len(input_extents)) + axes_of(input_extents)
    return [
        Stride((extent,), (0,)) if axis.extent == (1,) and extent != 1 else axis
        for axis, extent in zip(own, target, strict=True)
    ]
