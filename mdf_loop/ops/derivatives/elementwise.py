"""Derivatives of elementwise operations.

The derivative of `Abs` and `Relu` at 0 is 0. Equal operands of `Max` and `Min` share the derivative equally.
`Where` has the derivative of the selected operand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.build_helpers import cast, scalar
from mdf_loop.ops.derivatives.rule import (
    DecomposedDerivative,
    ElementDerivative,
    Pointwise,
    is_float,
    pointwise,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def _operand(op: Op, k: int = 0) -> Value:
    x = op.inputs[k]
    assert x is not None
    return x


def _build_constant(b: Builder, op: Op, number: float) -> Value:
    return scalar(b, number, op.outputs[0].dtype)


def _return_unchanged(b: Builder, op: Op, g: Value) -> Value:
    return g


def _negate(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Neg", g)


# --- arithmetic ---------------------------------------------------------------------------------


def _multiply_by_operand(position: int) -> ElementDerivative:
    return lambda b, op, g: b.op("Mul", g, _operand(op, position))


def _dividend_derivative(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Div", g, _operand(op, 1))


def _divisor_derivative(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Neg", b.op("Mul", g, b.op("Div", op.outputs[0], _operand(op, 1))))


def _mod_divisor_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build `g` times the derivative of `mod(x, y) = x - n * y` with respect to y, which is -n.

    The integer n is locally constant.
    """
    x, y = _operand(op), _operand(op, 1)
    return b.op("Mul", g, b.op("Div", b.op("Sub", op.outputs[0], x), y))


def _power_base_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build `g` times the derivative of `x ** p` with respect to x, which is `p * x ** (p - 1)`.

    The derivative is 0 if p is 0, even at x = 0.
    """
    x, power = _operand(op), cast(b, _operand(op, 1), op.outputs[0].dtype)
    zero, one = _build_constant(b, op, 0), _build_constant(b, op, 1)
    constant_power = b.constant_of(power)
    if constant_power is not None and constant_power.size == 1:
        return _constant_power_derivative(b, op, g, constant_power)
    is_zero_power = b.op("Equal", power, zero)
    reduced_power = b.op("Where", is_zero_power, one, b.op("Sub", power, one))
    return b.op("Mul", g, b.op("Mul", power, b.op("Pow", x, reduced_power)))


def _constant_power_derivative(b: Builder, op: Op, g: Value, power: Array) -> Value:
    x, constant_exponent = _operand(op), float(power.item())
    if constant_exponent in (0.0, 1.0):
        return g if constant_exponent else b.op("Mul", g, _build_constant(b, op, 0))
    reduced_power = (
        x
        if constant_exponent == 2.0
        else b.op("Pow", x, _build_constant(b, op, constant_exponent - 1))
    )
    return b.op("Mul", g, b.op("Mul", _build_constant(b, op, constant_exponent), reduced_power))


def _power_exponent_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build `g` times the derivative of `x ** p` with respect to p, which is `x ** p * log(x)`.

    The derivative is 0 at x = 0.
    """
    x, result_dtype = _operand(op), op.outputs[0].dtype
    nonzero_base = b.op(
        "Where", b.op("Equal", x, _build_constant(b, op, 0)), _build_constant(b, op, 1), x
    )
    exponent_slope = b.op("Mul", op.outputs[0], b.op("Log", nonzero_base))
    scaled_slope = b.op("Mul", cast(b, g, result_dtype), exponent_slope)
    return cast(b, scaled_slope, _operand(op, 1).dtype) if g.dtype == result_dtype else scaled_slope


def _extreme_derivative(k: int) -> ElementDerivative:
    """Return the partial derivative of `Max` or `Min` for operand k, divided equally among ties."""

    def derivative(b: Builder, op: Op, g: Value) -> Value:
        y = op.outputs[0]
        is_extreme = [cast(b, b.op("Equal", x, y), y.dtype) for x in op.inputs if x is not None]
        extreme_count = b.op("Sum", *is_extreme) if len(is_extreme) > 1 else is_extreme[0]
        return b.op("Mul", g, b.op("Div", is_extreme[k], extreme_count))

    return derivative


