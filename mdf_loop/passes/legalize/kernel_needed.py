"""Tests whether ONNX Runtime has a kernel for an operation, in the operation's dtype."""

from __future__ import annotations

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.registry import row_of

_HALF_DTYPES = ("float16", "bfloat16")
"""Dtypes that are too coarse for decompositions.

Operations without a kernel compute in a wider dtype instead.
"""


def lacks_kernel(op: Op) -> bool:
    """Return True if ONNX Runtime has no kernel, or no exact kernel, for an operation."""
    return not (_is_exact(op) and has_kernel(op))


def is_decomposed(op: Op) -> bool:
    """Return True if an operation without a kernel has a decomposition in the same dtype."""
    operation_row = row_of(op.op_type)
    return (
        operation_row.decomposition is not None
        and main_dtype(op) not in _HALF_DTYPES
        and operation_row.can_decompose(op)
    )


def _is_exact(op: Op) -> bool:
    """Return True if ONNX can store the numeric attributes of an operation without rounding."""
    if row_of(op.op_type).decomposition is None or main_dtype(op) != "float64":
        return True
    return onnx_schema.are_exact_in_float32(op.op_type, op.attributes)


def main_dtype(op: Op) -> str:
    """Return the dtype in which an operation computes, such as the summands' dtype of an Add.

    It is the dtype of the inputs that `main_inputs` returns.
    """
    dtype_input_positions = main_inputs(op)
    dtype_determining_values = [op.inputs[k] for k in dtype_input_positions] or list(op.outputs)
    return next(
        (value.dtype for value in dtype_determining_values if value is not None),
        op.outputs[0].dtype,
    )


def main_inputs(op: Op) -> list[int]:
    """Return the positions of the inputs that determine the dtype of an operation's result.

    They have the type variable of the output in ONNX's schema, or else the type variable of the first input.
    """
    op_schema = onnx_schema.schema_of(op)
    if not op_schema.inputs:
        return []
    last_parameter_index = len(op_schema.inputs) - 1
    type_variables = [
        op_schema.inputs[min(k, last_parameter_index)].type_str for k in range(len(op.inputs))
    ]
    output_type = op_schema.outputs[0].type_str
    result_type_variable = output_type if output_type in type_variables else type_variables[0]
    return [
        k
        for k, type_variable in enumerate(type_variables)
        if type_variable == result_type_variable and op.inputs[k] is not None
    ]
