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


def _x(op: Op, k: int = 0) -> Value:
    x = op.inputs[k]
    assert x is not None
    return x


def _number(b: Builder, op: Op, number: float) -> Value:
    return scalar(b, number, op.outputs[0].dtype)


def _unchanged(b: Builder, op: Op, g: Value) -> Value:
    return g


def _negated(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Neg", g)


# --- arithmetic ---------------------------------------------------------------------------------


def _times_operand(other: int) -> ElementDerivative:
    return lambda b, op, g: b.op("Mul", g, _x(op, other))


def _over_divisor(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Div", g, _x(op, 1))


def _divisor(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Neg", b.op("Mul", g, b.op("Div", op.outputs[0], _x(op, 1))))


def _mod_divisor_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build `-n * g` for the divisor of `mod(x, y) = x - n * y`, where the integer n is locally constant."""
    x, y = _x(op), _x(op, 1)
    return b.op("Mul", g, b.op("Div", b.op("Sub", op.outputs[0], x), y))


def _power_base_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build `g * p * x ** (p - 1)` for the base of a power, or 0 if p is 0, even at x = 0."""
    x, power = _x(op), cast(b, _x(op, 1), op.outputs[0].dtype)
    zero, one = _number(b, op, 0), _number(b, op, 1)
    known = b.constant_of(power)
    if known is not None and known.size == 1:
        return _known_base(b, op, g, known)
    flat = b.op("Equal", power, zero)
    less = b.op("Where", flat, one, b.op("Sub", power, one))
    return b.op("Mul", g, b.op("Mul", power, b.op("Pow", x, less)))


def _known_base(b: Builder, op: Op, g: Value, power: Array) -> Value:
    x, number = _x(op), float(power.item())
    if number in (0.0, 1.0):
        return g if number else b.op("Mul", g, _number(b, op, 0))
    less = x if number == 2.0 else b.op("Pow", x, _number(b, op, number - 1))
    return b.op("Mul", g, b.op("Mul", _number(b, op, number), less))


def _power_exponent_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build `g * x ** p * log(x)` for the exponent of a power, or 0 at x = 0."""
    x, wide = _x(op), op.outputs[0].dtype
    positive = b.op("Where", b.op("Equal", x, _number(b, op, 0)), _number(b, op, 1), x)
    slope = b.op("Mul", op.outputs[0], b.op("Log", positive))
    change = b.op("Mul", cast(b, g, wide), slope)
    return cast(b, change, _x(op, 1).dtype) if g.dtype == wide else change


def _extreme_share(k: int) -> ElementDerivative:
    """Return the derivative of `Max` or `Min` by operand k, which operands equal to the extreme share equally."""

    def side(b: Builder, op: Op, g: Value) -> Value:
        y = op.outputs[0]
        is_extreme = [cast(b, b.op("Equal", x, y), y.dtype) for x in op.inputs if x is not None]
        n_extremes = b.op("Sum", *is_extreme) if len(is_extreme) > 1 else is_extreme[0]
        return b.op("Mul", g, b.op("Div", is_extreme[k], n_extremes))

    return side


def _mean(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Div", g, _number(b, op, len(op.inputs)))


def _where_branch(is_first: bool) -> ElementDerivative:
    def side(b: Builder, op: Op, g: Value) -> Value:
        zero = _number(b, op, 0)
        return b.op("Where", _x(op), *((g, zero) if is_first else (zero, g)))

    return side


def _cast_rule(op: Op) -> tuple[ElementDerivative | None, ...]:
    """Return the derivative function of each operand of a cast, which is not None only between float dtypes.

    A tangent is cast to the dtype of the result, a cotangent to that of the operand.
    """
    target = op.outputs[0].dtype
    if not (is_float(op.inputs[0]) and is_float(op.outputs[0])):
        return (None,) * len(op.inputs)

    def side(b: Builder, op: Op, g: Value) -> Value:
        return cast(b, g, _x(op).dtype if g.dtype == target else target)

    return (side, *(None,) * (len(op.inputs) - 1))


def _clip_rule(b: Builder, op: Op) -> Value:
    """Decompose Clip into `Min(Max(x, low), high)`, which shares the derivative with an equal bound."""
    y, *bounds = (*op.inputs, None, None)[:3]
    assert y is not None
    for word, bound in zip(("Max", "Min"), bounds, strict=True):
        y = y if bound is None else b.op(word, y, bound)
    return b.op("Identity", y)


def _mish_decomposition(b: Builder, op: Op) -> Value:
    """Decompose Mish into `x * tanh(softplus(x))`, whose operations have derivatives."""
    return b.op("Mul", _x(op), b.op("Tanh", b.op("Softplus", _x(op))))


SUM = Pointwise(lambda op: (_unchanged,) * len(op.inputs))
MEAN = Pointwise(lambda op: (_mean,) * len(op.inputs))
EXTREME = Pointwise(lambda op: [_extreme_share(k) for k in range(len(op.inputs))])
ADD = pointwise(_unchanged, _unchanged)
SUB = pointwise(_unchanged, _negated)
MUL = pointwise(_times_operand(1), _times_operand(0))
DIV = pointwise(_over_divisor, _divisor)
NEG = pointwise(_negated)
MOD = pointwise(_unchanged, _mod_divisor_derivative)
POW = pointwise(_power_base_derivative, _power_exponent_derivative)
IDENTITY = pointwise(_unchanged)
WHERE = pointwise(None, _where_branch(True), _where_branch(False))
CAST = Pointwise(_cast_rule)
CLIP = DecomposedDerivative(_clip_rule)


# --- unary functions ----------------------------------------------------------------------------


def _by_slope(slope: ElementDerivative) -> Pointwise:
    """Return the derivative of a unary function as `g` times the slope that `slope` builds."""
    return pointwise(lambda b, op, g: b.op("Mul", g, slope(b, op, g)))


def _divided_by(slope: ElementDerivative) -> Pointwise:
    return pointwise(lambda b, op, g: b.op("Div", g, slope(b, op, g)))


def _result(b: Builder, op: Op, g: Value) -> Value:
    return op.outputs[0]


def _function_slope(word: str) -> ElementDerivative:
    return lambda b, op, g: b.op(word, _x(op))


def _square(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, x)


def _square_root_term(constant: float, sign: str) -> ElementDerivative:
    """Return a function that builds the slope `sqrt(constant +- x * x)`; `sign` is `Add` or `Sub`."""
    return lambda b, op, g: b.op("Sqrt", _square_term(sign, constant)(b, op, g))


def _square_term(sign: str, constant: float = 1.0, *, of_result: bool = False) -> ElementDerivative:
    """Return a function that builds `constant +- x * x`, where x is the operand or the result."""

    def slope(b: Builder, op: Op, g: Value) -> Value:
        x = op.outputs[0] if of_result else _x(op)
        return b.op(sign, _number(b, op, constant), _square(b, x))

    return slope


def _minus(slope: ElementDerivative) -> ElementDerivative:
    return lambda b, op, g: b.op("Neg", slope(b, op, g))


def _twice_result(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Mul", op.outputs[0], _number(b, op, 2))


def _acosh_slope(b: Builder, op: Op, g: Value) -> Value:
    x, one = _x(op), _number(b, op, 1)
    return b.op("Mul", b.op("Sqrt", b.op("Sub", x, one)), b.op("Sqrt", b.op("Add", x, one)))


def _erf_slope(b: Builder, op: Op, g: Value) -> Value:
    curve = b.op("Exp", b.op("Neg", _square(b, _x(op))))
    return b.op("Mul", _number(b, op, 2 / math.sqrt(math.pi)), curve)


def _logistic_slope(b: Builder, op: Op, g: Value) -> Value:
    y = op.outputs[0]
    return b.op("Mul", y, b.op("Sub", _number(b, op, 1), y))


ABS = _by_slope(_function_slope("Sign"))
SQRT = _divided_by(_twice_result)
RECIPROCAL = _by_slope(_minus(lambda b, op, g: _square(b, op.outputs[0])))
EXP = _by_slope(_result)
LOG = pointwise(lambda b, op, g: b.op("Div", g, _x(op)))
SIN = _by_slope(_function_slope("Cos"))
COS = _by_slope(_minus(_function_slope("Sin")))
TAN = _by_slope(_square_term("Add", of_result=True))
ASIN = _divided_by(_square_root_term(1.0, "Sub"))
ACOS = _divided_by(_minus(_square_root_term(1.0, "Sub")))
ATAN = _divided_by(_square_term("Add"))
SINH = _by_slope(_function_slope("Cosh"))
COSH = _by_slope(_function_slope("Sinh"))
TANH = _by_slope(_square_term("Sub", of_result=True))
ASINH = _divided_by(_square_root_term(1.0, "Add"))
ACOSH = _divided_by(_acosh_slope)
ATANH = _divided_by(_square_term("Sub"))
ERF = _by_slope(_erf_slope)
SIGMOID = _by_slope(_logistic_slope)
SOFTPLUS = _by_slope(_function_slope("Sigmoid"))


# --- activations --------------------------------------------------------------------------------


def _attribute(op: Op, name: str) -> float:
    return float(onnx_schema.attribute(op.op_type, op.attributes, name))


def _piecewise_slope(
    bound: str | float, above: ElementDerivative, below: ElementDerivative, word: str = "Greater"
) -> Pointwise:
    """Return the derivative of a unary function with separate slopes above and below a bound.

    The bound is a number or the name of an attribute.
    """

    def slope(b: Builder, op: Op, g: Value) -> Value:
        number = _attribute(op, bound) if isinstance(bound, str) else bound
        is_above = b.op(word, _x(op), _number(b, op, number))
        return b.op("Where", is_above, above(b, op, g), below(b, op, g))

    return _by_slope(slope)


def _constant(number: float) -> ElementDerivative:
    return lambda b, op, g: _number(b, op, number)


def _attribute_slope(name: str) -> ElementDerivative:
    return lambda b, op, g: _number(b, op, _attribute(op, name))


def _elu_slope_below(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Add", op.outputs[0], _number(b, op, _attribute(op, "alpha")))


def _selu_slope_below(b: Builder, op: Op, g: Value) -> Value:
    product = _attribute(op, "gamma") * _attribute(op, "alpha")
    return b.op("Add", op.outputs[0], _number(b, op, product))


def _celu_slope_below(b: Builder, op: Op, g: Value) -> Value:
    part = b.op("Div", op.outputs[0], _number(b, op, _attribute(op, "alpha")))
    return b.op("Add", part, _number(b, op, 1))


def _hard_sigmoid_slope(b: Builder, op: Op, g: Value) -> Value:
    y = op.outputs[0]
    inside = b.op(
        "And",
        b.op("Greater", y, _number(b, op, 0)),
        b.op("Less", y, _number(b, op, 1)),
    )
    return b.op("Where", inside, _number(b, op, _attribute(op, "alpha")), _number(b, op, 0))


RELU = _piecewise_slope(0.0, _constant(1), _constant(0))
LEAKY_RELU = _piecewise_slope(0.0, _constant(1), _attribute_slope("alpha"), "GreaterOrEqual")
THRESHOLDED_RELU = _piecewise_slope("alpha", _constant(1), _constant(0))
ELU = _piecewise_slope(0.0, _constant(1), _elu_slope_below)
SELU = _piecewise_slope(0.0, _attribute_slope("gamma"), _selu_slope_below)
CELU = _piecewise_slope(0.0, _constant(1), _celu_slope_below)
HARD_SIGMOID = _by_slope(_hard_sigmoid_slope)
MISH = DecomposedDerivative(_mish_decomposition)
