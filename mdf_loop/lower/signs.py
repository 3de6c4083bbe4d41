"""Signs of floats, including signed zeros.

ONNX Runtime's Where turns a selected -0.0 into 0.0 in its first branch. A product keeps signs.
"""

from __future__ import annotations

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import scalar


def is_negative(b: ModelBuilder, x: Value) -> Value:
    """Return True for negative numbers and -0.0, element by element."""
    zero = scalar(b, 0, x.dtype)
    return b.op("Or", b.op("Less", x, zero), b.op("Less", b.op("Reciprocal", x), zero))


def with_sign_of(b: ModelBuilder, magnitude: Value, x: Value) -> Value:
    """Return the non-negative `magnitude` with the sign of x."""
    minus_one, one = scalar(b, -1, x.dtype), scalar(b, 1, x.dtype)
    return b.op("Mul", magnitude, b.op("Where", is_negative(b, x), minus_one, one))
