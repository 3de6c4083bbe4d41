"""Machine code of `Gather`, which selects elements by their indices along one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    ArrayCode,
    Cell,
    Extent,
    Failure,
    NotNative,
)
from mdf_loop.ops.native.extents import product
from mdf_loop.ops.native.grids import NO_POSITION_HINT, write_checked_index
from mdf_loop.ops.native.moves import write_move
from mdf_loop.ops.native.views import contiguous_axes, strided_view


def gather(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write LLVM code of ONNX's `Gather`, for constant or computed indices."""
    gathered_array, index_array = op.inputs[0], op.inputs[1]
    assert gathered_array is not None
    assert index_array is not None
    array_extents = writer.extents(gathered_array)
    known_indices, gather_axis = (
        writer.constant_of(index_array),
        op.attributes.get("axis", 0) % len(array_extents),
    )
    if known_indices is not None and is_fixed(array_extents):
        is_outside = (known_indices < -array_extents[gather_axis]) | (
            known_indices >= array_extents[gather_axis]
        )
        if np.any(is_outside):  # numpy does not check positions of an empty result
            raise NotNative("it has onnx::Gather that cannot be computed")
        return write_move(writer, op, cells)
    index_extents = writer.extents(index_array)
    writer.set_extents(
        op.outputs[0],
        (*array_extents[:gather_axis], *index_extents, *array_extents[gather_axis + 1 :]),
    )
    index_cell = writer.cell(index_array, cells)
    if index_cell.is_scalar:
        checked_position = _checked_position(
            writer, op, index_cell.registers[0], array_extents[gather_axis]
        )
        return _view_slice(writer, op, cells, gather_axis, checked_position)
    return _gather_slices(writer, op, cells, gather_axis)


def _checked_position(writer: ArrayCode, op: Op, number: str, extent: Extent) -> str:
    """Write LLVM code that checks an index of `Gather` and makes a negative index nonnegative."""
    assert op.inputs[1] is not None
    error_sentence = f"position {NUMBER_PLACEHOLDER} does not exist: the axis has positions {NUMBER_PLACEHOLDER} to {NUMBER_PLACEHOLDER}"
    position_failure = Failure(error_sentence, op.where, NO_POSITION_HINT)
    return write_checked_index(writer, op.inputs[1].dtype, number, extent, position_failure)


def _view_slice(
    writer: ArrayCode, op: Op, cells: Mapping[Value, Cell], axis: int, offset: str
) -> Cell:
    """Return the elements of an array at one index along an axis, without a copy if possible."""
    gathered_array = op.inputs[0]
    assert gathered_array is not None
    source_axes = contiguous_axes(writer.extents(gathered_array))
    first_element = product(writer.scalar_code, (offset, *source_axes[axis].stride))
    other_axes = [*source_axes[:axis], *source_axes[axis + 1 :]]
    return strided_view(
        writer,
        op.outputs[0],
        (gathered_array, writer.cell(gathered_array, cells)),
        other_axes,
        first_element,
    )


def _gather_slices(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell], axis: int) -> Cell:
    """Write LLVM code that copies the slices of an array at several computed indices."""
    (gathered_array, index_array), output, scalar_code = (
        op.inputs[:2],
        op.outputs[0],
        writer.scalar_code,
    )
    assert gathered_array is not None
    assert index_array is not None
    array_extents = writer.extents(gathered_array)
    source_pointer = writer.pointer_of(gathered_array, writer.cell(gathered_array, cells))
    index_pointer = writer.pointer_of(index_array, writer.cell(index_array, cells))
    output_pointer = writer.allocate_buffer(output)
    index_count = product(scalar_code, writer.extents(index_array))
    slice_length, block_length = (
        product(scalar_code, array_extents[axis + 1 :]),
        product(scalar_code, array_extents[axis:]),
    )
    slice_bytes = product(scalar_code, (slice_length, ITEM_BYTES[output.dtype]))

    def position_of(k: str) -> str:
        index = writer.load(scalar_code, index_array.dtype, index_pointer, k)
        return _checked_position(writer, op, index, array_extents[axis])

    def check_position(k: str) -> None:
        position_of(k)

    def copy_block(block: str) -> None:
        source_block_address = writer.element_address(
            output.dtype, source_pointer, writer.multiply(block, block_length)
        )
        target_block_length = product(scalar_code, (index_count, slice_length))
        target_block_address = writer.element_address(
            output.dtype, output_pointer, writer.multiply(block, target_block_length)
        )

        def copy_slice(k: str) -> None:
            source_slice_address = writer.element_address(
                output.dtype, source_block_address, writer.multiply(position_of(k), slice_length)
            )
            target_slice_address = writer.element_address(
                output.dtype, target_block_address, writer.multiply(k, slice_length)
            )
            writer.copy(target_slice_address, source_slice_address, slice_bytes)

        writer.repeat("0", str(index_count), 1, copy_slice)

    block_count = product(scalar_code, array_extents[:axis])
    if not isinstance(block_count, int) or not block_count:  # checks positions even without blocks
        writer.repeat("0", str(index_count), 1, check_position)
    writer.repeat("0", str(block_count), 1, copy_block)
    return writer.as_cell(output, output_pointer)
