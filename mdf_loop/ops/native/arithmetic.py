"""Arithmetic, comparisons, choices: exact operations, with the bits of ONNX Runtime's kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.failing import ASK_BEFORE, DIVIDED_BY_ZERO
from mdf_loop.ops.native.code import BYTES, Code, Failure, is_float, is_signed
from mdf_loop.ops.native.quotients import by_number

Form: TypeAlias = Callable[..., str]
"""`form(code, op, *registers)`: the register of what the operation gives."""


def first(op: Op) -> str:
    """The dtype of the first operand."""
    value = op.inputs[0]
    assert value is not None
    return value.dtype


def binary(of_floats: str, of_whole: str) -> Form:
    """An instruction of two operands, one word for floats and one for whole numbers."""

    def form(code: Code, op: Op, a: str, b: str) -> str:
        dtype = first(op)
        return code.binary(of_floats if is_float(dtype) else of_whole, dtype, a, b)

    return form


def compared(word: str) -> Form:
    """A comparison: false where one is nan; truth values are whole numbers above zero."""

    def form(code: Code, op: Op, a: str, b: str) -> str:
        dtype = first(op)
        signs = "" if word == "eq" else "s" if is_signed(dtype) else "u"
        return code.compare(f"o{word}" if is_float(dtype) else f"{signs}{word}", dtype, a, b)

    return form


def neg(code: Code, op: Op, x: str) -> str:
    """`-x`."""
    dtype = first(op)
    if is_float(dtype):
        return code.put(f"fneg {code.type(dtype)} {x}")
    return code.binary("sub", dtype, code.number(0, dtype), x)


def absolute(code: Code, op: Op, x: str) -> str:
    """`|x|`; the smallest whole number stays what it is."""
    dtype = first(op)
    if is_float(dtype):
        return code.intrinsic("fabs", dtype, x)
    if not is_signed(dtype):
        return x
    return code.choose(code.less(dtype, x, code.number(0, dtype)), dtype, neg(code, op, x), x)


def sign(code: Code, op: Op, x: str) -> str:
    """-1, 0 or 1; that of nan is nan."""
    dtype = first(op)
    zero = code.number(0, dtype)
    above, below = code.less(dtype, zero, x), code.less(dtype, x, zero)
    positive = code.choose(above, dtype, code.number(1, dtype), zero)
    made = code.choose(below, dtype, code.number(-1, dtype), positive)
    if not is_float(dtype):
        return made
    return code.choose(code.compare("uno", dtype, x, x), dtype, x, made)


def total(code: Code, op: Op, *registers: str) -> str:
    """The sum of floats, in their order."""
    made, *others = registers
    for other in others:
        made = code.binary("fadd", first(op), made, other)
    return made


def average(code: Code, op: Op, *registers: str) -> str:
    """Their sum over their number."""
    dtype = first(op)
    count = code.number(len(registers), dtype)
    return code.binary("fdiv", dtype, total(code, op, *registers), count)


def reciprocal(code: Code, op: Op, x: str) -> str:
    """`1 / x`."""
    return code.binary("fdiv", first(op), code.number(1, first(op)), x)


def rounded(name: str) -> Form:
    """A function of LLVM's own of one operand."""

    def form(code: Code, op: Op, x: str) -> str:
        return code.intrinsic(name, first(op), x)

    return form


def where(code: Code, op: Op, truth: str, a: str, b: str) -> str:
    """Return `a` where the condition is true, else `b`, with the signs of zeros."""
    return code.choose(truth, op.outputs[0].dtype, a, b)


def logical(word: str) -> Form:
    """An instruction on truth values, or on the bits of whole numbers."""

    def form(code: Code, op: Op, a: str, b: str) -> str:
        return code.binary(word, first(op), a, b)

    return form


def shifted(code: Code, op: Op, x: str, places: str) -> str:
    """`x << places` or `x >> places`; 0 where these are as many as there are bits."""
    dtype = first(op)
    bits = 8 * BYTES[dtype]
    all_but_one = code.number(bits - 1, dtype)
    far = code.less(dtype, all_but_one, places)
    word = "shl" if op.attributes["direction"] == "LEFT" else "lshr"
    made = code.binary(word, dtype, x, code.choose(far, dtype, all_but_one, places))
    return code.choose(far, dtype, code.number(0, dtype), made)


def negated(code: Code, op: Op, x: str) -> str:
    """`not x`, or all bits turned over."""
    return code.binary("xor", first(op), x, code.number(-1, first(op)))