def _mean_derivative(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Div", g, _build_constant(b, op, len(op.inputs)))


def _where_derivative(is_first: bool) -> ElementDerivative:
    def derivative(b: Builder, op: Op, g: Value) -> Value:
        zero = _build_constant(b, op, 0)
        return b.op("Where", _operand(op), *((g, zero) if is_first else (zero, g)))

    return derivative


def _cast_derivatives(op: Op) -> tuple[ElementDerivative | None, ...]:
    """Return the partial derivatives of a cast, which are None unless both dtypes are floats.

    A tangent is cast to the dtype of the result, a cotangent to that of the operand.
    """
    target_dtype = op.outputs[0].dtype
    if not (is_float(op.inputs[0]) and is_float(op.outputs[0])):
        return (None,) * len(op.inputs)

    def derivative(b: Builder, op: Op, g: Value) -> Value:
        return cast(b, g, _operand(op).dtype if g.dtype == target_dtype else target_dtype)

    return (derivative, *(None,) * (len(op.inputs) - 1))


def _decompose_clip(b: Builder, op: Op) -> Value:
    """Decompose Clip into `Min(Max(x, low), high)`, whose operations have derivatives.

    A bound that equals x shares the derivative.
    """
    y, *clip_bounds = (*op.inputs, None, None)[:3]
    assert y is not None
    for op_type, clip_bound in zip(("Max", "Min"), clip_bounds, strict=True):
        y = y if clip_bound is None else b.op(op_type, y, clip_bound)
    return b.op("Identity", y)


def _decompose_mish(b: Builder, op: Op) -> Value:
    """Decompose Mish into `x * tanh(softplus(x))`, whose operations have derivatives."""
    return b.op("Mul", _operand(op), b.op("Tanh", b.op("Softplus", _operand(op))))


SUM_DERIVATIVE = Pointwise(lambda op: (_return_unchanged,) * len(op.inputs))
MEAN_DERIVATIVE = Pointwise(lambda op: (_mean_derivative,) * len(op.inputs))
EXTREME_DERIVATIVE = Pointwise(lambda op: [_extreme_derivative(k) for k in range(len(op.inputs))])
ADD_DERIVATIVE = pointwise(_return_unchanged, _return_unchanged)
SUB_DERIVATIVE = pointwise(_return_unchanged, _negate)
MUL_DERIVATIVE = pointwise(_multiply_by_operand(1), _multiply_by_operand(0))
DIV_DERIVATIVE = pointwise(_dividend_derivative, _divisor_derivative)
NEG_DERIVATIVE = pointwise(_negate)
MOD_DERIVATIVE = pointwise(_return_unchanged, _mod_divisor_derivative)
POW_DERIVATIVE = pointwise(_power_base_derivative, _power_exponent_derivative)
IDENTITY_DERIVATIVE = pointwise(_return_unchanged)
WHERE_DERIVATIVE = pointwise(None, _where_derivative(True), _where_derivative(False))
CAST_DERIVATIVE = Pointwise(_cast_derivatives)
CLIP_DERIVATIVE = DecomposedDerivative(_decompose_clip)


# --- unary functions ----------------------------------------------------------------------------


def _multiply_by_slope(slope: ElementDerivative) -> Pointwise:
    """Return a unary function's differentiation rule: multiply by its derivative, `slope`."""
    return pointwise(lambda b, op, g: b.op("Mul", g, slope(b, op, g)))


def _divide_by_slope(slope: ElementDerivative) -> Pointwise:
    return pointwise(lambda b, op, g: b.op("Div", g, slope(b, op, g)))


def _result_slope(b: Builder, op: Op, g: Value) -> Value:
    return op.outputs[0]


def _function_slope(op_type: str) -> ElementDerivative:
    return lambda b, op, g: b.op(op_type, _operand(op))


def _square(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, x)


def _square_root_slope(constant: float, op_type: str) -> ElementDerivative:
    """Return a function that builds `sqrt(constant + x * x)` or `sqrt(constant - x * x)`.

    `op_type` is `Add` or `Sub`.
    """
    return lambda b, op, g: b.op("Sqrt", _square_slope(op_type, constant)(b, op, g))


def _square_slope(
    op_type: str, constant: float = 1.0, *, of_result: bool = False
) -> ElementDerivative:
    """Return a function that builds `constant + x * x` or `constant - x * x` for a derivative.

    x is the operand or the result. `op_type` is `Add` or `Sub`.
    """

    def slope(b: Builder, op: Op, g: Value) -> Value:
        x = op.outputs[0] if of_result else _operand(op)
        return b.op(op_type, _build_constant(b, op, constant), _square(b, x))

    return slope


def _negate_slope(slope: ElementDerivative) -> ElementDerivative:
    return lambda b, op, g: b.op("Neg", slope(b, op, g))


def _double_result_slope(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Mul", op.outputs[0], _build_constant(b, op, 2))


def _acosh_slope(b: Builder, op: Op, g: Value) -> Value:
    x, one = _operand(op), _build_constant(b, op, 1)
    return b.op("Mul", b.op("Sqrt", b.op("Sub", x, one)), b.op("Sqrt", b.op("Add", x, one)))


def _erf_slope(b: Builder, op: Op, g: Value) -> Value:
    exponential = b.op("Exp", b.op("Neg", _square(b, _operand(op))))
    return b.op("Mul", _build_constant(b, op, 2 / math.sqrt(math.pi)), exponential)


def _logistic_slope(b: Builder, op: Op, g: Value) -> Value:
    y = op.outputs[0]
    return b.op("Mul", y, b.op("Sub", _build_constant(b, op, 1), y))


ABS_DERIVATIVE = _multiply_by_slope(_function_slope("Sign"))
SQRT_DERIVATIVE = _divide_by_slope(_double_result_slope)
RECIPROCAL_DERIVATIVE = _multiply_by_slope(
    _negate_slope(lambda b, op, g: _square(b, op.outputs[0]))
)
EXP_DERIVATIVE = _multiply_by_slope(_result_slope)
LOG_DERIVATIVE = pointwise(lambda b, op, g: b.op("Div", g, _operand(op)))
SIN_DERIVATIVE = _multiply_by_slope(_function_slope("Cos"))
COS_DERIVATIVE = _multiply_by_slope(_negate_slope(_function_slope("Sin")))
TAN_DERIVATIVE = _multiply_by_slope(_square_slope("Add", of_result=True))
ASIN_DERIVATIVE = _divide_by_slope(_square_root_slope(1.0, "Sub"))
ACOS_DERIVATIVE = _divide_by_slope(_negate_slope(_square_root_slope(1.0, "Sub")))
ATAN_DERIVATIVE = _divide_by_slope(_square_slope("Add"))
SINH_DERIVATIVE = _multiply_by_slope(_function_slope("Cosh"))
COSH_DERIVATIVE = _multiply_by_slope(_function_slope("Sinh"))
TANH_DERIVATIVE = _multiply_by_slope(_square_slope("Sub", of_result=True))
ASINH_DERIVATIVE = _divide_by_slope(_square_root_slope(1.0, "Add"))
ACOSH_DERIVATIVE = _divide_by_slope(_acosh_slope)
ATANH_DERIVATIVE = _divide_by_slope(_square_slope("Sub"))
ERF_DERIVATIVE = _multiply_by_slope(_erf_slope)
SIGMOID_DERIVATIVE = _multiply_by_slope(_logistic_slope)
SOFTPLUS_DERIVATIVE = _multiply_by_slope(_function_slope("Sigmoid"))


# --- activations --------------------------------------------------------------------------------


def _attribute(op: Op, name: str) -> float:
    return float(onnx_schema.attribute(op.op_type, op.attributes, name))


def _piecewise_slope(
    bound: str | float,
    slope_above: ElementDerivative,
    slope_below: ElementDerivative,
    comparison: str = "Greater",
) -> Pointwise:
    """Return the derivative of a unary function with separate slopes above and below a bound.

    The bound is a number or the name of an attribute.
    """

    def slope(b: Builder, op: Op, g: Value) -> Value:
        bound_value = _attribute(op, bound) if isinstance(bound, str) else bound
        is_above = b.op(comparison, _operand(op), _build_constant(b, op, bound_value))
        return b.op("Where", is_above, slope_above(b, op, g), slope_below(b, op, g))

    return _multiply_by_slope(slope)


def _constant_slope(number: float) -> ElementDerivative:
    return lambda b, op, g: _build_constant(b, op, number)


def _attribute_slope(name: str) -> ElementDerivative:
    return lambda b, op, g: _build_constant(b, op, _attribute(op, name))


def _elu_slope_below(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Add", op.outputs[0], _build_constant(b, op, _attribute(op, "alpha")))


def _selu_slope_below(b: Builder, op: Op, g: Value) -> Value:
    gamma_alpha = _attribute(op, "gamma") * _attribute(op, "alpha")
    return b.op("Add", op.outputs[0], _build_constant(b, op, gamma_alpha))


def _celu_slope_below(b: Builder, op: Op, g: Value) -> Value:
    y_over_alpha = b.op("Div", op.outputs[0], _build_constant(b, op, _attribute(op, "alpha")))
    return b.op("Add", y_over_alpha, _build_constant(b, op, 1))


def _hard_sigmoid_slope(b: Builder, op: Op, g: Value) -> Value:
    y = op.outputs[0]
    is_between = b.op(
        "And",
        b.op("Greater", y, _build_constant(b, op, 0)),
        b.op("Less", y, _build_constant(b, op, 1)),
    )
    return b.op(
        "Where",
        is_between,
        _build_constant(b, op, _attribute(op, "alpha")),
        _build_constant(b, op, 0),
    )


RELU_DERIVATIVE = _piecewise_slope(0.0, _constant_slope(1), _constant_slope(0))
LEAKY_RELU_DERIVATIVE = _piecewise_slope(
    0.0, _constant_slope(1), _attribute_slope("alpha"), "GreaterOrEqual"
)
THRESHOLDED_RELU_DERIVATIVE = _piecewise_slope("alpha", _constant_slope(1), _constant_slope(0))
ELU_DERIVATIVE = _piecewise_slope(0.0, _constant_slope(1), _elu_slope_below)
SELU_DERIVATIVE = _piecewise_slope(0.0, _attribute_slope("gamma"), _selu_slope_below)
CELU_DERIVATIVE = _piecewise_slope(0.0, _constant_slope(1), _celu_slope_below)
HARD_SIGMOID_DERIVATIVE = _multiply_by_slope(_hard_sigmoid_slope)
MISH_DERIVATIVE = DecomposedDerivative(_decompose_mish)
