"""Whether an operation can stay as it is, must be composed of others, or needs a wider dtype."""

from __future__ import annotations

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.registry import row_of

_HALF = ("float16", "bfloat16")
"""Dtypes too coarse for compositions: always widened."""


def lacks_kernel(op: Op) -> bool:
    """Whether ONNX Runtime has no kernel for an operation, or none that is exact."""
    return not (_is_exact(op) and has_kernel(op))


def is_decomposed(op: Op) -> bool:
    """Whether an operation without a kernel is made of others, in its own dtype."""
    row = row_of(op.op_type)
    return row.composed is not None and main_dtype(op) not in _HALF and row.composes(op)


def _is_exact(op: Op) -> bool:
    """Whether an ONNX file can hold the numbers among the attributes as the model has them."""
    if row_of(op.op_type).composed is None or main_dtype(op) != "float64":
        return True
    return onnx_schema.fits_a_file(op.op_type, op.attributes)


def main_dtype(op: Op) -> str:
    """The dtype an operation computes in: that of the inputs of its main type variable."""
    places = main_inputs(op)
    values = [op.inputs[k] for k in places] or list(op.outputs)
    return next((value.dtype for value in values if value is not None), op.outputs[0].dtype)


def main_inputs(op: Op) -> list[int]:
    """Which inputs have the operator's main type: its output's, or its first input's."""
    schema = onnx_schema.schema_of(op)
    if not schema.inputs:
        return []
    last = len(schema.inputs) - 1
    groups = [schema.inputs[min(k, last)].type_str for k in range(len(op.inputs))]
    wanted = schema.outputs[0].type_str
    main = wanted if wanted in groups else groups[0]
    return [k for k, group in enumerate(groups) if group == main and op.inputs[k] is not None]
