"""Vectorized machine code of sine and cosine.

    |x| = n pi / 2 + r + r_low with |r| <= pi / 4; n, r and the rest determine sin and cos

Up to `MAX_DIRECT_REDUCTION`, pi / 2 is subtracted in three parts. `n * HALF_PI_PARTS[1]` is exact, so the sum of the first two is
known with its error (Cody and Waite 1980; Boldo, Daumas and Li 2009). Larger numbers are multiplied by as
many bits of 2 / pi as the fraction needs (Payne and Hanek 1983), lane by lane. Remez' exchange algorithm
computed the coefficients of the polynomials (`benchmarks/coefficients.py`). The stated errors are the largest
errors of several million numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from msgspec import Struct

from mdf_loop.ops.native.code import Code, FunctionText
from mdf_loop.ops.native.formula import Register, exceeds, fma, polynomial, select, select_all_rare

SIN_COEFFICIENTS = (
    -0.16666666666666632,
    0.008333333333322318,
    -0.0001984126982972664,
    2.7557313662551896e-06,
    -2.505075334276416e-08,
    1.58965095617518e-10,
)
"""Coefficients of (sin(r) - r) / r**3 = SIN_COEFFICIENTS[0] + SIN_COEFFICIENTS[1] r**2 + ...

The error of sin(r) is 0.07 * 2**-53.
"""

COS_COEFFICIENTS = (
    0.0416666666666666,
    -0.0013888888888873992,
    2.4801587289396556e-05,
    -2.755731432651291e-07,
    2.087571962559066e-09,
    -1.1359452208994619e-11,
)
"""Coefficients of (cos(r) - 1 + r**2 / 2) / r**4 = COS_COEFFICIENTS[0] + COS_COEFFICIENTS[1] r**2 + ...

The error of cos(r) is 0.02 * 2**-53.
"""

HALF_PI_PARTS = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62634000000p-54"),
    float.fromhex("-0x1.d747f23e32ed7p-83"),
)
"""pi / 2 as a sum of three floats: the rounded number, 28 bits of the remainder, and the remaining part."""

INVERSE_HALF_PI = float.fromhex("0x1.45f306dc9c883p-1")
"""2 / pi."""

ROUNDING_CONSTANT = 1.5 * 2.0**52
"""Constant that rounds a float to an integer by addition. The last bits of the sum are the integer."""

MAX_DIRECT_REDUCTION = 2.0**24
"""Limit of |x| for the reduction by three parts of pi / 2.

