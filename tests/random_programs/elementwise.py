"""Random elementwise nodes: arithmetic, functions, comparisons, casts and selections."""

from __future__ import annotations

from mdf_loop.ir.types import element_type
from tests.random_programs.drawing import Drawing, Known, NotPossibleError, Scope
from tests.random_programs.values import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    Extents,
    joined,
)

EXACT_UNARY = ("Neg", "Abs", "Floor", "Ceil", "Round", "Sign", "Relu", "Sqrt", "Identity")
FUNCTIONS = (
    *("Exp", "Log", "Tanh", "Sigmoid", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"),
    *("Asinh", "Acosh", "Atanh", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu", "Mish"),
    *("LeakyRelu", "HardSigmoid", "HardSwish", "ThresholdedRelu", "Shrink", "Reciprocal", "Gelu"),
)
COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")


def pair(d: Drawing, s: Scope, *dtypes: str) -> tuple[Known, Known, Extents]:
    """Return two values of one dtype that broadcast, often one value twice, and their broadcast shape."""
    left = d.of(s, *dtypes)
    if d.chance(0.1):
        return left, left, left.shape
    if d.chance(0.12):
        right = d.random_constant(s, left.dtype, d.rng.choice(((), (), (1,))))
    else:
        right = d.pick(
            s, lambda v: v.dtype == left.dtype and joined(left.shape, v.shape) is not None
        )
    if d.chance(0.5):
        left, right = right, left
    shape = joined(left.shape, right.shape)
    if shape is None:
        raise NotPossibleError
    return left, right, shape


def unary(d: Drawing, s: Scope) -> None:
    """Add an operation or a function of one number."""
    x = d.of(s, *NUMBERS)
    if x.dtype in FLOATS and d.profile.functions and d.chance(0.6):
        d.is_exact = False
        d.one(s, d.rng.choice(FUNCTIONS), [x], x.dtype, x.shape)
    elif x.dtype in FLOATS:
        d.one(s, d.rng.choice(EXACT_UNARY), [x], x.dtype, x.shape)
    elif x.dtype in SIGNED:
        d.one(s, d.rng.choice(("Neg", "Abs", "Sign", "BitwiseNot")), [x], x.dtype, x.shape)
    else:
        d.one(s, d.rng.choice(("Sign", "Abs", "BitwiseNot", "Identity")), [x], x.dtype, x.shape)


def arithmetic(d: Drawing, s: Scope) -> None:
    """Add a sum, difference, product, quotient or extreme."""
    x, y, shape = pair(d, s, *NUMBERS)
    operations = ["Add", "Sub", "Mul", "Max", "Min"]
    if x.dtype in FLOATS:
        operations += ["Div", "Div"]
    d.one(s, d.rng.choice(operations), [x, y], x.dtype, shape)


def division(d: Drawing, s: Scope) -> None:
    """Add a division of integers or a remainder; the divisor is mostly not zero."""
    x, y, shape = pair(d, s, *NUMBERS)
    if x.dtype in FLOATS:
        d.one(s, "Mod", [x, y], x.dtype, shape, fmod=1)
        return
    if d.chance(0.7):
        y, shape = d.constant(s, d.rng.choice((1, 2, 3, 7, 100)), x.dtype), x.shape
    elif d.chance(0.7):
        y = d.one(s, "Max", [y, d.constant(s, 1, y.dtype)], y.dtype, y.shape)
    if d.chance(0.5):
        d.one(s, "Div", [x, y], x.dtype, shape)
    else:
        d.one(s, "Mod", [x, y], x.dtype, shape, fmod=int(d.chance(0.3)))


def power(d: Drawing, s: Scope) -> None:
    """Add a power: of floats by any number, of integers by small exponents mostly."""
    if d.profile.functions and d.chance(0.5):
        x, y, shape = pair(d, s, *FLOATS)
        d.is_exact = False
        d.one(s, "Pow", [x, y], x.dtype, shape)
        return
    x = d.of(s, "int64", "int32")
    if d.chance(0.5):
        y = d.constant(s, d.rng.choice((0, 1, 2, 3, 5, 30, 63, 64, 70)), x.dtype)
    else:
        number = d.of(s, x.dtype)
        y = d.one(s, "Abs", [number], x.dtype, number.shape)
        y = d.one(s, "Mod", [y, d.constant(s, 70, x.dtype)], x.dtype, y.shape, fmod=1)
        y = d.one(s, "Abs", [y], x.dtype, y.shape)
    shape = joined(x.shape, y.shape)
    if shape is None:
        raise NotPossibleError
    d.one(s, "Pow", [x, y], x.dtype, shape)


def bits(d: Drawing, s: Scope) -> None:
    """Add an operation on the bits of integers."""
    x, y, shape = pair(d, s, *INTEGERS)
    if x.dtype in UNSIGNED and d.chance(0.4):
        width = d.constant(s, d.rng.randrange(8), x.dtype)
        direction = d.rng.choice(("LEFT", "RIGHT"))
        d.one(s, "BitShift", [x, width], x.dtype, x.shape, direction=direction)
        return
    operation = d.rng.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor"))
    d.one(s, operation, [x, y], x.dtype, shape)


def comparison(d: Drawing, s: Scope) -> None:
    """Add a comparison or a test of a number."""
    if d.chance(0.2):
        x = d.of(s, *FLOATS)
        d.one(s, d.rng.choice(("IsNaN", "IsInf")), [x], "bool", x.shape)
        return
    x, y, shape = pair(d, s, *NUMBERS)
    d.one(s, d.rng.choice(COMPARISONS), [x, y], "bool", shape)


def logic(d: Drawing, s: Scope) -> None:
    """Add an operation on truth values."""
    if d.chance(0.3):
        x = d.of(s, "bool")
        d.one(s, "Not", [x], "bool", x.shape)
        return
    x, y, shape = pair(d, s, "bool")
    d.one(s, d.rng.choice(("And", "Or", "Xor", "Equal")), [x, y], "bool", shape)


def where(d: Drawing, s: Scope) -> None:
    """Add a `Where` of two values, sometimes with one of them as the condition."""
    test = d.of(s, "bool")
    if d.chance(0.05):
        d.one(s, "Where", [test, test, test], "bool", test.shape)
        return
    x, y, shape = pair(d, s, *NUMBERS, "bool")
    whole = joined(test.shape, shape)
    if whole is None:
        raise NotPossibleError
    d.one(s, "Where", [test, x, y], x.dtype, whole)


def cast(d: Drawing, s: Scope) -> None:
    """Add a cast, sometimes with a cast back, sometimes through float16."""
    x = d.pick(s)
    target = d.rng.choice(d.profile.dtypes)
    if x.dtype in FLOATS and d.chance(0.1):
        target = d.rng.choice(("float16", "bfloat16"))
        short = d.one(s, "Cast", [x], target, x.shape, to=element_type(target))
        s.own.remove(short)
        d.one(s, "Cast", [short], x.dtype, x.shape, to=element_type(x.dtype))
        return
    casted = d.one(s, "Cast", [x], target, x.shape, to=element_type(target))
    if d.chance(0.15):
        d.one(s, "Cast", [casted], x.dtype, x.shape, to=element_type(x.dtype))


def clip(d: Drawing, s: Scope) -> None:
    """Add a `Clip` of a value."""
    x = d.of(s, *FLOATS, "int64", "int32", "uint64", "int8")
    low, high = (d.random_constant(s, x.dtype, ()) if d.chance(0.9) else None for _ in range(2))
    d.one(s, "Clip", [x, low, high], x.dtype, x.shape)


KINDS = {
    unary: 7.0,
    arithmetic: 10.0,
    division: 2.0,
    power: 0.7,
    bits: 1.0,
    comparison: 3.0,
    logic: 1.5,
    where: 3.0,
    cast: 3.0,
    clip: 0.7,
}
