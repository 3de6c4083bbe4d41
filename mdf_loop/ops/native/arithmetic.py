"""Machine code of exact operations, with the same bits as ONNX Runtime's kernels.

The module contains arithmetic, comparisons, selections, maxima and minima, and quotients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.failure_conditions import DIVIDED_BY_ZERO, DIVISION_HINT
from mdf_loop.ops.native.code import BYTES, Code, Failure, is_float, is_signed
from mdf_loop.ops.native.quotients import by_number

Form: TypeAlias = Callable[..., str]
"""Function `form(code, op, *registers)` that writes an operation and returns the register of its result."""


def first(op: Op) -> str:
    """Return the dtype of the first operand."""
    operand = op.inputs[0]
    assert operand is not None
    return operand.dtype


def binary(of_floats: str, of_whole: str) -> Form:
    """Return a writer of a binary operation: one instruction for floats and one for integers."""

    def form(code: Code, op: Op, a: str, b: str) -> str:
        dtype = first(op)
        return code.binary(of_floats if is_float(dtype) else of_whole, dtype, a, b)

    return form


def compared(word: str) -> Form:
    """Return a writer of a comparison.

    A comparison with nan is False. Booleans are compared as unsigned integers.
    """

    def form(code: Code, op: Op, a: str, b: str) -> str:
        dtype = first(op)
        signs = "" if word == "eq" else "s" if is_signed(dtype) else "u"
        return code.compare(f"o{word}" if is_float(dtype) else f"{signs}{word}", dtype, a, b)

    return form


def neg(code: Code, op: Op, x: str) -> str:
    """Write `-x`."""
    dtype = first(op)
    if is_float(dtype):
        return code.put(f"fneg {code.type(dtype)} {x}")
    return code.binary("sub", dtype, code.number(0, dtype), x)


def absolute(code: Code, op: Op, x: str) -> str:
    """Write `|x|`. The smallest integer stays unchanged."""
    dtype = first(op)
    if is_float(dtype):
        return code.intrinsic("fabs", dtype, x)
    if not is_signed(dtype):
        return x
    return code.choose(code.less(dtype, x, code.number(0, dtype)), dtype, neg(code, op, x), x)


def sign(code: Code, op: Op, x: str) -> str:
    """Write the sign of x: -1, 0 or 1, and nan for nan."""
    dtype = first(op)
    zero = code.number(0, dtype)
    above, below = code.less(dtype, zero, x), code.less(dtype, x, zero)
    positive = code.choose(above, dtype, code.number(1, dtype), zero)
    signum = code.choose(below, dtype, code.number(-1, dtype), positive)
    if not is_float(dtype):
        return signum
    return code.choose(code.compare("uno", dtype, x, x), dtype, x, signum)


def total(code: Code, op: Op, *registers: str) -> str:
    """Write the sum of floats, from the first operand to the last."""
    partial_sum, *others = registers
    for other in others:
        partial_sum = code.binary("fadd", first(op), partial_sum, other)
    return partial_sum


def average(code: Code, op: Op, *registers: str) -> str:
    """Write the mean of the operands."""
    dtype = first(op)
    count = code.number(len(registers), dtype)
    return code.binary("fdiv", dtype, total(code, op, *registers), count)


def reciprocal(code: Code, op: Op, x: str) -> str:
    """Write `1 / x`."""
    return code.binary("fdiv", first(op), code.number(1, first(op)), x)


def rounded(name: str) -> Form:
    """Return a writer of a unary operation that is an LLVM intrinsic."""

    def form(code: Code, op: Op, x: str) -> str:
        return code.intrinsic(name, first(op), x)

    return form


def where(code: Code, op: Op, truth: str, a: str, b: str) -> str:
    """Write `a if truth else b`, which preserves the signs of zeros."""
    return code.choose(truth, op.outputs[0].dtype, a, b)


def logical(word: str) -> Form:
    """Return a writer of a bitwise operation on booleans or integers."""

    def form(code: Code, op: Op, a: str, b: str) -> str:
        return code.binary(word, first(op), a, b)

    return form


def shifted(code: Code, op: Op, x: str, places: str) -> str:
    """Write `x << places` or `x >> places`, or 0 if `places` is at least the number of bits."""
    dtype = first(op)
    bits = 8 * BYTES[dtype]
    all_but_one = code.number(bits - 1, dtype)
    far = code.less(dtype, all_but_one, places)
    word = "shl" if op.attributes["direction"] == "LEFT" else "lshr"
    in_range = code.binary(word, dtype, x, code.choose(far, dtype, all_but_one, places))
    return code.choose(far, dtype, code.number(0, dtype), in_range)


def negated(code: Code, op: Op, x: str) -> str:
    """Write `not x` for a boolean, or the complement of all bits for an integer."""
    return code.binary("xor", first(op), x, code.number(-1, first(op)))


def same_bits(code: Code, op: Op, x: str) -> str:
    """Write a reinterpretation of the bits of x as a number of the output dtype."""
    return code.cast("bitcast", first(op), x, op.outputs[0].dtype)


def is_nan(code: Code, op: Op, x: str) -> str:
    """Write `x != x`, which is True for nan."""
    return code.compare("uno", first(op), x, x)


def is_infinite(code: Code, op: Op, x: str) -> str:
    """Write the test that x is an infinity of a sign that the attributes select."""
    is_detected = code.number(False, "bool")
    for name, end in (("detect_negative", -math.inf), ("detect_positive", math.inf)):
        if onnx_schema.attribute(op.op_type, op.attributes, name):
            is_end = code.compare("oeq", first(op), x, code.number(end, first(op)))
            is_detected = code.binary("or", "bool", is_detected, is_end)
    return is_detected


# --- maxima and minima ----------------------------------------------------------------------------


def extreme(word: str) -> Form:
    """Return a writer of the largest (`gt`) or smallest (`lt`) operand, nan if one operand is nan."""

    def form(code: Code, op: Op, *registers: str) -> str:
        current, *others = registers
        for other in others:
            current = of_two(code, first(op), word, current, other)
        return current

    return form


def of_two(code: Code, dtype: str, word: str, a: str, b: str) -> str:
    """Write the larger (`gt`) or smaller (`lt`) of two numbers, nan if one number is nan."""
    extreme_number = code.choose(
        code.less(dtype, *((b, a) if word == "gt" else (a, b))), dtype, a, b
    )
    if not is_float(dtype):
        return extreme_number
    return code.choose(code.compare("uno", dtype, a, a), dtype, a, extreme_number)


# --- quotients and remainders --------------------------------------------------------------------------


def divided(code: Code, op: Op, a: str, b: str) -> str:
    """Write `a / b`, rounded towards zero for integers.

    The pass `guard_integer_division` prevents overflow of integers.
    """
    dtype = first(op)
    if is_float(dtype):
        return code.binary("fdiv", dtype, a, b)
    _refuse_zero(code, op, b)
    return _by_divider(code, "div", dtype, a, b)


def _by_divider(code: Code, word: str, dtype: str, a: str, b: str) -> str:
    """Write an integer quotient (`div`) or remainder (`rem`).

    Small signed dtypes are computed in int32, in which nothing overflows.
    """
    if not is_signed(dtype):
        return code.binary(f"u{word}", dtype, a, b)
    if BYTES[dtype] >= BYTES["int32"]:
        return code.binary(f"s{word}", dtype, a, b)
    wide = (code.cast("sext", dtype, register, "int32") for register in (a, b))
    return code.cast("trunc", "int32", code.binary(f"s{word}", "int32", *wide), dtype)


def divided_together(code: Code, op: Op, *pairs: Sequence[str]) -> Sequence[str]:
    """Write `a / b` for several vectors. A constant float divisor may be replaced by products with corrections."""
    divisors = {b for _, b in pairs}
    quotients = None
    if len(divisors) == 1 and is_float(first(op)):
        quotients = by_number(code, first(op), [a for a, _ in pairs], min(divisors))
    return [divided(code, op, a, b) for a, b in pairs] if quotients is None else quotients


def rest(code: Code, op: Op, a: str, b: str) -> str:
    """Write the remainder of `a / b`, with the sign of the divisor, or with `fmod` the sign of the dividend."""
    dtype = first(op)
    if is_float(dtype):
        return code.library("fmod", dtype, a, b)
    _refuse_zero(code, op, b)
    if op.attributes.get("fmod"):  # `guard_integer_division` inserts no guard for fmod
        by_one = code.compare("eq", dtype, b, code.number(-1, dtype))
        b = code.choose(by_one, dtype, code.number(1, dtype), b) if is_signed(dtype) else b
    remainder = _by_divider(code, "rem", dtype, a, b)
    if op.attributes.get("fmod") or not is_signed(dtype):
        return remainder
    zero = code.number(0, dtype)
    is_nonzero = code.compare("ne", dtype, remainder, zero)
    signs_differ = code.less(dtype, code.binary("xor", dtype, remainder, b), zero)
    is_wrong = code.binary("and", "bool", is_nonzero, signs_differ)
    return code.choose(is_wrong, dtype, code.binary("add", dtype, remainder, b), remainder)


def _refuse_zero(code: Code, op: Op, divisor: str) -> None:
    """Write a failure if the divisor is zero."""
    dtype = first(op)
    is_zero = code.compare("eq", dtype, divisor, code.number(0, dtype))
    code.fail_if(is_zero, Failure(DIVIDED_BY_ZERO, op.where, DIVISION_HINT))
