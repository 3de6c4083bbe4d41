"""The signs of numbers with a point, of zeros too.

ONNX Runtime's Where turns -0.0 into 0.0 where its condition holds; a product keeps signs.
"""

from __future__ import annotations

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.words import scalar


def is_negative(b: ModelBuilder, x: Value) -> Value:
    """Whether x is negative, -0.0 (whose reciprocal is negative) too."""
    zero = scalar(b, 0, x.dtype)
    return b.op("Or", b.op("Less", x, zero), b.op("Less", b.op("Reciprocal", x), zero))


def with_sign_of(b: ModelBuilder, size: Value, x: Value) -> Value:
    """`size`, which is not negative, with the sign of x."""
    minus_one, one = scalar(b, -1, x.dtype), scalar(b, 1, x.dtype)
    return b.op("Mul", size, b.op("Where", is_negative(b, x), minus_one, one))
