"""Small integer arrays, such as shapes, whose elements are kept in registers.

shape = Concat(Shape(x)[:1], [5])     ("%n", "5")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import ArrayCode, Cell, Extent, Extents, literal
from mdf_loop.ops.native.moves import ZERO_POSITION, element_positions, has_known_positions

MAX_SMALL_ARRAY_ELEMENTS = 16
"""Maximum number of elements of a small array."""


def cell_of(value: Value, numbers: Sequence[Extent]) -> Cell:
    """Return a `Cell` with one register or number for each element of a small integer array."""
    return Cell(tuple(map(str, numbers)), is_scalar=len(numbers) == 1)


def compute_in_registers(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell | None:
    """Emit an operation on small integer arrays in registers; return None for other arrays."""
    operation_row, op_output = row_of(op.op_type), op.outputs[0]
    operands = [value for value in op.inputs if value is not None]
    is_elementwise = operation_row.is_elementwise and operation_row.native_code is not None
    is_data_movement = (
        operation_row.moved_operands is not None or operation_row.keeps_order
    ) and has_known_positions(op, writer.constant_of)
    if (
        op_output.dtype != "int64"
        or not is_fixed(op_output.shape)
        or not (is_elementwise or is_data_movement)
    ):
        return None
    register_arrays = {}
    for value in operands:
        registers = _registers(writer, value, cells)
        if registers is None:
            return None
        register_arrays[value] = np.array(registers, object).reshape(writer.shape(value))
    if is_elementwise:
        assert operation_row.native_code is not None
        broadcast_arrays = np.broadcast_arrays(*(register_arrays[value] for value in operands))
        operand_tuples = zip(*(np.ravel(array) for array in broadcast_arrays), strict=True)
        return cell_of(
            op_output,
            [
                operation_row.native_code(writer.scalar_code, op, *operand_registers)
                for operand_registers in operand_tuples
            ],
        )
    moved_operands, positions = element_positions(writer, op)
    flat_registers = [
        register for operand in moved_operands for register in register_arrays[operand].reshape(-1)
    ]
    return cell_of(
        op_output,
        ["0" if position == ZERO_POSITION else flat_registers[position] for position in positions],
    )


def load_elements(writer: ArrayCode, value: Value, cells: Mapping[Value, Cell]) -> Extents | None:
    """Return the elements of a small integer array, or None for any other array.

    The elements are loaded from memory if necessary.
    """
    registers = _registers(writer, value, cells)
    if registers is None:
        array_extents = writer.extents(value)
        if (
            value.dtype != "int64"
            or not is_fixed(array_extents)
            or math.prod(array_extents) > MAX_SMALL_ARRAY_ELEMENTS
        ):
            return None
        array_pointer = writer.cell(value, cells).pointer
        index_literals = map(str, range(math.prod(array_extents)))
        registers = tuple(
            writer.load(writer.scalar_code, "int64", array_pointer, index)
            for index in index_literals
        )
    return tuple(register if register.startswith("%") else int(register) for register in registers)


def _registers(
    writer: ArrayCode, value: Value, cells: Mapping[Value, Cell]
) -> tuple[str, ...] | None:
    """Return the registers of a small integer array, or None if it is only in memory."""
    constant_array = writer.constant_of(value)
    if (
        constant_array is not None
        and constant_array.size <= MAX_SMALL_ARRAY_ELEMENTS
        and value.dtype in ("int64", "int32", "bool")
    ):
        return tuple(literal(number, value.dtype) for number in np.ravel(constant_array))
    value_cell = cells.get(value)
    if value_cell is None or not value_cell.registers or not is_fixed(writer.extents(value)):
        return None
    element_count = math.prod(writer.shape(value))
    if element_count > MAX_SMALL_ARRAY_ELEMENTS:
        return None
    return value_cell.registers * element_count if value_cell.is_scalar else value_cell.registers