def same_bits(code: Code, op: Op, x: str) -> str:
    """The number of another dtype that has these bits."""
    return code.cast("bitcast", first(op), x, op.outputs[0].dtype)


def is_nan(code: Code, op: Op, x: str) -> str:
    """Whether it is nan."""
    return code.compare("uno", first(op), x, x)


def is_infinite(code: Code, op: Op, x: str) -> str:
    """Whether it is infinite, on the sides that are asked for."""
    made = code.number(False, "bool")
    for name, end in (("detect_negative", -math.inf), ("detect_positive", math.inf)):
        if onnx_schema.attribute(op.op_type, op.attributes, name):
            is_end = code.compare("oeq", first(op), x, code.number(end, first(op)))
            made = code.binary("or", "bool", made, is_end)
    return made


# --- the larger, the smaller ----------------------------------------------------------------------


def extreme(word: str) -> Form:
    """The largest (`gt`) or smallest (`lt`) operand; nan if one is nan."""

    def form(code: Code, op: Op, *registers: str) -> str:
        made, *others = registers
        for other in others:
            made = of_two(code, first(op), word, made, other)
        return made

    return form


def of_two(code: Code, dtype: str, word: str, a: str, b: str) -> str:
    """The larger (`gt`) or smaller (`lt`) of two numbers; nan if one is nan."""
    larger = code.choose(code.less(dtype, *((b, a) if word == "gt" else (a, b))), dtype, a, b)
    if not is_float(dtype):
        return larger
    return code.choose(code.compare("uno", dtype, a, a), dtype, a, larger)


# --- quotients and rests --------------------------------------------------------------------------


def divided(code: Code, op: Op, a: str, b: str) -> str:
    """`a / b` of floats; of whole numbers towards zero (that nothing overflows: `safe_divisions`)."""
    dtype = first(op)
    if is_float(dtype):
        return code.binary("fdiv", dtype, a, b)
    _refuse_zero(code, op, b)
    return _by_divider(code, "div", dtype, a, b)


def _by_divider(code: Code, word: str, dtype: str, a: str, b: str) -> str:
    """The quotient (`div`) or what it leaves (`rem`); of small dtypes as int32, where nothing overflows."""
    if not is_signed(dtype):
        return code.binary(f"u{word}", dtype, a, b)
    if BYTES[dtype] >= BYTES["int32"]:
        return code.binary(f"s{word}", dtype, a, b)
    wide = (code.cast("sext", dtype, each, "int32") for each in (a, b))
    return code.cast("trunc", "int32", code.binary(f"s{word}", "int32", *wide), dtype)


def divided_together(code: Code, op: Op, *pairs: Sequence[str]) -> Sequence[str]:
    """`a / b` of several vectors: of floats by a number that is known without the divider."""
    divisors = {b for _, b in pairs}
    made = None
    if len(divisors) == 1 and is_float(first(op)):
        made = by_number(code, first(op), [a for a, _ in pairs], min(divisors))
    return [divided(code, op, a, b) for a, b in pairs] if made is None else made


def rest(code: Code, op: Op, a: str, b: str) -> str:
    """What a division leaves: with the sign of the divisor, or with `fmod` that of the dividend."""
    dtype = first(op)
    if is_float(dtype):
        return code.library("fmod", dtype, a, b)
    _refuse_zero(code, op, b)
    if op.attributes.get("fmod"):  # of which `safe_divisions` thinks that it cannot trap
        by_one = code.compare("eq", dtype, b, code.number(-1, dtype))
        b = code.choose(by_one, dtype, code.number(1, dtype), b) if is_signed(dtype) else b
    left = _by_divider(code, "rem", dtype, a, b)
    if op.attributes.get("fmod") or not is_signed(dtype):
        return left
    zero = code.number(0, dtype)
    some = code.compare("ne", dtype, left, zero)
    other = code.less(dtype, code.binary("xor", dtype, left, b), zero)
    apart = code.binary("and", "bool", some, other)
    return code.choose(apart, dtype, code.binary("add", dtype, left, b), left)


def _refuse_zero(code: Code, op: Op, divisor: str) -> None:
    dtype = first(op)
    is_zero = code.compare("eq", dtype, divisor, code.number(0, dtype))
    code.fail_if(is_zero, Failure(DIVIDED_BY_ZERO, op.where, ASK_BEFORE))
