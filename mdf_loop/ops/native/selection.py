"""Machine code of `Gather`, which selects elements by their positions along one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    Arrays,
    Cell,
    Extent,
    Failure,
    NotNative,
)
from mdf_loop.ops.native.extents import product
from mdf_loop.ops.native.grids import NO_POSITION, write_position
from mdf_loop.ops.native.moves import write_move
from mdf_loop.ops.native.views import contiguous_axes, strided_view


def gather(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write `Gather` for constant positions, for one computed position or for several."""
    source, index = op.inputs[0], op.inputs[1]
    assert source is not None
    assert index is not None
    extents = writer.extents(source)
    known, axis = writer.constant_of(index), op.attributes.get("axis", 0) % len(extents)
    if known is not None and is_fixed(extents):
        outside = (known < -extents[axis]) | (known >= extents[axis])
        if np.any(outside):  # numpy does not check positions of an empty result
            raise NotNative("it has onnx::Gather that cannot be computed")
        return write_move(writer, op, cells)
    index_extents = writer.extents(index)
    writer.set_extents(op.outputs[0], (*extents[:axis], *index_extents, *extents[axis + 1 :]))
    index_cell = writer.cell(index, cells)
    if index_cell.single:
        offset = _checked_position(writer, op, index_cell.registers[0], extents[axis])
        return _view_slice(writer, op, cells, axis, offset)
    return _gather_slices(writer, op, cells, axis)


def _checked_position(writer: Arrays, op: Op, number: str, extent: Extent) -> str:
    """Write the conversion of a position, which may count from the end, to one counted from 0."""
    assert op.inputs[1] is not None
    sentence = f"position {NUMBER_PLACEHOLDER} does not exist: the axis has positions {NUMBER_PLACEHOLDER} to {NUMBER_PLACEHOLDER}"
    failure = Failure(sentence, op.where, NO_POSITION)
    return write_position(writer, op.inputs[1].dtype, number, extent, failure)


def _view_slice(
    writer: Arrays, op: Op, cells: Mapping[Value, Cell], axis: int, offset: str
) -> Cell:
    """Return a view of the elements at one position of an axis."""
    source = op.inputs[0]
    assert source is not None
    axes = contiguous_axes(writer.extents(source))
    begin = product(writer.scalar, (offset, *axes[axis].step))
    other_axes = [*axes[:axis], *axes[axis + 1 :]]
    return strided_view(
        writer, op.outputs[0], (source, writer.cell(source, cells)), other_axes, begin
    )


def _gather_slices(writer: Arrays, op: Op, cells: Mapping[Value, Cell], axis: int) -> Cell:
    """Write copies of the slices at several computed positions, for all positions of the axes in front."""
    (source, index), gathered, code = op.inputs[:2], op.outputs[0], writer.scalar
    assert source is not None
    assert index is not None
    extents = writer.extents(source)
    source_pointer = writer.pointer_of(source, writer.cell(source, cells))
    index_pointer = writer.pointer_of(index, writer.cell(index, cells))
    target = writer.buffer(gathered)
    count = product(code, writer.extents(index))
    slice_length, block_length = product(code, extents[axis + 1 :]), product(code, extents[axis:])
    size = product(code, (slice_length, ITEM_BYTES[gathered.dtype]))

    def position_of(k: str) -> str:
        number = writer.load(code, index.dtype, index_pointer, k)
        return _checked_position(writer, op, number, extents[axis])

    def check_position(k: str) -> None:
        position_of(k)

    def copy_block(block: str) -> None:
        read_at = writer.element_address(
            gathered.dtype, source_pointer, writer.multiply(block, block_length)
        )
        written_length = product(code, (count, slice_length))
        write_at = writer.element_address(
            gathered.dtype, target, writer.multiply(block, written_length)
        )

        def copy_slice(k: str) -> None:
            read_slice_at = writer.element_address(
                gathered.dtype, read_at, writer.multiply(position_of(k), slice_length)
            )
            write_slice_at = writer.element_address(
                gathered.dtype, write_at, writer.multiply(k, slice_length)
            )
            writer.copy(write_slice_at, read_slice_at, size)

        writer.repeat("0", str(count), 1, copy_slice)

    n_blocks = product(code, extents[:axis])
    if not isinstance(n_blocks, int) or not n_blocks:  # checks positions even without blocks
        writer.repeat("0", str(count), 1, check_position)
    writer.repeat("0", str(n_blocks), 1, copy_block)
    return writer.as_cell(gathered, target)
