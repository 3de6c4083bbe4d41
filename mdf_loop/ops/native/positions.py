"""Machine code of ONNX gather and scatter operations with computed indices.

    GatherElements(x, p)[i, j] = x[p[i, j], j]          GatherND(x, p)[i] = x[p[i, 0], p[i, 1], ...]

A position that does not exist ends the run with an error, with the same message as in a standard loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    ArrayCode,
    Cell,
    Code,
    Failure,
    NotNative,
)
from mdf_loop.ops.native.grids import (
    NO_POSITION_HINT,
    advance,
    loop_over_grid,
    strides,
    write_checked_index,
)
from mdf_loop.ops.native.moves import write_move
from mdf_loop.ops.native.products import Combiner, write_multiplication, write_sum
from mdf_loop.ops.registry import qualified_name

Cells = Mapping[Value, Cell]
"""Cells of values in one scope."""
WriteChange = Callable[[str, str], None]
"""Function `change(position, number)` that writes a move between `position` and element `number`."""


def _operands(op: Op) -> tuple[Value, ...]:
    """Return the operands of an operation, except omitted optional operands."""
    return tuple(value for value in op.inputs if value is not None)


def _shape_mismatch(op: Op) -> str:
    """Return the reason not to compile an operation whose operand shapes do not match."""
    return f"it has {qualified_name(op.op_type)} of operands whose shapes do not fit"


def _copy_first_operand(writer: ArrayCode, op: Op, cells: Cells) -> str:
    """Write LLVM code that copies the first operand of a scatter operation to the output."""
    first_operand = _operands(op)[0]
    output_pointer = writer.allocate_buffer(op.outputs[0])
    array_pointer = writer.pointer_of(first_operand, writer.cell(first_operand, cells))
    writer.copy(
        output_pointer,
        array_pointer,
        math.prod(writer.shape(first_operand)) * ITEM_BYTES[first_operand.dtype],
    )
    return output_pointer


# --- along one axis -------------------------------------------------------------------------------


def gather_elements(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `GatherElements`."""
    array, indices = _operands(op)
    if writer.constant_of(indices) is not None:
        return write_move(writer, op, cells)
    array_pointer = writer.pointer_of(array, writer.cell(array, cells))
    output_pointer, scalar_code = writer.allocate_buffer(op.outputs[0]), writer.scalar_code
    position_failure = Failure("a position does not exist", op.where, NO_POSITION_HINT)

    def take(position: str, element_number: str) -> None:
        writer.store(
            scalar_code,
            array.dtype,
            writer.load(scalar_code, array.dtype, array_pointer, position),
            output_pointer,
            element_number,
        )

    _for_positions(writer, op, cells, position_failure, take)
    return writer.as_cell(op.outputs[0], output_pointer)


