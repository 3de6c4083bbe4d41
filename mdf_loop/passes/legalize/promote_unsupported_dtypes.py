"""Promotion of operations without a kernel to a wider dtype, with a cast back to their dtype.

    y: int16[n] = Max(a, b)   ->   y = Cast(Max(Cast(a), Cast(b)))      in int32

Preserves: the values of ONNX's definition. Integers wrap as in NumPy, and floats are rounded once.
If no dtype has a kernel for constant operands, NumPy computes the result.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ir.types import onnx_type_text
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.registry import Reproducibility, qualified_name, row_of
from mdf_loop.passes.legalize.constant_fallback import build_or_evaluate
from mdf_loop.passes.legalize.kernel_needed import (
    is_decomposed,
    lacks_kernel,
    main_dtype,
    main_inputs,
)
from mdf_loop.passes.rewrite import rewrite

_WIDER_DTYPES = {
    "bool": ("uint8", "int32", "int64"),
    "int8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint8": ("int32", "int64", "uint32", "uint64"),
    "uint16": ("int32", "int64", "uint32", "uint64"),
    "uint32": ("int64", "uint64"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
}
"""Wider dtypes that represent all values of a dtype. Results that are cast back wrap as in NumPy."""


def promote_unsupported_dtypes(program: Program) -> Program:
    """Compute in a wider dtype all operations that have neither a kernel nor a decomposition.

    Raises:
        UnsupportedError: No wider dtype has a kernel. The message names the operation, its dtype and place.
    """
    return rewrite(program, _promote_op)


def _promote_op(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    if is_decomposed(op) or not lacks_kernel(op):
        return None
    return build_or_evaluate(b, op, _compute_wider)


def _compute_wider(b: Builder, op: Op) -> tuple[Value, ...]:
    """Append an operation in a wider dtype that has a kernel, and casts of its results.

    bfloat16 is promoted only for operations that round at most once. float32 has more than twice as many
    digits, so rounding its result again changes nothing. Only below 2**-126, where float32 has fewer digits,
    the result may be rounded twice, as in the reference implementation of onnx.

    Source: Figueroa, When is double rounding innocuous? (1995): p digits of 2p + 2 or more.
    """
    if (
        main_dtype(op) == "bfloat16"
        and row_of(op.op_type).reproducibility is Reproducibility.RUNTIME_DEPENDENT
    ):
        raise _rounded_twice_error(op)
    wide_dtype = next(
        (dtype for dtype in _wider_dtypes(op) if _is_supported(_with_main_dtype(op, dtype))), None
    )
    if wide_dtype is None:
        raise _no_kernel_error(op)
    dtype_input_positions = set(main_inputs(op))
    wide_inputs = [
        cast(b, value, wide_dtype) if value is not None and k in dtype_input_positions else value
        for k, value in enumerate(op.inputs)
    ]
    wide_outputs = b.multi(op.op_type, *wide_inputs, output_count=len(op.outputs), **op.attributes)
    output_pairs = zip(wide_outputs, op.outputs, strict=True)
    return tuple(
        cast(b, wide_output, original_output.dtype) for wide_output, original_output in output_pairs
    )


def _wider_dtypes(op: Op) -> tuple[str, ...]:
    registry_row = row_of(op.op_type)
    if registry_row.needs_narrow_dtype:
        return ()
    if main_dtype(op) == "uint64":
        return ("int64",) if registry_row.treats_uint64_as_int64 else ()
    return _WIDER_DTYPES.get(main_dtype(op), ())


def _with_main_dtype(op: Op, dtype: str) -> Op | None:
    """Return an operation retyped to compute in `dtype`, or None if ONNX forbids the dtype."""
    op_schema = onnx_schema.schema_of(op)
    dtype_input_positions = set(main_inputs(op))
    main_parameter = op_schema.inputs[min(dtype_input_positions)]
    if onnx_type_text(dtype) not in main_parameter.types:
        return None
    converted_inputs = tuple(
        replace(value, dtype=dtype) if value is not None and k in dtype_input_positions else value
        for k, value in enumerate(op.inputs)
    )
    last_output_index = len(op_schema.outputs) - 1
    converted_outputs = tuple(
        replace(value, dtype=dtype)
        if op_schema.outputs[min(k, last_output_index)].type_str == main_parameter.type_str
        else value
        for k, value in enumerate(op.outputs)
    )
    return replace(op, inputs=converted_inputs, outputs=converted_outputs)


def _is_supported(op: Op | None) -> bool:
    return op is not None and (row_of(op.op_type).decomposition is not None or has_kernel(op))


def _rounded_twice_error(op: Op) -> UnsupportedError:
    return UnsupportedError(
        f"{qualified_name(op.op_type)} of bfloat16 has no kernel, and would be rounded differently in float32",
        op.where,
        "cast to float32 before it, and back after it",
    )


def _no_kernel_error(op: Op) -> UnsupportedError:
    dtype = main_dtype(op)
    undecomposed_reason = row_of(op.op_type).undecomposed_reason
    error_sentence = f"ONNX Runtime has no {dtype} kernel for {qualified_name(op.op_type)}"
    error_hint = "use precision='float32'" if dtype == "float64" else "use another dtype"
    return UnsupportedError(
        f"{error_sentence}: {undecomposed_reason}" if undecomposed_reason else error_sentence,
        op.where,
        error_hint,
    )
