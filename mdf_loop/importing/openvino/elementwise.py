"""Conversion of OpenVINO's elementwise layers: arithmetic, comparisons, logic, rounding.

Source: OpenVINO operation sets, groups "Arithmetic", "Comparison", "Logical".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mdf_loop.importing.openvino.call import (
    TRANSLATORS,
    LayerCall,
    Result,
    Translator,
    cast,
    layer,
    unary,
)
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.place import OnnxOp, Term, op
from mdf_loop.ir import Array


def _check_broadcast(call: LayerCall) -> None:
    call.choice("auto_broadcast", {"numpy": None, "none": None}, "numpy")


def _binary(op_type: str) -> Translator:
    def translate(call: LayerCall) -> Result:
        _check_broadcast(call)
        return op(op_type, call.input(0), call.input(1))

    return translate


TRANSLATORS.update(
    {
        "Add": _binary("Add"),
        "Subtract": _binary("Sub"),
        "Multiply": _binary("Mul"),
        "Power": _binary("Pow"),
        "Maximum": _binary("Max"),
        "Minimum": _binary("Min"),
        "Equal": _binary("Equal"),
        "Less": _binary("Less"),
        "LessEqual": _binary("LessOrEqual"),
        "Greater": _binary("Greater"),
        "GreaterEqual": _binary("GreaterOrEqual"),
        "LogicalAnd": _binary("And"),
        "LogicalOr": _binary("Or"),
        "LogicalXor": _binary("Xor"),
        "LogicalNot": unary("Not"),
        "Identity": unary("Identity"),
        "IsNaN": unary("IsNaN"),
        "Abs": unary("Abs"),
        "Negative": unary("Neg"),
        "Exp": unary("Exp"),
        "Log": unary("Log"),
        "Sqrt": unary("Sqrt"),
        "Erf": unary("Erf"),
        "Sign": unary("Sign"),
        "Floor": unary("Floor"),
        "Ceiling": unary("Ceil"),
        "Sin": unary("Sin"),
        "Cos": unary("Cos"),
        "Tan": unary("Tan"),
        "Asin": unary("Asin"),
        "Acos": unary("Acos"),
        "Atan": unary("Atan"),
        "Sinh": unary("Sinh"),
        "Cosh": unary("Cosh"),
        "Asinh": unary("Asinh"),
        "Acosh": unary("Acosh"),
        "Atanh": unary("Atanh"),
    }
)


@layer("NotEqual")
def _not_equal(call: LayerCall) -> Result:
    _check_broadcast(call)
    return op("Not", op("Equal", call.input(0), call.input(1)))


@layer("SquaredDifference")
def _squared_difference(call: LayerCall) -> Result:
    _check_broadcast(call)
    difference = op("Sub", call.input(0), call.input(1))
    return op("Mul", difference, difference)


@layer("IsInf")
def _is_inf(call: LayerCall) -> Result:
    flags = {key: int(call.read_bool(key, True)) for key in ("detect_negative", "detect_positive")}
    return op("IsInf", call.input(0), **flags)


@layer("IsFinite")
def _is_finite(call: LayerCall) -> Result:
    x = call.input(0)
    return op("Not", op("Or", op("IsNaN", x), op("IsInf", x)))


@layer("Select")
def _select(call: LayerCall) -> Result:
    _check_broadcast(call)
    return op("Where", call.input(0), call.input(1), call.input(2))


@layer("Convert")
def _convert(call: LayerCall) -> Result:
    return cast(call.input(0), dtype_of_type(call.text("destination_type"), call.layer.where))


@layer("ConvertLike")
def _convert_like(call: LayerCall) -> Result:
    if call.is_of(1, ""):
        return op("CastLike", call.input(0), call.input(1))
    return cast(call.input(0), call.dtype(1))


# --- division ---------------------------------------------------------------------------------


@layer("Divide")
def _divide(call: LayerCall) -> Result:
    """Convert Divide. Integers are rounded down, or towards zero if `m_pythondiv` is false."""
    _check_broadcast(call)
    x, y = call.input(0), call.input(1)
    quotient = op("Div", x, y)
    if call.is_float() or call.dtype().startswith("u") or not call.read_bool("m_pythondiv", True):
        return quotient
    remainder = op("Sub", x, op("Mul", quotient, y))
    quotient_minus_one = op("Sub", quotient, call.number(1))
    return op("Where", _signs_differ(call, remainder, y), quotient_minus_one, quotient)


def _signs_differ(call: LayerCall, remainder: Term, y: Term) -> OnnxOp:
    """Return a mask of nonzero remainders whose sign differs from that of the divisor."""
    zero = call.number(0)
    signs_differ = op("Xor", op("Less", remainder, zero), op("Less", y, zero))
    return op("And", op("Not", op("Equal", remainder, zero)), signs_differ)


@layer("Mod")
def _mod(call: LayerCall) -> Result:
    """Convert Mod, the remainder of a division that rounds towards zero."""
    _check_broadcast(call)
    return op("Mod", call.input(0), call.input(1), fmod=1)


@layer("FloorMod")
def _floor_mod(call: LayerCall) -> Result:
    """Convert FloorMod, the remainder of a division that rounds down. It has the divisor's sign."""
    _check_broadcast(call)
    return op("Mod", call.input(0), call.input(1), fmod=0)


# --- bounds and rounding ----------------------------------------------------------------------


@layer("Clamp")
def _clamp(call: LayerCall) -> Result:
    """Convert Clamp. For integer inputs, the lower bound is rounded up and the upper bound down."""
    stated_lower, stated_upper = call.read_float("min"), call.read_float("max")
    if call.is_float():
        return op("Clip", call.input(0), call.number(stated_lower), call.number(stated_upper))
    lower, upper = (
        _integer_bound(call, stated_bound, round_bound)
        for stated_bound, round_bound in ((stated_lower, math.ceil), (stated_upper, math.floor))
    )
    return op("Min", op("Max", call.input(0), lower), upper)


def _integer_bound(call: LayerCall, number: float, rounding: Callable[[float], int]) -> Array:
    integer_range = np.iinfo(call.dtype())
    if number <= integer_range.min or number >= integer_range.max:
        bound = integer_range.min if number <= integer_range.min else integer_range.max
    else:
        bound = rounding(number)
    return np.array(bound, call.dtype())


@layer("Round")
def _round(call: LayerCall) -> Result:
    x = call.input(0)
    if call.choice("mode", {"half_to_even": True, "half_away_from_zero": False}, "half_to_even"):
        return op("Round", x)
    magnitude = op("Abs", x)
    rounded_down = op("Floor", magnitude)
    rounds_up = op("GreaterOrEqual", op("Sub", magnitude, rounded_down), call.number(0.5))
    rounded = op("Where", rounds_up, op("Add", rounded_down, call.number(1)), rounded_down)
    return op("Mul", op("Sign", x), rounded)
