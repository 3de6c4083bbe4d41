"""Elements that are chosen by their numbers, along one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.native.code import BYTES, NUMBER, Arrays, Cell, Extent, Failure, NotNative
from mdf_loop.ops.native.extents import product
from mdf_loop.ops.native.grids import NO_POSITION, position
from mdf_loop.ops.native.moves import moved
from mdf_loop.ops.native.views import axes_of, seen


def gather(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """`Gather`: by numbers that are known, by one that is computed, by several."""
    data, index = op.inputs[0], op.inputs[1]
    assert data is not None
    assert index is not None
    extents = writer.extents(data)
    known, axis = writer.known(index), op.attributes.get("axis", 0) % len(extents)
    if known is not None and is_fixed(extents):
        outside = (known < -extents[axis]) | (known >= extents[axis])
        if np.any(outside):  # numpy does not look, where nothing is taken
            raise NotNative("it has onnx::Gather that cannot be computed")
        return moved(writer, op, cells)
    numbers = writer.extents(index)
    writer.shaped(op.outputs[0], (*extents[:axis], *numbers, *extents[axis + 1 :]))
    which = writer.cell(index, cells)
    if which.single:
        place = _place(writer, op, which.registers[0], extents[axis])
        return _part(writer, op, cells, axis, place)
    return _several(writer, op, cells, axis)


def _place(writer: Arrays, op: Op, number: str, extent: Extent) -> str:
    """The place of a number, which may count from the end."""
    assert op.inputs[1] is not None
    sentence = f"position {NUMBER} does not exist: the axis has positions {NUMBER} to {NUMBER}"
    failure = Failure(sentence, op.where, NO_POSITION)
    return position(writer, op.inputs[1].dtype, number, extent, failure)


def _part(writer: Arrays, op: Op, cells: Mapping[Value, Cell], axis: int, place: str) -> Cell:
    """What lies at one place of an axis."""
    data = op.inputs[0]
    assert data is not None
    axes = axes_of(writer.extents(data))
    begin = product(writer.one, (place, *axes[axis].step))
    rest = [*axes[:axis], *axes[axis + 1 :]]
    return seen(writer, op.outputs[0], (data, writer.cell(data, cells)), rest, begin)


def _several(writer: Arrays, op: Op, cells: Mapping[Value, Cell], axis: int) -> Cell:
    """A part for each number, in front of each other."""
    (data, index), made, code = op.inputs[:2], op.outputs[0], writer.one
    assert data is not None
    assert index is not None
    extents = writer.extents(data)
    source = writer.pointer_of(data, writer.cell(data, cells))
    chosen = writer.pointer_of(index, writer.cell(index, cells))
    target = writer.buffer(made)
    count = product(code, writer.extents(index))
    part, whole = product(code, extents[axis + 1 :]), product(code, extents[axis:])
    size = product(code, (part, BYTES[made.dtype]))

    def place_of(number: str) -> str:
        return _place(writer, op, writer.load(code, index.dtype, chosen, number), extents[axis])

    def look(number: str) -> None:
        place_of(number)

    def front(first: str) -> None:
        here = writer.at(made.dtype, source, writer.times(first, whole))
        there = writer.at(made.dtype, target, writer.times(first, product(code, (count, part))))

        def one(number: str) -> None:
            begin = writer.at(made.dtype, here, writer.times(place_of(number), part))
            writer.copy(writer.at(made.dtype, there, writer.times(number, part)), begin, size)

        writer.repeat("0", str(count), 1, one)

    fronts = product(code, extents[:axis])
    if not isinstance(fronts, int) or not fronts:  # places are looked at though there are no parts
        writer.repeat("0", str(count), 1, look)
    writer.repeat("0", str(fronts), 1, front)
    return writer.as_cell(made, target)
