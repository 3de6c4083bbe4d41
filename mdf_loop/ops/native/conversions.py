"""Machine code of conversions between dtypes, which return the same results as ONNX Runtime."""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import Op
from mdf_loop.ops.native.arithmetic import operand_dtype
from mdf_loop.ops.native.code import REGISTER_TYPES, Code, is_float, is_signed


def cast(code: Code, op: Op, x: str, *_: str) -> str:
    """Write LLVM code of ONNX's `Cast`."""
    return convert(code, operand_dtype(op), x, op.outputs[0].dtype)


def convert(code: Code, source_dtype: str, x: str, target_dtype: str) -> str:
    """Write LLVM code that converts a register to another dtype.

    A float is rounded towards zero if the target is an integer. An integer in a smaller dtype keeps its last
    bits.
    """
    if source_dtype == target_dtype:
        return x
    if target_dtype == "bool":
        if is_float(source_dtype):
            return code.compare("une", source_dtype, x, code.constant(0, source_dtype))
        return code.compare("ne", source_dtype, x, code.constant(0, source_dtype))
    if is_float(source_dtype):
        if is_float(target_dtype):
            return code.cast(
                "fpext" if target_dtype == "float64" else "fptrunc", source_dtype, x, target_dtype
            )
        return _truncate(code, source_dtype, x, target_dtype)
    if is_float(target_dtype):
        return code.cast(
            "sitofp" if is_signed(source_dtype) else "uitofp", source_dtype, x, target_dtype
        )
    source_bits, target_bits = _BITS_BY_DTYPE[source_dtype], _BITS_BY_DTYPE[target_dtype]
    if source_bits == target_bits:
        return x
    extension_instruction = "sext" if is_signed(source_dtype) else "zext"
    instruction = extension_instruction if source_bits < target_bits else "trunc"
    return code.cast(instruction, source_dtype, x, target_dtype)


_BITS_BY_DTYPE = {
    dtype: int(llvm_type[1:]) for dtype, llvm_type in REGISTER_TYPES.items() if not is_float(dtype)
}
"""Number of bits of each integer dtype."""


def _truncate(code: Code, source_dtype: str, x: str, target_dtype: str) -> str:
    """Write LLVM code that converts a float to an integer, rounded towards zero.

    The result equals that of the instruction that the runtime's kernels use. The instruction computes int64
    or int32, and returns the smallest integer for numbers that do not fit. Smaller dtypes keep the last bits.
    For uint64, numbers from 2**63 on are reduced by 2**63 before the conversion and raised after it.
    """
    if target_dtype in ("int64", "int32"):
        return _truncate_to_signed(code, source_dtype, x, target_dtype)
    if target_dtype != "uint64":
        integer_dtype = "int64" if target_dtype == "uint32" else "int32"
        return convert(
            code,
            integer_dtype,
            _truncate_to_signed(code, source_dtype, x, integer_dtype),
            target_dtype,
        )
    half_range, top_bit = code.constant(2.0**63, source_dtype), code.constant(-(2**63), "int64")
    is_large = code.compare("oge", source_dtype, x, half_range)
    reduced_x = code.select(
        is_large, source_dtype, code.binary("fsub", source_dtype, x, half_range), x
    )
    converted_integer = _truncate_to_signed(code, source_dtype, reduced_x, "int64")
    return code.select(
        is_large,
        "int64",
        code.binary("xor", "int64", converted_integer, top_bit),
        converted_integer,
    )


def _truncate_to_signed(code: Code, source_dtype: str, x: str, target_dtype: str) -> str:
    """Write LLVM code that converts a float to int32 or int64, rounded towards zero.

    Numbers that do not fit become the smallest integer.
    """
    smallest_integer = int(np.iinfo(target_dtype).min)
    lower_limit = float(smallest_integer)
    comparison_predicate = "oge" if target_dtype == "int64" or source_dtype == "float32" else "ogt"
    lower_bound = lower_limit if comparison_predicate == "oge" else lower_limit - 1
    is_in_range = code.binary(
        "and",
        "bool",
        code.compare(
            comparison_predicate, source_dtype, x, code.constant(lower_bound, source_dtype)
        ),
        code.compare("olt", source_dtype, x, code.constant(-lower_limit, source_dtype)),
    )
    safe_x = code.select(is_in_range, source_dtype, x, code.constant(0, source_dtype))
    converted_integer = code.cast("fptosi", source_dtype, safe_x, target_dtype)
    return code.select(
        is_in_range, target_dtype, converted_integer, code.constant(smallest_integer, target_dtype)
    )
