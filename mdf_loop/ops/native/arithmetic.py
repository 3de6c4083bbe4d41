"""Machine code of arithmetic operations with the same bits as ONNX Runtime's kernels.

The module contains arithmetic, comparisons, selections, maxima and minima, and quotients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.failure_conditions import DIVISION_BY_ZERO_MESSAGE, ZERO_DIVISOR_HINT
from mdf_loop.ops.native.code import ITEM_BYTES, Code, Failure, is_float, is_signed
from mdf_loop.ops.native.quotients import divide_by_constant

OpWriter: TypeAlias = Callable[..., str]
"""Function `write(code, op, *registers)` that writes an operation and returns the register of its result."""


def operand_dtype(op: Op) -> str:
    """Return the dtype of the first operand of an operation."""
    operand = op.inputs[0]
    assert operand is not None
    return operand.dtype


def binary(float_instruction: str, integer_instruction: str) -> OpWriter:
    """Return a function that writes LLVM code of a binary arithmetic operation.

    One instruction is for floats and one for integers.
    """

    def write(code: Code, op: Op, a: str, b: str) -> str:
        dtype = operand_dtype(op)
        return code.binary(
            float_instruction if is_float(dtype) else integer_instruction, dtype, a, b
        )

    return write


def comparison(word: str) -> OpWriter:
    """Return a function that writes LLVM code of a comparison of two numbers.

    A comparison with nan is False. Booleans are compared as unsigned integers.
    """

    def write(code: Code, op: Op, a: str, b: str) -> str:
        dtype = operand_dtype(op)
        predicate_prefix = "" if word == "eq" else "s" if is_signed(dtype) else "u"
        return code.compare(
            f"o{word}" if is_float(dtype) else f"{predicate_prefix}{word}", dtype, a, b
        )

    return write


def neg(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `-x`."""
    dtype = operand_dtype(op)
    if is_float(dtype):
        return code.emit(f"fneg {code.type(dtype)} {x}")
    return code.binary("sub", dtype, code.constant(0, dtype), x)