Up to this limit, n has 24 bits: its product with the second part of pi / 2 is exact, with the third
negligible.
"""


class ReducedAngle(Struct, frozen=True):
    """Argument reduction `x = n pi / 2 + r + r_low` for sine and cosine.

    Only the last bits of n are valid.
    """

    n: Register
    r: Register
    r_low: Register


def sin(x: Register) -> Register:
    """Return the sine of a number of any size.

    The error is at most 0.80 ulp.
    """
    reduction = _reduce_angle(abs(x))
    sign_bits = (reduction.n << 62) ^ x.bits()
    return _negate_if(_sin_or_cos(reduction, reduction.n), sign_bits)


def cos(x: Register) -> Register:
    """Return the cosine of a number of any size.

    The error is at most 0.80 ulp.
    """
    reduction = _reduce_angle(abs(x))
    next_n = reduction.n + 1
    return _negate_if(_sin_or_cos(reduction, next_n), next_n << 62)


def _negate_if(value: Register, sign_bits: Register) -> Register:
    """Return `value`, negated if the first bit of `sign_bits` is set."""
    return (value.bits() ^ (sign_bits & -(2**63))).float()


def _sin_or_cos(reduction: ReducedAngle, n: Register) -> Register:
    """Return sin(r + r_low) for an even n, or cos(r + r_low) for an odd n."""
    r_square = reduction.r * reduction.r
    r_fourth = r_square * r_square
    half_square = 0.5 * r_square
    cos_leading = 1.0 - half_square
    sin_correction = fma(
        r_square * reduction.r,
        polynomial(r_square, r_fourth, SIN_COEFFICIENTS),
        reduction.r_low * cos_leading,
    )
    rounding_error = (1.0 - cos_leading) - half_square
    cos_correction = fma(
        r_fourth,
        polynomial(r_square, r_fourth, COS_COEFFICIENTS),
        fma(-reduction.r, reduction.r_low, rounding_error),
    )
    is_odd = (n & 1).equals(1)
    return select(is_odd, cos_leading, reduction.r) + select(is_odd, cos_correction, sin_correction)


def _reduce_angle(x: Register) -> ReducedAngle:
    """Return a nonnegative angle as a multiple of pi/2 and a remainder."""
    shifted_n = fma(x, INVERSE_HALF_PI, ROUNDING_CONSTANT)
    n = shifted_n - ROUNDING_CONSTANT
    x_minus_n_half_pi = fma(n, -HALF_PI_PARTS[0], x)
    r = fma(n, -HALF_PI_PARTS[1], x_minus_n_half_pi)
    r_low = fma(n, -HALF_PI_PARTS[2], fma(n, -HALF_PI_PARTS[1], x_minus_n_half_pi - r))
    is_large = exceeds(x, MAX_DIRECT_REDUCTION)

    def remedy() -> list[Register]:
        large_reduction = _reduce_large(select(is_large, x, MAX_DIRECT_REDUCTION))
        large_reduction[1] = large_reduction[1] + (x - x)
        direct_reduction = (shifted_n.bits(), r, r_low)
        return [
            select(is_large, large_component, direct_component)
            for large_component, direct_component in zip(
                large_reduction, direct_reduction, strict=True
            )
        ]

    return ReducedAngle(*select_all_rare(is_large, (shifted_n.bits(), r, r_low), remedy))


# --- far angles -----------------------------------------------------------------------------------

TWO_OVER_PI_BITS = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
    "56033046fc7b6bab",
    16,
)
"""2 / pi * 2**1216, truncated. Source: mpmath."""

REDUCTION_DTYPES = ("int64", "float64", "float64")
"""Dtypes of n, r and rest in the argument reduction of large angles."""


def _reduce_large(x: Register) -> list[Register]:
    """Return a large angle as a multiple of pi/2 and a remainder."""
    lane_code, function_name = x.code, f"far_angles_{x.code.lane_count}"
    lane_code.function_text.declarations.update(_large_angle_functions(lane_code.lane_count))
    call_register = lane_code.emit(
        f"call {_reduction_type(lane_code)} @{function_name}({lane_code.type(x.dtype)} {x.register})"
    )
    field_registers = (
        lane_code.emit(f"extractvalue {_reduction_type(lane_code)} {call_register}, {k}")
        for k in range(len(REDUCTION_DTYPES))
    )
    return [
        Register(lane_code, field_register, dtype)
        for field_register, dtype in zip(field_registers, REDUCTION_DTYPES, strict=True)
    ]


def _reduction_type(code: Code) -> str:
    """Return the LLVM struct type of an argument reduction."""
    return f"{{ {', '.join(code.type(dtype) for dtype in REDUCTION_DTYPES)} }}"


@functools.cache
def _large_angle_functions(width: int) -> Mapping[str, str]:
    """Return the LLVM functions that reduce large angles, by name."""
    function_code = Code(FunctionText(), width)
    x = Register(function_code, "%x")
    reduction_registers = _reduce_large_scalar(x) if width == 1 else _reduce_large_lanes(x)
    struct_register = "poison"
    for k, reduction_register in enumerate(reduction_registers):
        struct_field_operand = (
            f"{function_code.type(reduction_register.dtype)} {reduction_register.register}"
        )
        struct_register = function_code.emit(
            f"insertvalue {_reduction_type(function_code)} {struct_register}, {struct_field_operand}, {k}"
        )
    function_code.line(f"ret {_reduction_type(function_code)} {struct_register}")
    function_name = f"far_angles_{width}"
    function_signature = f"define internal {_reduction_type(function_code)} @{function_name}({function_code.type(x.dtype)} %x) noinline {{"
    return {
        **function_code.function_text.declarations,
        function_name: "\n".join(
            [function_signature, *function_code.function_text.instruction_lines, "}"]
        ),
    }


def _reduce_large_lanes(x: Register) -> list[Register]:
    """Return a vector of large angles as multiples of pi/2 and remainders."""
    vector_code, lane_code = x.code, Code(x.code.function_text)
    reduction_vectors = ["poison"] * len(REDUCTION_DTYPES)
    for lane in range(vector_code.lane_count):
        lane_x = vector_code.emit(
            f"extractelement {vector_code.type(x.dtype)} {x.register}, i32 {lane}"
        )
        for k, reduction_register in enumerate(_reduce_large(Register(lane_code, lane_x))):
            insert_operands = f"{vector_code.type(reduction_register.dtype)} {reduction_vectors[k]}, {lane_code.type(reduction_register.dtype)} {reduction_register.register}"
            reduction_vectors[k] = vector_code.emit(f"insertelement {insert_operands}, i32 {lane}")
    return [
        Register(vector_code, reduction_vector, dtype)
        for reduction_vector, dtype in zip(reduction_vectors, REDUCTION_DTYPES, strict=True)
    ]


def _reduce_large_scalar(x: Register) -> tuple[Register, Register, Register]:
    """Return one large angle as a multiple of pi/2 and a remainder.

    x = m 2**e with an integer m of 53 bits. The function multiplies m by 192 bits of 2 / pi, which begin
    where the product with m 2**e is less than 4. The first two bits of the product are n, the next 137 bits
    are the fraction.
    """
    scalar_code = x.code
    significand = (x.bits() & (2**52 - 1)) | 2**52
    shift_count = 1216 + 1075 - 190 - (x.bits() >> 52)
    wide_shift_count = scalar_code.emit(f"zext i64 {shift_count.register} to i1216")
    shifted_bits = scalar_code.emit(f"lshr i1216 {TWO_OVER_PI_BITS}, {wide_shift_count}")
    bit_window = scalar_code.emit(f"trunc i1216 {shifted_bits} to i192")
    wide_significand = scalar_code.emit(f"zext i64 {significand.register} to i192")
    wide_product = scalar_code.emit(f"mul i192 {bit_window}, {wide_significand}")
    shifted_product = scalar_code.emit(f"shl i192 {wide_product}, 2")
    wide_fraction = scalar_code.emit(f"ashr i192 {shifted_product}, 2")
    integer_part = scalar_code.emit(f"sub i192 {wide_product}, {wide_fraction}")
    wide_n = scalar_code.emit(f"lshr i192 {integer_part}, 190")
    n = scalar_code.emit(f"trunc i192 {wide_n} to i64")
    return Register(scalar_code, n, "int64"), *_fraction_to_angle(scalar_code, wide_fraction)


def _fraction_to_angle(code: Code, fraction: str) -> tuple[Register, Register]:
    """Return `pi / 2 * fraction / 2**190` as a sum of a large and a small number.

    The fraction is split into three parts, which are exact.
    """
    fraction_parts = []
    for shift_count, mask in ((142, -1), (92, 2**50 - 1), (42, 2**50 - 1)):
        shifted_fraction = code.emit(f"ashr i192 {fraction}, {shift_count}")
        fraction_part_bits = (
            Register(code, code.emit(f"trunc i192 {shifted_fraction} to i64"), "int64") & mask
        )
        fraction_part = Register(
            code, code.cast("sitofp", "int64", fraction_part_bits.register, "float64")
        )
        fraction_parts.append(fraction_part * 2.0 ** (shift_count - 190))
    high_part = fraction_parts[0] + fraction_parts[1]
    low_part = (fraction_parts[0] - high_part) + fraction_parts[1] + fraction_parts[2]
    r = high_part * HALF_PI_PARTS[0]
    return r, fma(high_part, HALF_PI_PARTS[0], -r) + fma(
        high_part, HALF_PI_PARTS[1], low_part * HALF_PI_PARTS[0]
    )
