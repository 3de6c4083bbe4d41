"""Machine code of mathematical functions that are computed by their decompositions.

    Tan(x: float32)   ->   float32(tan(float64(x))), by the operations that `decompositions.elementary.tan` appends

For the runtime, `passes.legalize.decompose` decomposes the functions of float64. The runtime has kernels for
functions of float32. Machine code computes functions of float32 in float64 and rounds once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Op, Value
from mdf_loop.ir.types import dtype_name
from mdf_loop.ops.inference import infer
from mdf_loop.ops.native.code import Code, NotNative
from mdf_loop.ops.native.conversions import convert
from mdf_loop.ops.onnx_schema import exact_float_attributes
from mdf_loop.ops.registry import row_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def write_decomposition(code: Code, op: Op, *registers: str) -> str:
    """Write LLVM code that computes an operation on floats by its decomposition.

    Raises:
        NotNative: There is no decomposition for the attributes of the operation.
    """
    decompose, operation_writer = row_of(op.op_type).decomposition, _OperationWriter(code)
    assert decompose is not None
    operand_registers = zip(
        (operand for operand in op.inputs if operand is not None), registers, strict=True
    )
    float64_operands = tuple(
        operation_writer.value(convert(code, operand.dtype, register, "float64"), "float64")
        for operand, register in operand_registers
    )
    rounded_attributes = {
        name: float(np.float32(number))
        for name, number in exact_float_attributes(op.op_type, op.attributes)
    }
    float64_op = replace(
        op, inputs=float64_operands, attributes={**op.attributes, **rounded_attributes}
    )
    try:
        replacement = decompose(cast("Builder", operation_writer), float64_op)
    except UnsupportedError as error:
        raise NotNative(error.findings[0].what) from None
    assert isinstance(replacement, Value)
    return convert(code, "float64", operation_writer.registers[replacement], op.outputs[0].dtype)


class _OperationWriter(Struct, frozen=True):
    """Builder that writes each operation of a decomposition as LLVM code.

    Attributes:
        code: Writer of instructions.
        registers: Register of each value.
    """

    code: Code
    registers: dict[Value, str] = field(default_factory=dict)

    def value(self, register: str, dtype: str) -> Value:
        """Return a scalar program value that represents a register."""
        scalar_value = Value(register, dtype, ())
        self.registers[scalar_value] = register
        return scalar_value

    def constant(self, array: Any) -> Value:
        """Return a constant scalar as a program value."""
        scalar_array: Array = np.asarray(array)
        dtype = dtype_name(scalar_array)
        return self.value(self.code.constant(scalar_array.item(), dtype), dtype)

    def op(self, op_type: str, *inputs: Value, **attributes: Any) -> Value:
        """Write LLVM code of an operation, and return its output."""
        write_code = row_of(op_type).native_code
        assert write_code is not None, f"{op_type} has no machine code"
        operand_types = [(value.dtype, value.shape) for value in inputs]
        ((output_dtype, output_shape),) = infer(op_type, operand_types, attributes, {}, 1)
        op = Op(op_type, inputs, (Value(op_type, output_dtype, output_shape),), attributes)
        operand_registers = (self.registers[value] for value in inputs)
        return self.value(write_code(self.code, op, *operand_registers), output_dtype)

    def constant_of(self, value: Value) -> None:
        """Return None, so that decompositions fold no value as a constant."""