def absolute(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `|x|`.

    The smallest integer stays unchanged.
    """
    dtype = operand_dtype(op)
    if is_float(dtype):
        return code.intrinsic("fabs", dtype, x)
    if not is_signed(dtype):
        return x
    return code.select(code.less(dtype, x, code.constant(0, dtype)), dtype, neg(code, op, x), x)


def sign(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of the sign of x: -1, 0 or 1, and nan for nan."""
    dtype = operand_dtype(op)
    zero_literal = code.constant(0, dtype)
    is_positive, is_negative = code.less(dtype, zero_literal, x), code.less(dtype, x, zero_literal)
    one_or_zero = code.select(is_positive, dtype, code.constant(1, dtype), zero_literal)
    sign_register = code.select(is_negative, dtype, code.constant(-1, dtype), one_or_zero)
    if not is_float(dtype):
        return sign_register
    return code.select(code.compare("uno", dtype, x, x), dtype, x, sign_register)


def add_all(code: Code, op: Op, *registers: str) -> str:
    """Write LLVM code of the sum of all operands, added from the first to the last."""
    partial_sum, *other_registers = registers
    for register in other_registers:
        partial_sum = code.binary("fadd", operand_dtype(op), partial_sum, register)
    return partial_sum


def average(code: Code, op: Op, *registers: str) -> str:
    """Write LLVM code of the mean of all operands."""
    dtype = operand_dtype(op)
    operand_count = code.constant(len(registers), dtype)
    return code.binary("fdiv", dtype, add_all(code, op, *registers), operand_count)


def reciprocal(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `1 / x`."""
    return code.binary("fdiv", operand_dtype(op), code.constant(1, operand_dtype(op)), x)


def unary_intrinsic(name: str) -> OpWriter:
    """Return a function that writes a call of a unary LLVM intrinsic, such as `sqrt`."""

    def write(code: Code, op: Op, x: str) -> str:
        return code.intrinsic(name, operand_dtype(op), x)

    return write


def where(code: Code, op: Op, truth: str, a: str, b: str) -> str:
    """Write LLVM code of `a if truth else b`, which preserves the signs of zeros."""
    return code.select(truth, op.outputs[0].dtype, a, b)


def bitwise(word: str) -> OpWriter:
    """Return a function that writes LLVM code of a bitwise operation on booleans or integers."""

    def write(code: Code, op: Op, a: str, b: str) -> str:
        return code.binary(word, operand_dtype(op), a, b)

    return write


def shift(code: Code, op: Op, x: str, places: str) -> str:
    """Write LLVM code of the bit shift `x << places` or `x >> places`.

    The result is 0 if `places` is at least the number of bits.
    """
    dtype = operand_dtype(op)
    bit_count = 8 * ITEM_BYTES[dtype]
    max_shift = code.constant(bit_count - 1, dtype)
    is_shift_too_large = code.less(dtype, max_shift, places)
    instruction = "shl" if op.attributes["direction"] == "LEFT" else "lshr"
    shifted_x = code.binary(
        instruction, dtype, x, code.select(is_shift_too_large, dtype, max_shift, places)
    )
    return code.select(is_shift_too_large, dtype, code.constant(0, dtype), shifted_x)


def complement(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `not x` for a boolean, or the complement of all bits for an integer."""
    return code.binary("xor", operand_dtype(op), x, code.constant(-1, operand_dtype(op)))


def bitcast(code: Code, op: Op, x: str) -> str:
    """Write LLVM code that reinterprets the bits of x as a number of the output dtype."""
    return code.cast("bitcast", operand_dtype(op), x, op.outputs[0].dtype)


def is_nan(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `x != x`, which is true only for nan."""
    return code.compare("uno", operand_dtype(op), x, x)


def is_infinite(code: Code, op: Op, x: str) -> str:
    """Write LLVM code that tests whether x is infinite (positive, negative, or either)."""
    is_any_infinity = code.constant(False, "bool")
    for attribute_name, infinity in (("detect_negative", -math.inf), ("detect_positive", math.inf)):
        if onnx_schema.attribute(op.op_type, op.attributes, attribute_name):
            equals_infinity = code.compare(
                "oeq", operand_dtype(op), x, code.constant(infinity, operand_dtype(op))
            )
            is_any_infinity = code.binary("or", "bool", is_any_infinity, equals_infinity)
    return is_any_infinity


# --- maxima and minima ----------------------------------------------------------------------------


def extreme(word: str) -> OpWriter:
    """Return a function that writes LLVM code of the largest (or smallest) operand.

    The comparison is `gt` for the largest and `lt` for the smallest. The result is nan if one operand is nan.
    """

    def write(code: Code, op: Op, *registers: str) -> str:
        extreme_register, *other_registers = registers
        for register in other_registers:
            extreme_register = extreme_of_two(
                code, operand_dtype(op), word, extreme_register, register
            )
        return extreme_register

    return write


def extreme_of_two(code: Code, dtype: str, word: str, a: str, b: str) -> str:
    """Write LLVM code of the larger (or smaller) of two numbers, which is nan if one of them is."""
    extreme_number = code.select(
        code.less(dtype, *((b, a) if word == "gt" else (a, b))), dtype, a, b
    )
    if not is_float(dtype):
        return extreme_number
    return code.select(code.compare("uno", dtype, a, a), dtype, a, extreme_number)


# --- quotients and remainders --------------------------------------------------------------------------


def divide(code: Code, op: Op, a: str, b: str) -> str:
    """Write LLVM code of `a / b`, rounded towards zero for integers.

    The pass `guard_integer_division` prevents overflow of integers.
    """
    dtype = operand_dtype(op)
    if is_float(dtype):
        return code.binary("fdiv", dtype, a, b)
    _refuse_zero(code, op, b)
    return _divide_integers(code, "div", dtype, a, b)


def _divide_integers(code: Code, word: str, dtype: str, a: str, b: str) -> str:
    """Write LLVM code of the quotient (`div`) or remainder (`rem`) of two integers.

    Small signed dtypes are computed in int32, in which nothing overflows.
    """
    if not is_signed(dtype):
        return code.binary(f"u{word}", dtype, a, b)
    if ITEM_BYTES[dtype] >= ITEM_BYTES["int32"]:
        return code.binary(f"s{word}", dtype, a, b)
    wide_operands = (code.cast("sext", dtype, register, "int32") for register in (a, b))
    return code.cast("trunc", "int32", code.binary(f"s{word}", "int32", *wide_operands), dtype)


def divide_vectors(code: Code, op: Op, *pairs: Sequence[str]) -> Sequence[str]:
    """Write LLVM code of `a / b` for several pairs of vector registers at once.

    A constant float divisor may be replaced by products with corrections.
    """
    divisors = {b for _, b in pairs}
    quotients = None
    if len(divisors) == 1 and is_float(operand_dtype(op)):
        quotients = divide_by_constant(
            code, operand_dtype(op), [a for a, _ in pairs], min(divisors)
        )
    return [divide(code, op, a, b) for a, b in pairs] if quotients is None else quotients


def write_remainder(code: Code, op: Op, a: str, b: str) -> str:
    """Write LLVM code of the remainder of `a / b`, which has the sign of the divisor.

    With `fmod`, the remainder has the sign of the dividend.
    """
    dtype = operand_dtype(op)
    if is_float(dtype):
        return code.library("fmod", dtype, a, b)
    _refuse_zero(code, op, b)
    if op.attributes.get("fmod"):  # `guard_integer_division` inserts no guard for fmod
        is_minus_one = code.compare("eq", dtype, b, code.constant(-1, dtype))
        b = code.select(is_minus_one, dtype, code.constant(1, dtype), b) if is_signed(dtype) else b
    remainder = _divide_integers(code, "rem", dtype, a, b)
    if op.attributes.get("fmod") or not is_signed(dtype):
        return remainder
    zero_literal = code.constant(0, dtype)
    is_nonzero = code.compare("ne", dtype, remainder, zero_literal)
    signs_differ = code.less(dtype, code.binary("xor", dtype, remainder, b), zero_literal)
    has_wrong_sign = code.binary("and", "bool", is_nonzero, signs_differ)
    return code.select(has_wrong_sign, dtype, code.binary("add", dtype, remainder, b), remainder)


def _refuse_zero(code: Code, op: Op, divisor: str) -> None:
    """Write LLVM code that ends the run with an error if an integer divisor is zero."""
    dtype = operand_dtype(op)
    is_zero = code.compare("eq", dtype, divisor, code.constant(0, dtype))
    code.fail_if(is_zero, Failure(DIVISION_BY_ZERO_MESSAGE, op.where, ZERO_DIVISOR_HINT))
