"""Machine code of `Gather`, which selects elements by their indices along one axis."""

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
from mdf_loop.ops.native.grids import NO_POSITION_HINT, write_position
from mdf_loop.ops.native.moves import write_move
from mdf_loop.ops.native.views import contiguous_axes, strided_view


def gather(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write LLVM code of ONNX's `Gather`, for constant or computed indices."""
    source, indices = op.inputs[0], op.inputs[1]
    assert source is not None
    assert indices is not None
    extents = writer.extents(source)
    known_indices, axis = writer.constant_of(indices), op.attributes.get("axis", 0) % len(extents)
    if known_indices is not None and is_fixed(extents):
        is_outside = (known_indices < -extents[axis]) | (known_indices >= extents[axis])
        if np.any(is_outside):  # numpy does not check positions of an empty result
            raise NotNative("it has onnx::Gather that cannot be computed")
        return write_move(writer, op, cells)
    index_extents = writer.extents(indices)
    writer.set_extents(op.outputs[0], (*extents[:axis], *index_extents, *extents[axis + 1 :]))
    index_cell = writer.cell(indices, cells)
    if index_cell.is_scalar:
        position = _checked_position(writer, op, index_cell.registers[0], extents[axis])
        return _view_slice(writer, op, cells, axis, position)
    return _gather_slices(writer, op, cells, axis)


def _checked_position(writer: Arrays, op: Op, number: str, extent: Extent) -> str:
    """Write LLVM code that checks an index of `Gather` and makes a negative index nonnegative."""
    assert op.inputs[1] is not None
    sentence = f"position {NUMBER_PLACEHOLDER} does not exist: the axis has positions {NUMBER_PLACEHOLDER} to {NUMBER_PLACEHOLDER}"
    failure = Failure(sentence, op.where, NO_POSITION_HINT)
    return write_position(writer, op.inputs[1].dtype, number, extent, failure)


def _view_slice(
    writer: Arrays, op: Op, cells: Mapping[Value, Cell], axis: int, offset: str
) -> Cell:
    """Return the elements of an array at one index along an axis, without a copy if possible."""
    source = op.inputs[0]
    assert source is not None
    axes = contiguous_axes(writer.extents(source))
    first_element = product(writer.scalar_code, (offset, *axes[axis].step))
    other_axes = [*axes[:axis], *axes[axis + 1 :]]
    return strided_view(
        writer, op.outputs[0], (source, writer.cell(source, cells)), other_axes, first_element
    )


def _gather_slices(writer: Arrays, op: Op, cells: Mapping[Value, Cell], axis: int) -> Cell:
    """Write LLVM code that copies the slices of an array at several computed indices."""
    (source, indices), output, code = op.inputs[:2], op.outputs[0], writer.scalar_code
    assert source is not None
    assert indices is not None
    extents = writer.extents(source)
    source_pointer = writer.pointer_of(source, writer.cell(source, cells))
    index_pointer = writer.pointer_of(indices, writer.cell(indices, cells))
    target = writer.buffer(output)
    index_count = product(code, writer.extents(indices))
    slice_length, block_length = product(code, extents[axis + 1 :]), product(code, extents[axis:])
    slice_bytes = product(code, (slice_length, ITEM_BYTES[output.dtype]))

    def position_of(k: str) -> str:
        index = writer.load(code, indices.dtype, index_pointer, k)
        return _checked_position(writer, op, index, extents[axis])

    def check_position(k: str) -> None:
        position_of(k)

    def copy_block(block: str) -> None:
        source_block = writer.element_address(
            output.dtype, source_pointer, writer.multiply(block, block_length)
        )
        target_block_length = product(code, (index_count, slice_length))
        target_block = writer.element_address(
            output.dtype, target, writer.multiply(block, target_block_length)
        )

        def copy_slice(k: str) -> None:
            source_slice = writer.element_address(
                output.dtype, source_block, writer.multiply(position_of(k), slice_length)
            )
            target_slice = writer.element_address(
                output.dtype, target_block, writer.multiply(k, slice_length)
            )
            writer.copy(target_slice, source_slice, slice_bytes)

        writer.repeat("0", str(index_count), 1, copy_slice)

    block_count = product(code, extents[:axis])
    if not isinstance(block_count, int) or not block_count:  # checks positions even without blocks
        writer.repeat("0", str(index_count), 1, check_position)
    writer.repeat("0", str(block_count), 1, copy_block)
    return writer.as_cell(output, target)
