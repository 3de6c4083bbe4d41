"""Machine code of `ConstantOfShape` and `Range`, which create arrays from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import ArrayCode, Cell, Code, Extents, NotNative
from mdf_loop.ops.native.extents import (
    add_extents,
    product,
    quotient,
    subtract_extents,
    write_larger_extent,
)
from mdf_loop.ops.registry import qualified_name

Cells = Mapping[Value, Cell]


def fill_constant(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `ConstantOfShape`.

    Raises:
        NotNative: The shape is computed, and may contain negative numbers.
    """
    filled_array, array_extents = op.outputs[0], _load_elements(writer, op, 0, cells)
    if not all(map(writer.is_extent, array_extents)):
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    fill_number = np.ravel(op.attributes.get("value", 0.0))[0]
    writer.set_extents(filled_array, array_extents)
    output_pointer = writer.allocate_buffer(filled_array)

    def fill(code: Code, k: str) -> None:
        writer.store(
            code,
            filled_array.dtype,
            code.constant(fill_number, filled_array.dtype),
            output_pointer,
            k,
        )

    writer.for_each_element(product(writer.scalar_code, array_extents), fill)
    return writer.as_cell(filled_array, output_pointer)


def write_range(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Range` of int64.

    Raises:
        NotNative: The dtype is not int64, or the step is computed.
    """
    range_array, scalar_code = op.outputs[0], writer.scalar_code
    if range_array.dtype != "int64":
        raise NotNative(f"it has {qualified_name(op.op_type)} of {range_array.dtype}")
    ((range_start,), (range_end,), (range_step,)) = (
        _load_elements(writer, op, k, cells) for k in range(3)
    )
    if isinstance(range_step, str) or range_step == 0:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    range_distance = (
        subtract_extents(scalar_code, range_end, range_start)
        if range_step > 0
        else subtract_extents(scalar_code, range_start, range_end)
    )
    step_count = quotient(
        scalar_code, add_extents(scalar_code, range_distance, abs(range_step) - 1), abs(range_step)
    )
    element_count = write_larger_extent(scalar_code, step_count, 0)
    writer.set_extents(range_array, (element_count,))
    output_pointer = writer.allocate_buffer(range_array)

    def write_number(k: str) -> None:
        range_element = scalar_code.emit(f"add i64 {writer.multiply(k, range_step)}, {range_start}")
        writer.store(scalar_code, "int64", range_element, output_pointer, k)

    writer.repeat("0", str(element_count), 1, write_number)
    return writer.as_cell(range_array, output_pointer)


def _load_elements(writer: ArrayCode, op: Op, position: int, cells: Cells) -> Extents:
    """Return the elements of a small integer operand, as numbers or registers."""
    operand = op.inputs[position]
    assert operand is not None
    operand_elements = writer.small_integers(operand, cells)
    if operand_elements is None:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    return operand_elements
