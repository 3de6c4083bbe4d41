"""Vectorized machine code of sin and cos.

    |x| = n pi / 2 + r + rest with |r| <= pi / 4; n, r and the rest determine sin and cos

Up to `FAR`, pi / 2 is subtracted in three parts. `n * HALF_PI[1]` is exact, so the sum of the first two is
known with its error (Cody and Waite 1980; Boldo, Daumas and Li 2009). Larger numbers are multiplied by as
many bits of 2 / pi as the fraction needs (Payne and Hanek 1983), lane by lane. Remez' exchange algorithm
computed the coefficients of the polynomials (`benchmarks/coefficients.py`). The stated errors are the largest
errors of several million numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from msgspec import Struct

from mdf_loop.ops.native.code import Code, Text
from mdf_loop.ops.native.formula import Register, all_where_rare, choose, exceeds, fma, polynomial

SIN = (
    -0.16666666666666632,
    0.008333333333322318,
    -0.0001984126982972664,
    2.7557313662551896e-06,
    -2.505075334276416e-08,
    1.58965095617518e-10,
)
"""Coefficients of (sin(r) - r) / r**3 = SIN[0] + SIN[1] r**2 + ...

The error of sin(r) is 0.07 * 2**-53.
"""

COS = (
    0.0416666666666666,
    -0.0013888888888873992,
    2.4801587289396556e-05,
    -2.755731432651291e-07,
    2.087571962559066e-09,
    -1.1359452208994619e-11,
)
"""Coefficients of (cos(r) - 1 + r**2 / 2) / r**4 = COS[0] + COS[1] r**2 + ...

The error of cos(r) is 0.02 * 2**-53.
"""

HALF_PI = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62634000000p-54"),
    float.fromhex("-0x1.d747f23e32ed7p-83"),
)
"""pi / 2 as a sum of three floats: the rounded number, 28 bits of the remainder, and the remaining part."""

PER_HALF_PI = float.fromhex("0x1.45f306dc9c883p-1")
"""2 / pi."""

WHOLE = 1.5 * 2.0**52
"""Constant that rounds a float to an integer by addition. The last bits of the sum are the integer."""

FAR = 2.0**24
"""Limit of |x| for the reduction by three parts of pi / 2.

