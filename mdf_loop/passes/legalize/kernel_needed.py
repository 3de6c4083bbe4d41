"""Decide whether an operation can stay, must be decomposed, or needs a wider dtype."""

from __future__ import annotations

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.registry import row_of

_HALF = ("float16", "bfloat16")
"""Dtypes too coarse for decompositions. Operations on them always compute in a wider dtype."""


def lacks_kernel(op: Op) -> bool:
    """Return True if ONNX Runtime has no kernel for an operation, or no exact one."""
    return not (_is_exact(op) and has_kernel(op))


def is_decomposed(op: Op) -> bool:
    """Return True if an operation without a kernel is decomposed in its own dtype."""
    row = row_of(op.op_type)
    return row.decomposition is not None and main_dtype(op) not in _HALF and row.can_decompose(op)


def _is_exact(op: Op) -> bool:
    """Return True if an ONNX file can hold the numbers among the attributes without rounding."""
    if row_of(op.op_type).decomposition is None or main_dtype(op) != "float64":
        return True
    return onnx_schema.fits_a_file(op.op_type, op.attributes)


def main_dtype(op: Op) -> str:
    """Return the dtype in which an operation computes: that of the inputs of its main type variable."""
    places = main_inputs(op)
    values = [op.inputs[k] for k in places] or list(op.outputs)
    return next((value.dtype for value in values if value is not None), op.outputs[0].dtype)


def main_inputs(op: Op) -> list[int]:
    """Return the positions of the inputs that have the main type variable of the output, or else of the first input."""
    schema = onnx_schema.schema_of(op)
    if not schema.inputs:
        return []
    last = len(schema.inputs) - 1
    groups = [schema.inputs[min(k, last)].type_str for k in range(len(op.inputs))]
    output_type = schema.outputs[0].type_str
    main = output_type if output_type in groups else groups[0]
    return [k for k, group in enumerate(groups) if group == main and op.inputs[k] is not None]
