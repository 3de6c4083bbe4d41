"""Machine code of correctly rounded quotients by a constant, for processors with slow division.

    q = x * r                            # r is 1 / c, rounded
    q' = q - (q * c - x) * r             # x / c, rounded

The products are fused with the sums, and so not rounded. If r differs so much from 1 / c that q' might be
rounded wrongly, the second line is applied twice. Zeros keep their signs, and nan stays nan. Division
instructions compute all quotients if a number is too small, or a quotient too large, for an exact result.

Sources: Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990;
Muller et al., "Handbook of Floating-Point Arithmetic", 2nd edition, chapter 4.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct

from mdf_loop.ops.native.code import Code


class _NumberType(Struct, frozen=True):
    """Limits of a floating-point dtype within which division by multiplication is exact.

    Attributes:
        precision: Bits of the significand.
        min_exponent: Smallest exponent of a number for which the remainder of a division is exact.
        max_exponent: Largest exponent of a divisor for which only the quotient may overflow.
        integer_dtype: Integer dtype of the same size.
    """

    precision: int
    min_exponent: int
    max_exponent: int
    integer_dtype: str


_NUMBER_TYPES = {
    "float64": _NumberType(53, -960, 900, "int64"),
    "float32": _NumberType(24, -100, 60, "int32"),
}
"""Properties of the supported dtypes."""


def divide_by_constant(
    code: Code, dtype: str, numbers: Sequence[str], c: str
) -> Sequence[str] | None:
    """Write LLVM code of quotients by a constant, computed by multiplication.

    Return None if division instructions are faster.
    """
    divisor = code.constant_value(c)
    if divisor is None or code.lane_count == 1 or code.has_quick_divider:
        return None
    number_type, divisor_magnitude = _NUMBER_TYPES[dtype], abs(divisor)
    if (
        not 2.0**-number_type.max_exponent < divisor_magnitude < 2.0**number_type.max_exponent
        or math.frexp(divisor_magnitude)[0] == 0.5
    ):
        return None
    rounded_inverse = float(np.asarray(1, dtype) / np.asarray(divisor_magnitude, dtype))
    correction_count = (
        1
        if one_correction_suffices(divisor_magnitude, rounded_inverse, number_type.precision)
        else 2
    )
    quotients = []
    for x in numbers:
        approximate_quotient = code.binary("fmul", dtype, x, code.constant(rounded_inverse, dtype))
        for _ in range(correction_count):
            approximate_quotient = _correct_quotient(
                code, dtype, (x, approximate_quotient), (divisor_magnitude, rounded_inverse)
            )
        quotients.append(
            code.emit(f"fneg {code.type(dtype)} {approximate_quotient}")
            if divisor < 0
            else approximate_quotient
        )
    is_extreme_quotient = _write_extreme_test(code, dtype, (numbers, quotients), divisor_magnitude)
    return _select_quotients(code, dtype, is_extreme_quotient, (numbers, quotients), c)


def one_correction_suffices(c: float, r: float, precision: int) -> bool:
    """Return True if one correction step yields correctly rounded quotients by c.

    The divisor is c, and r is its rounded inverse.

    Let c be from 1 to 2, and e the error of r in units of 2 ** -p. The error of q is at most e c + 1/2 units
    in the last place. So q c - x has at most p bits if (e c + 1/2) c <= 2. Before rounding, the error of q'
    is e c (e c + 1/2) 2 ** -p units in the last place. The distance of x / c to a rounding boundary is at
    least 2 ** -p / c.
    """
    divisor_exponent = math.frexp(c)[1] - 1
    scaled_divisor, scaled_inverse = (
        Fraction(c) / Fraction(2) ** divisor_exponent,
        Fraction(r) * Fraction(2) ** divisor_exponent,
    )
    inverse_error = scaled_divisor * abs(scaled_inverse - 1 / scaled_divisor) * 2**precision
    max_error = (inverse_error + Fraction(1, 2)) * scaled_divisor
    return bool(max_error <= 2 and max_error * inverse_error < 1)


def _correct_quotient(
    code: Code, dtype: str, operands: tuple[str, str], constants: tuple[float, float]
) -> str:
    """Write LLVM code that corrects an approximate quotient q = x / c: `q - (q * c - x) * r`.

    r is 1 / c, rounded.
    """
    (x, q), (c, r) = operands, constants
    llvm_type = code.type(dtype)
    negated_number = code.emit(f"fneg {llvm_type} {x}")
    remainder = code.intrinsic("fma", dtype, q, code.constant(c, dtype), negated_number)
    negated_number = code.emit(f"fneg {llvm_type} {remainder}")
    return code.intrinsic("fma", dtype, negated_number, code.constant(r, dtype), q)


_Quotients = tuple[Sequence[str], Sequence[str]]
"""Dividends, and their quotients."""


def _write_extreme_test(code: Code, dtype: str, quotients: _Quotients, c: float) -> str:
    """Write LLVM code that tests whether any dividend is tiny, or any quotient nan."""
    dividends, quotient_registers = quotients
    number_type = _NUMBER_TYPES[dtype]
    min_dividend = np.asarray(2.0 ** (number_type.min_exponent + max(0, math.frexp(c)[1])), dtype)
    min_magnitude_bits = ""
    for x in dividends:
        magnitude_bits = code.cast(
            "bitcast", dtype, code.intrinsic("fabs", dtype, x), number_type.integer_dtype
        )
        # The subtraction wraps around for 0.
        reduced_bits = code.binary(
            "add",
            number_type.integer_dtype,
            magnitude_bits,
            code.constant(-1, number_type.integer_dtype),
        )
        min_magnitude_bits = (
            code.intrinsic("umin", number_type.integer_dtype, min_magnitude_bits, reduced_bits)
            if min_magnitude_bits
            else reduced_bits
        )
    is_extreme_quotient = code.compare(
        "ult",
        number_type.integer_dtype,
        min_magnitude_bits,
        code.constant(min_dividend.view(number_type.integer_dtype) - 1, number_type.integer_dtype),
    )
    half_length = len(quotient_registers) // 2
    for first_quotient, second_quotient in zip(
        quotient_registers[: len(quotient_registers) - half_length],
        quotient_registers[half_length:],
        strict=True,
    ):
        is_extreme_quotient = code.binary(
            "or",
            "bool",
            is_extreme_quotient,
            code.compare("uno", dtype, first_quotient, second_quotient),
        )
    return code.any(is_extreme_quotient)


def _select_quotients(
    code: Code, dtype: str, is_extreme: str, quotients: _Quotients, c: str
) -> Sequence[str]:
    """Write LLVM code that replaces all quotients by true divisions if `is_extreme` is true."""
    function_text = code.function_text
    quick_block, slow_block, end_block = (
        function_text.new_name(stem) for stem in ("quick", "slow", "divided")
    )
    code.line(f"br label %{quick_block}")
    code.label(quick_block)
    code.line(f"br i1 {is_extreme}, label %{slow_block}, label %{end_block}")
    code.label(slow_block)
    slow_quotients = [code.binary("fdiv", dtype, x, c) for x in quotients[0]]
    code.line(f"br label %{end_block}")
    code.label(end_block)
    quotient_pairs = zip(quotients[1], slow_quotients, strict=True)
    return [
        code.emit(
            f"phi {code.type(dtype)} [ {quick_quotient}, %{quick_block} ], [ {slow_quotient}, %{slow_block} ]"
        )
        for quick_quotient, slow_quotient in quotient_pairs
    ]