Up to this limit, n has 24 bits: its product with the second part of pi / 2 is exact, with the third
negligible.
"""


class ReducedAngle(Struct, frozen=True):
    """Argument reduction `x = n pi / 2 + r + rest`. Only the last bits of n are valid."""

    n: Register
    r: Register
    rest: Register


def sin(x: Register) -> Register:
    """Return the sine of a number of any size. The error is at most 0.80 ulp."""
    at = _reduced(abs(x))
    negative = (at.n << 62) ^ x.bits()
    return _signed(_either(at, at.n), negative)


def cos(x: Register) -> Register:
    """Return the cosine of a number of any size. The error is at most 0.80 ulp."""
    at = _reduced(abs(x))
    further = at.n + 1
    return _signed(_either(at, further), further << 62)


def _signed(value: Register, negative: Register) -> Register:
    """Return `value`, or `-value` if the first bit of `negative` is set."""
    return (value.bits() ^ (negative & -(2**63))).float()


def _either(at: ReducedAngle, n: Register) -> Register:
    """Return sin(r + rest) for an even n, or cos(r + rest) for an odd n."""
    square = at.r * at.r
    fourth = square * square
    half = 0.5 * square
    flat = 1.0 - half
    bent = fma(square * at.r, polynomial(square, fourth, SIN), at.rest * flat)
    lost = (1.0 - flat) - half
    curve = fma(fourth, polynomial(square, fourth, COS), fma(-at.r, at.rest, lost))
    is_odd = (n & 1).is_same(1)
    return choose(is_odd, flat, at.r) + choose(is_odd, curve, bent)


def _reduced(x: Register) -> ReducedAngle:
    """Return the argument reduction of a nonnegative angle."""
    shifted = fma(x, PER_HALF_PI, WHOLE)
    n = shifted - WHOLE
    most = fma(n, -HALF_PI[0], x)
    r = fma(n, -HALF_PI[1], most)
    rest = fma(n, -HALF_PI[2], fma(n, -HALF_PI[1], most - r))
    far = exceeds(x, FAR)

    def remedy() -> list[Register]:
        far_operand = _far(choose(far, x, FAR))
        far_operand[1] = far_operand[1] + (x - x)
        near = (shifted.bits(), r, rest)
        return [choose(far, there, here) for there, here in zip(far_operand, near, strict=True)]

    return ReducedAngle(*all_where_rare(far, (shifted.bits(), r, rest), remedy))


# --- far angles -----------------------------------------------------------------------------------

TWO_PER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
    "56033046fc7b6bab",
    16,
)
"""2 / pi * 2**1216, truncated. Source: mpmath."""

PARTS = ("int64", "float64", "float64")
"""Dtypes of n, r and rest in the argument reduction of large angles."""


def _far(x: Register) -> list[Register]:
    """Return the argument reduction of large angles, computed by a separate LLVM function."""
    code, name = x.code, f"far_angles_{x.code.width}"
    code.text.declared.update(_far_angles(code.width))
    call_register = code.put(f"call {_parts(code)} @{name}({code.type(x.dtype)} {x.register})")
    parts = (
        code.put(f"extractvalue {_parts(code)} {call_register}, {k}") for k in range(len(PARTS))
    )
    return [Register(code, part, dtype) for part, dtype in zip(parts, PARTS, strict=True)]


def _parts(code: Code) -> str:
    """Return the LLVM struct type of an argument reduction."""
    return f"{{ {', '.join(code.type(dtype) for dtype in PARTS)} }}"


@functools.cache
def _far_angles(width: int) -> Mapping[str, str]:
    """Return the LLVM function for large angles, and the functions that it calls, by name."""
    code = Code(Text(), width)
    x = Register(code, "%x")
    parts = _far_angle(x) if width == 1 else _far_lanes(x)
    aggregate = "poison"
    for k, part in enumerate(parts):
        operand = f"{code.type(part.dtype)} {part.register}"
        aggregate = code.put(f"insertvalue {_parts(code)} {aggregate}, {operand}, {k}")
    code.line(f"ret {_parts(code)} {aggregate}")
    name = f"far_angles_{width}"
    head = f"define internal {_parts(code)} @{name}({code.type(x.dtype)} %x) noinline {{"
    return {**code.text.declared, name: "\n".join([head, *code.text.lines, "}"])}


def _far_lanes(x: Register) -> list[Register]:
    """Return the argument reduction of large angles, computed lane by lane."""
    code, one = x.code, Code(x.code.text)
    vectors = ["poison"] * len(PARTS)
    for lane in range(code.width):
        alone = code.put(f"extractelement {code.type(x.dtype)} {x.register}, i32 {lane}")
        for k, part in enumerate(_far(Register(one, alone))):
            operands = (
                f"{code.type(part.dtype)} {vectors[k]}, {one.type(part.dtype)} {part.register}"
            )
            vectors[k] = code.put(f"insertelement {operands}, i32 {lane}")
    return [Register(code, part, dtype) for part, dtype in zip(vectors, PARTS, strict=True)]


def _far_angle(x: Register) -> tuple[Register, Register, Register]:
    """Return the argument reduction of one large angle.

    x = m 2**e with an integer m of 53 bits. The function multiplies m by 192 bits of 2 / pi, which begin
    where the product with m 2**e is less than 4. The first two bits of the product are n, the next 137 bits
    are the fraction.
    """
    code = x.code
    m = (x.bits() & (2**52 - 1)) | 2**52
    places = 1216 + 1075 - 190 - (x.bits() >> 52)
    many = code.put(f"zext i64 {places.register} to i1216")
    shifted = code.put(f"lshr i1216 {TWO_PER_PI}, {many}")
    window = code.put(f"trunc i1216 {shifted} to i192")
    wide = code.put(f"zext i64 {m.register} to i192")
    product = code.put(f"mul i192 {window}, {wide}")
    up = code.put(f"shl i192 {product}, 2")
    fraction = code.put(f"ashr i192 {up}, 2")
    whole = code.put(f"sub i192 {product}, {fraction}")
    last = code.put(f"lshr i192 {whole}, 190")
    n = code.put(f"trunc i192 {last} to i64")
    return Register(code, n, "int64"), *_angle(code, fraction)


def _angle(code: Code, fraction: str) -> tuple[Register, Register]:
    """Return `pi / 2 * fraction / 2**190` as a sum of a large and a small number.

    The fraction is split into three parts, which are exact.
    """
    pieces = []
    for places, mask in ((142, -1), (92, 2**50 - 1), (42, 2**50 - 1)):
        down = code.put(f"ashr i192 {fraction}, {places}")
        bits = Register(code, code.put(f"trunc i192 {down} to i64"), "int64") & mask
        value = Register(code, code.cast("sitofp", "int64", bits.register, "float64"))
        pieces.append(value * 2.0 ** (places - 190))
    large = pieces[0] + pieces[1]
    small = (pieces[0] - large) + pieces[1] + pieces[2]
    r = large * HALF_PI[0]
    return r, fma(large, HALF_PI[0], -r) + fma(large, HALF_PI[1], small * HALF_PI[0])
