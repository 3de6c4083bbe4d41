"""Helpers of decompositions: operands and attributes of an operation, and common expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Shape, Value
from mdf_loop.ops import onnx_schema

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- operands and attributes ------------------------------------------------------------------


def operand(op: Op, position: int = 0) -> Value:
    """Return the required input of an operation at a position."""
    operand_value = op.inputs[position]
    assert operand_value is not None, f"{op.op_type} requires input {position}"
    return operand_value


def optional_operand(op: Op, position: int) -> Value | None:
    """Return the optional input of an operation at a position, or None if it is omitted."""
    return op.inputs[position] if position < len(op.inputs) else None


def attribute(op: Op, name: str) -> Any:
    """Return the value of an operation's attribute, or ONNX's default, or None without a default."""
    return onnx_schema.attribute(op.op_type, op.attributes, name)


def extents(value: Value, purpose: str) -> tuple[int, ...]:
    """Return the shape of a value, or raise UnsupportedError if an extent is unknown."""
    shape = value.shape
    if shape is None or any(isinstance(extent, str) for extent in shape):
        raise UnsupportedError(
            f"{purpose} needs known extents, but got {value.type}",
            hint="give the input a fixed shape",
        )
    return tuple(int(extent) for extent in shape)


def rank(value: Value, purpose: str) -> int:
    """Return the number of axes of a value, or raise UnsupportedError if it is unknown."""
    shape: Shape = value.shape
    if shape is None:
        raise UnsupportedError(f"{purpose} needs a known number of axes, but got {value.type}")
    return len(shape)


def spatial_axes(op: Op) -> tuple[int, ...]:
    """Return the axes behind the instance and channel axes, or raise UnsupportedError if there are none."""
    x, operator_name = operand(op), f"onnx::{op.op_type}"
    axes = tuple(range(2, rank(x, operator_name)))
    if not axes:
        raise UnsupportedError(
            f"{operator_name} needs an array of three axes or more (instances, channels, and what lies "
            f"behind), but got {x.type}",
            hint="reshape it, e.g. numpy.reshape(x, (1, 1, -1))",
        )
    return axes


# --- constants and choices --------------------------------------------------------------------


def constant_like(b: Builder, value: float, like: Value) -> Value:
    """Return a scalar constant of the dtype of `like`."""
    return b.constant(np.array(value, like.dtype))


def scale(b: Builder, value: Value, factor: float) -> Value:
    """Build operations that compute `factor * value`, or return the value if the factor is 1."""
    return value if factor == 1 else b.op("Mul", value, constant_like(b, factor, value))


def shift(b: Builder, value: Value, term: float) -> Value:
    """Build operations that compute `value + term`, or return the value if the term is 0."""
    return value if term == 0 else b.op("Add", value, constant_like(b, term, value))


def copy_sign(b: Builder, x: Value, magnitude: Value) -> Value:
    """Build operations that compute `copysign(magnitude, x)`, also for an x of -0.0.

    ONNX Runtime's Where and Sign drop the sign of -0.0.

    magnitude * Sign(x + 1 / x)
    """
    sign_of_x = b.op("Sign", b.op("Add", x, b.op("Reciprocal", x)))
    return b.op("Mul", sign_of_x, magnitude)


def polynomial(b: Builder, x: Value, coefficients: npt.ArrayLike) -> Value:
    """Build a polynomial by Horner's scheme, with the coefficient of the highest power first."""
    leading_coefficient, *lower_coefficients = np.asarray(coefficients, np.float64).tolist()
    partial_sum = constant_like(b, leading_coefficient, x)
    for coefficient in lower_coefficients:
        partial_sum = b.op("Mul", partial_sum, x)
        partial_sum = shift(b, partial_sum, coefficient)
    return partial_sum
