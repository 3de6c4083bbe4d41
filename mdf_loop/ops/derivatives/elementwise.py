"""Derivatives of what is computed element by element.

At a kink: `Abs` has 0; of equal operands each has its share of `Max` and `Min`; `Where` has that of the
side that is taken; `Relu` has 0 at 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.derivatives.rule import Pointwise, Side, Through, is_float, pointwise
from mdf_loop.ops.words import cast, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def _x(op: Op, k: int = 0) -> Value:
    x = op.inputs[k]
    assert x is not None
    return x


def _number(b: Builder, op: Op, number: float) -> Value:
    return scalar(b, number, op.outputs[0].dtype)


def _same(b: Builder, op: Op, g: Value) -> Value:
    return g


def _negated(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Neg", g)


# --- arithmetic ---------------------------------------------------------------------------------


def _times(other: int) -> Side:
    return lambda b, op, g: b.op("Mul", g, _x(op, other))


def _over(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Div", g, _x(op, 1))


def _divisor(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Neg", b.op("Mul", g, b.op("Div", op.outputs[0], _x(op, 1))))


def _modulus(b: Builder, op: Op, g: Value) -> Value:
    """`x - n * y` has one whole number n around."""
    x, y = _x(op), _x(op, 1)
    return b.op("Mul", g, b.op("Div", b.op("Sub", op.outputs[0], x), y))


def _base(b: Builder, op: Op, g: Value) -> Value:
    """`p * x ** (p - 1)`; 0 where p is 0, also of x = 0."""
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


def _exponent(b: Builder, op: Op, g: Value) -> Value:
    """`x ** p * log(x)`, which is 0 at x = 0; the exponent may be of another dtype."""
    x, wide = _x(op), op.outputs[0].dtype
    positive = b.op("Where", b.op("Equal", x, _number(b, op, 0)), _number(b, op, 1), x)
    slope = b.op("Mul", op.outputs[0], b.op("Log", positive))
    made = b.op("Mul", cast(b, g, wide), slope)
    return cast(b, made, _x(op, 1).dtype) if g.dtype == wide else made


def _share(k: int) -> Side:
    """Of the largest, or the smallest, operands: as many share what is one of them."""

    def side(b: Builder, op: Op, g: Value) -> Value:
        y = op.outputs[0]
        is_one = [cast(b, b.op("Equal", x, y), y.dtype) for x in op.inputs if x is not None]
        how_many = b.op("Sum", *is_one) if len(is_one) > 1 else is_one[0]
        return b.op("Mul", g, b.op("Div", is_one[k], how_many))

    return side


def _mean(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Div", g, _number(b, op, len(op.inputs)))


def _taken(taken: bool) -> Side:
    def side(b: Builder, op: Op, g: Value) -> Value:
        zero = _number(b, op, 0)
        return b.op("Where", _x(op), *((g, zero) if taken else (zero, g)))

    return side


def _converted(op: Op) -> tuple[Side | None, ...]:
    """To another dtype; a tangent goes the other way than a cotangent."""
    target = op.outputs[0].dtype
    if not (is_float(op.inputs[0]) and is_float(op.outputs[0])):
        return (None,) * len(op.inputs)

    def side(b: Builder, op: Op, g: Value) -> Value:
        return cast(b, g, _x(op).dtype if g.dtype == target else target)

    return (side, *(None,) * (len(op.inputs) - 1))


def _clipped(b: Builder, op: Op) -> Value:
    """Not above the one, not below the other bound: what is equal to it shares with it."""
    y, *bounds = (*op.inputs, None, None)[:3]
    assert y is not None
    for word, bound in zip(("Max", "Min"), bounds, strict=True):
        y = y if bound is None else b.op(word, y, bound)
    return b.op("Identity", y)


def _mish(b: Builder, op: Op) -> Value:
    """`x * tanh(softplus(x))`, in functions that have slopes of their own."""
    return b.op("Mul", _x(op), b.op("Tanh", b.op("Softplus", _x(op))))


SUM = Pointwise(lambda op: (_same,) * len(op.inputs))
MEAN = Pointwise(lambda op: (_mean,) * len(op.inputs))
EXTREME = Pointwise(lambda op: [_share(k) for k in range(len(op.inputs))])
ADD = pointwise(_same, _same)
SUB = pointwise(_same, _negated)
MUL = pointwise(_times(1), _times(0))
DIV = pointwise(_over, _divisor)
NEG = pointwise(_negated)
MOD = pointwise(_same, _modulus)
POW = pointwise(_base, _exponent)
IDENTITY = pointwise(_same)
WHERE = pointwise(None, _taken(True), _taken(False))
CONVERTED = Pointwise(_converted)
CLIP = Through(_clipped)


# --- functions of one number --------------------------------------------------------------------


def _by(slope: Side) -> Pointwise:
    """Of a function whose slope is made of its operand `x` and its result."""
    return pointwise(lambda b, op, g: b.op("Mul", g, slope(b, op, g)))


def _divided_by(slope: Side) -> Pointwise:
    return pointwise(lambda b, op, g: b.op("Div", g, slope(b, op, g)))


def _result(b: Builder, op: Op, g: Value) -> Value:
    return op.outputs[0]


def _of(word: str) -> Side:
    return lambda b, op, g: b.op(word, _x(op))


def _square(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, x)


def _root_of(constant: float, sign: str) -> Side:
    """`sqrt(constant +- x * x)`."""
    return lambda b, op, g: b.op("Sqrt", _with_square(sign, constant)(b, op, g))


def _with_square(sign: str, constant: float = 1.0, *, of_result: bool = False) -> Side:
    """`constant +- x * x`, of the operand or of the result."""

    def slope(b: Builder, op: Op, g: Value) -> Value:
        x = op.outputs[0] if of_result else _x(op)
        return b.op(sign, _number(b, op, constant), _square(b, x))

    return slope


def _minus(slope: Side) -> Side:
    return lambda b, op, g: b.op("Neg", slope(b, op, g))


def _twice_result(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Mul", op.outputs[0], _number(b, op, 2))


def _acosh_slope(b: Builder, op: Op, g: Value) -> Value:
    x, one = _x(op), _number(b, op, 1)
    return b.op("Mul", b.op("Sqrt", b.op("Sub", x, one)), b.op("Sqrt", b.op("Add", x, one)))


def _bell(b: Builder, op: Op, g: Value) -> Value:
    curve = b.op("Exp", b.op("Neg", _square(b, _x(op))))
    return b.op("Mul", _number(b, op, 2 / math.sqrt(math.pi)), curve)


def _logistic_slope(b: Builder, op: Op, g: Value) -> Value:
    y = op.outputs[0]
    return b.op("Mul", y, b.op("Sub", _number(b, op, 1), y))


ABS = _by(_of("Sign"))
SQRT = _divided_by(_twice_result)
RECIPROCAL = _by(_minus(lambda b, op, g: _square(b, op.outputs[0])))
EXP = _by(_result)
LOG = pointwise(lambda b, op, g: b.op("Div", g, _x(op)))
SIN = _by(_of("Cos"))
COS = _by(_minus(_of("Sin")))
TAN = _by(_with_square("Add", of_result=True))
ASIN = _divided_by(_root_of(1.0, "Sub"))
ACOS = _divided_by(_minus(_root_of(1.0, "Sub")))
ATAN = _divided_by(_with_square("Add"))
SINH = _by(_of("Cosh"))
COSH = _by(_of("Sinh"))
TANH = _by(_with_square("Sub", of_result=True))
ASINH = _divided_by(_root_of(1.0, "Add"))
ACOSH = _divided_by(_acosh_slope)
ATANH = _divided_by(_with_square("Sub"))
ERF = _by(_bell)
SIGMOID = _by(_logistic_slope)
SOFTPLUS = _by(_of("Sigmoid"))


# --- activations --------------------------------------------------------------------------------


def _attribute(op: Op, name: str) -> float:
    return float(onnx_schema.attribute(op.op_type, op.attributes, name))


def _above(bound: str | float, above: Side, below: Side, word: str = "Greater") -> Pointwise:
    """One slope above a bound, another one elsewhere; the bound is a number or an attribute."""

    def slope(b: Builder, op: Op, g: Value) -> Value:
        number = _attribute(op, bound) if isinstance(bound, str) else bound
        is_above = b.op(word, _x(op), _number(b, op, number))
        return b.op("Where", is_above, above(b, op, g), below(b, op, g))

    return _by(slope)


def _constant(number: float) -> Side:
    return lambda b, op, g: _number(b, op, number)


def _given(name: str) -> Side:
    return lambda b, op, g: _number(b, op, _attribute(op, name))


def _more_than_result(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Add", op.outputs[0], _number(b, op, _attribute(op, "alpha")))


def _selu_below(b: Builder, op: Op, g: Value) -> Value:
    most = _attribute(op, "gamma") * _attribute(op, "alpha")
    return b.op("Add", op.outputs[0], _number(b, op, most))


def _celu_below(b: Builder, op: Op, g: Value) -> Value:
    part = b.op("Div", op.outputs[0], _number(b, op, _attribute(op, "alpha")))
    return b.op("Add", part, _number(b, op, 1))


def _hard_slope(b: Builder, op: Op, g: Value) -> Value:
    y = op.outputs[0]
    inside = b.op(
        "And",
        b.op("Greater", y, _number(b, op, 0)),
        b.op("Less", y, _number(b, op, 1)),
    )
    return b.op("Where", inside, _number(b, op, _attribute(op, "alpha")), _number(b, op, 0))


RELU = _above(0.0, _constant(1), _constant(0))
LEAKY_RELU = _above(0.0, _constant(1), _given("alpha"), "GreaterOrEqual")
THRESHOLDED_RELU = _above("alpha", _constant(1), _constant(0))
ELU = _above(0.0, _constant(1), _more_than_result)
SELU = _above(0.0, _given("gamma"), _selu_below)
CELU = _above(0.0, _constant(1), _celu_below)
HARD_SIGMOID = _by(_hard_slope)
MISH = Through(_mish)