def scatter_elements(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `ScatterElements`.

    Several updates of one position are reduced, or the last one remains.
    """
    array, indices, updates = _operands(op)
    if writer.shape(updates) != writer.shape(indices):
        raise NotNative(_shape_mismatch(op))
    output_pointer, write_combination = (
        _copy_first_operand(writer, op, cells),
        _select_reduction(op),
    )
    update_pointer = writer.pointer_of(updates, writer.cell(updates, cells))
    axis_extent = writer.shape(array)[op.attributes.get("axis", 0)]
    valid_range = f"the axis has positions {-axis_extent} to {axis_extent - 1}"
    position_failure = Failure(
        f"position {NUMBER_PLACEHOLDER} does not exist: {valid_range}", op.where, NO_POSITION_HINT
    )

    def put(position: str, element_number: str) -> None:
        _update_element(
            writer,
            writer.scalar_code,
            array.dtype,
            (output_pointer, position),
            (update_pointer, element_number),
            write_combination,
        )

    _for_positions(writer, op, cells, position_failure, put)
    return writer.as_cell(op.outputs[0], output_pointer)


def _for_positions(
    writer: ArrayCode, op: Op, cells: Cells, failure: Failure, change: WriteChange
) -> None:
    """Write LLVM loops over the indices of GatherElements or ScatterElements.

    `change` writes the move of one element.
    """
    array, indices = _operands(op)[:2]
    array_shape, grid_shape = writer.shape(array), writer.shape(indices)
    if len(grid_shape) != len(array_shape):
        raise NotNative(_shape_mismatch(op))
    position_axis = op.attributes.get("axis", 0) % len(array_shape)
    index_pointer = writer.pointer_of(indices, writer.cell(indices, cells))
    axis_stride = strides(array_shape)[position_axis]
    other_strides = [
        0 if k == position_axis else stride for k, stride in enumerate(strides(array_shape))
    ]

    def one(offsets: list[str]) -> None:
        element_number, offset = offsets
        index_register = writer.load(
            writer.scalar_code, indices.dtype, index_pointer, element_number
        )
        position = write_checked_index(
            writer, indices.dtype, index_register, array_shape[position_axis], failure
        )
        change(advance(writer, offset, position, axis_stride), element_number)

    loop_over_grid(writer, grid_shape, [strides(grid_shape), other_strides], one)


# --- along several axes ---------------------------------------------------------------------------


def gather_nd(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `GatherND`."""
    array, indices = _operands(op)
    if writer.constant_of(indices) is not None:
        return write_move(writer, op, cells)
    array_pointer = writer.pointer_of(array, writer.cell(array, cells))
    output_pointer, scalar_code = writer.allocate_buffer(op.outputs[0]), writer.scalar_code
    slice_size = _slice_size(writer, op)

    def take(source_index: str, slice_number: str) -> None:
        target_index = writer.multiply(slice_number, slice_size)
        if slice_size == 1:
            element = writer.load(scalar_code, array.dtype, array_pointer, source_index)
            writer.store(scalar_code, array.dtype, element, output_pointer, target_index)
            return
        target_address, source_address = (
            writer.element_address(array.dtype, output_pointer, target_index),
            writer.element_address(array.dtype, array_pointer, source_index),
        )
        writer.copy(target_address, source_address, slice_size * ITEM_BYTES[array.dtype])

    _for_position_rows(writer, op, cells, take)
    return writer.as_cell(op.outputs[0], output_pointer)


def scatter_nd(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `ScatterND`.

    Several updates of one position are reduced, or the last one remains.
    """
    array, indices, updates = _operands(op)
    (*grid_shape, position_count), array_extents = writer.shape(indices), writer.shape(array)
    if writer.shape(updates) != (*grid_shape, *array_extents[position_count:]):
        raise NotNative(_shape_mismatch(op))
    output_pointer, write_combination = (
        _copy_first_operand(writer, op, cells),
        _select_reduction(op),
    )
    update_pointer = writer.pointer_of(updates, writer.cell(updates, cells))
    slice_size = _slice_size(writer, op)

    def put(slice_start: str, slice_number: str) -> None:
        update_start = writer.multiply(slice_number, slice_size)

        def one(code: Code, k: str) -> None:
            element_index, update_index = (
                writer.scalar_code.emit(f"add i64 {start}, {k}")
                for start in (slice_start, update_start)
            )
            _update_element(
                writer,
                code,
                array.dtype,
                (output_pointer, element_index),
                (update_pointer, update_index),
                write_combination,
            )

        writer.for_each_element(slice_size, one)

    _for_position_rows(writer, op, cells, put)
    return writer.as_cell(op.outputs[0], output_pointer)


def _slice_size(writer: ArrayCode, op: Op) -> int:
    """Return the number of elements that one index tuple of GatherND or ScatterND selects."""
    array, indices = _operands(op)[:2]
    indexed_axis_count = op.attributes.get("batch_dims", 0) + writer.shape(indices)[-1]
    return math.prod(writer.shape(array)[indexed_axis_count:])


def _for_position_rows(writer: ArrayCode, op: Op, cells: Cells, change: WriteChange) -> None:
    """Write LLVM loops over the index tuples of GatherND or ScatterND.

    `change` writes the move for one index tuple.
    """
    array, indices = _operands(op)[:2]
    array_shape, (*grid_shape, position_count) = writer.shape(array), writer.shape(indices)
    batch_axis_count = op.attributes.get("batch_dims", 0)
    index_pointer = writer.pointer_of(indices, writer.cell(indices, cells))
    position_failure = Failure(
        f"position {NUMBER_PLACEHOLDER} does not exist", op.where, NO_POSITION_HINT
    )
    array_strides = strides(array_shape)
    batch_strides = [
        stride if k < batch_axis_count else 0
        for k, stride in enumerate(array_strides[: len(grid_shape)])
    ]
    batch_strides += [0] * (len(grid_shape) - len(batch_strides))

    def one(offsets: list[str]) -> None:
        row_number, offset = offsets
        for k in range(position_count):
            index_offset = advance(writer, str(k), row_number, position_count)
            index_register = writer.load(
                writer.scalar_code, indices.dtype, index_pointer, index_offset
            )
            position = write_checked_index(
                writer,
                indices.dtype,
                index_register,
                array_shape[batch_axis_count + k],
                position_failure,
            )
            offset = advance(writer, offset, position, array_strides[batch_axis_count + k])
        change(offset, row_number)

    loop_over_grid(writer, grid_shape, [strides(grid_shape), batch_strides], one)


# --- several updates of one position --------------------------------------------------------------


def _select_reduction(op: Op) -> Combiner | None:
    """Return the function that combines old and new elements of a scatter, or None."""
    reduction_name = op.attributes.get("reduction", "none")
    if reduction_name == "none":
        return None
    if op.outputs[0].dtype == "bool" or reduction_name not in _WRITER_BY_REDUCTION:
        raise NotNative(f"it has {qualified_name(op.op_type)} with reduction {reduction_name}")
    return _WRITER_BY_REDUCTION[reduction_name]


def _update_element(
    writer: ArrayCode,
    code: Code,
    dtype: str,
    target: tuple[str, str],
    source: tuple[str, str],
    combine: Combiner | None,
) -> None:
    """Write LLVM code that updates an array element, as in a scatter operation.

    Source and target are a pointer with an index each.
    """
    new_element = writer.load(code, dtype, *source)
    updated_element = (
        new_element
        if combine is None
        else combine(code, dtype, writer.load(code, dtype, *target), new_element)
    )
    writer.store(code, dtype, updated_element, *target)


def _larger(code: Code, dtype: str, old: str, new: str) -> str:
    """Write LLVM code of the larger of two numbers, which is `new` if either number is nan."""
    return code.select(code.less(dtype, new, old), dtype, old, new)


def _smaller(code: Code, dtype: str, old: str, new: str) -> str:
    """Write LLVM code of the smaller of two numbers, which is `new` if either number is nan."""
    return code.select(code.less(dtype, old, new), dtype, old, new)


_WRITER_BY_REDUCTION: Mapping[str, Combiner] = {
    **{"add": write_sum, "mul": write_multiplication},
    **{"max": _larger, "min": _smaller},
}
