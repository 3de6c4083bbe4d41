"""Machine code of `ConstantOfShape` and `Range`, which create arrays from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import Arrays, Cell, Code, Extents, NotNative
from mdf_loop.ops.native.extents import (
    add_extents,
    product,
    quotient,
    subtract_extents,
    write_larger_extent,
)
from mdf_loop.ops.registry import qualified_name

Cells = Mapping[Value, Cell]


def fill_constant(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `ConstantOfShape`.

    Raises:
        NotNative: The shape is computed, and may contain negative numbers.
    """
    array, extents = op.outputs[0], _load_elements(writer, op, 0, cells)
    if not all(map(writer.is_extent, extents)):
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    fill_number = np.ravel(op.attributes.get("value", 0.0))[0]
    writer.set_extents(array, extents)
    target = writer.buffer(array)

    def fill(code: Code, k: str) -> None:
        writer.store(code, array.dtype, code.constant(fill_number, array.dtype), target, k)

    writer.for_each_element(product(writer.scalar_code, extents), fill)
    return writer.as_cell(array, target)


def write_range(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Range` of int64.

    Raises:
        NotNative: The dtype is not int64, or the step is computed.
    """
    array, code = op.outputs[0], writer.scalar_code
    if array.dtype != "int64":
        raise NotNative(f"it has {qualified_name(op.op_type)} of {array.dtype}")
    ((start,), (end,), (step,)) = (_load_elements(writer, op, k, cells) for k in range(3))
    if isinstance(step, str) or step == 0:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    distance = (
        subtract_extents(code, end, start) if step > 0 else subtract_extents(code, start, end)
    )
    step_count = quotient(code, add_extents(code, distance, abs(step) - 1), abs(step))
    element_count = write_larger_extent(code, step_count, 0)
    writer.set_extents(array, (element_count,))
    target = writer.buffer(array)

    def write_number(k: str) -> None:
        element = code.emit(f"add i64 {writer.multiply(k, step)}, {start}")
        writer.store(code, "int64", element, target, k)

    writer.repeat("0", str(element_count), 1, write_number)
    return writer.as_cell(array, target)


def _load_elements(writer: Arrays, op: Op, position: int, cells: Cells) -> Extents:
    """Return the elements of a small integer operand, as numbers or registers."""
    operand = op.inputs[position]
    assert operand is not None
    elements = writer.small_integers(operand, cells)
    if elements is None:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    return elements
