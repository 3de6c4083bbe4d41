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
    LayerOutputs,
    Translator,
    cast,
    layer,
    unary,
)
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.network_writer import OnnxOp, Term, op
from mdf_loop.ir import Array


def _check_broadcast(layer_call: LayerCall) -> None:
    layer_call.read_choice("auto_broadcast", {"numpy": None, "none": None}, "numpy")


def _binary(op_type: str) -> Translator:
    def translate(layer_call: LayerCall) -> LayerOutputs:
        _check_broadcast(layer_call)
        return op(op_type, layer_call.input(0), layer_call.input(1))

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
def _not_equal(layer_call: LayerCall) -> LayerOutputs:
    _check_broadcast(layer_call)
    return op("Not", op("Equal", layer_call.input(0), layer_call.input(1)))


@layer("SquaredDifference")
def _squared_difference(layer_call: LayerCall) -> LayerOutputs:
    _check_broadcast(layer_call)
    difference = op("Sub", layer_call.input(0), layer_call.input(1))
    return op("Mul", difference, difference)


@layer("IsInf")
def _is_inf(layer_call: LayerCall) -> LayerOutputs:
    sign_attributes = {
        attribute_key: int(layer_call.read_bool(attribute_key, True))
        for attribute_key in ("detect_negative", "detect_positive")
    }
    return op("IsInf", layer_call.input(0), **sign_attributes)


@layer("IsFinite")
def _is_finite(layer_call: LayerCall) -> LayerOutputs:
    x = layer_call.input(0)
    return op("Not", op("Or", op("IsNaN", x), op("IsInf", x)))


@layer("Select")
def _select(layer_call: LayerCall) -> LayerOutputs:
    _check_broadcast(layer_call)
    return op("Where", layer_call.input(0), layer_call.input(1), layer_call.input(2))


@layer("Convert")
def _convert(layer_call: LayerCall) -> LayerOutputs:
    return cast(
        layer_call.input(0),
        dtype_of_type(layer_call.read_text("destination_type"), layer_call.layer.location),
    )


@layer("ConvertLike")
def _convert_like(layer_call: LayerCall) -> LayerOutputs:
    if layer_call.has_declared_dtype(1, ""):
        return op("CastLike", layer_call.input(0), layer_call.input(1))
    return cast(layer_call.input(0), layer_call.dtype(1))


# --- division ---------------------------------------------------------------------------------


@layer("Divide")
def _divide(layer_call: LayerCall) -> LayerOutputs:
    """Convert Divide. Integers are rounded down, or towards zero if `m_pythondiv` is false."""
    _check_broadcast(layer_call)
    x, y = layer_call.input(0), layer_call.input(1)
    quotient = op("Div", x, y)
    if (
        layer_call.is_float()
        or layer_call.dtype().startswith("u")
        or not layer_call.read_bool("m_pythondiv", True)
    ):
        return quotient
    remainder = op("Sub", x, op("Mul", quotient, y))
    quotient_minus_one = op("Sub", quotient, layer_call.scalar(1))
    return op("Where", _signs_differ(layer_call, remainder, y), quotient_minus_one, quotient)


def _signs_differ(layer_call: LayerCall, remainder: Term, y: Term) -> OnnxOp:
    """Return a mask of nonzero remainders whose sign differs from that of the divisor."""
    zero_scalar = layer_call.scalar(0)
    signs_differ = op("Xor", op("Less", remainder, zero_scalar), op("Less", y, zero_scalar))
    return op("And", op("Not", op("Equal", remainder, zero_scalar)), signs_differ)


@layer("Mod")
def _mod(layer_call: LayerCall) -> LayerOutputs:
    """Convert Mod, the remainder of a division that rounds towards zero."""
    _check_broadcast(layer_call)
    return op("Mod", layer_call.input(0), layer_call.input(1), fmod=1)


@layer("FloorMod")
def _floor_mod(layer_call: LayerCall) -> LayerOutputs:
    """Convert FloorMod, the remainder of a division that rounds down. It has the divisor's sign."""
    _check_broadcast(layer_call)
    return op("Mod", layer_call.input(0), layer_call.input(1), fmod=0)


# --- bounds and rounding ----------------------------------------------------------------------


@layer("Clamp")
def _clamp(layer_call: LayerCall) -> LayerOutputs:
    """Convert Clamp. For integer inputs, the lower bound is rounded up and the upper bound down."""
    stated_lower_bound, stated_upper_bound = (
        layer_call.read_float("min"),
        layer_call.read_float("max"),
    )
    if layer_call.is_float():
        return op(
            "Clip",
            layer_call.input(0),
            layer_call.scalar(stated_lower_bound),
            layer_call.scalar(stated_upper_bound),
        )
    lower_bound, upper_bound = (
        _integer_bound(layer_call, stated_bound, round_bound)
        for stated_bound, round_bound in (
            (stated_lower_bound, math.ceil),
            (stated_upper_bound, math.floor),
        )
    )
    return op("Min", op("Max", layer_call.input(0), lower_bound), upper_bound)


def _integer_bound(layer_call: LayerCall, number: float, rounding: Callable[[float], int]) -> Array:
    integer_range = np.iinfo(layer_call.dtype())
    if number <= integer_range.min or number >= integer_range.max:
        bound = integer_range.min if number <= integer_range.min else integer_range.max
    else:
        bound = rounding(number)
    return np.array(bound, layer_call.dtype())


@layer("Round")
def _round(layer_call: LayerCall) -> LayerOutputs:
    x = layer_call.input(0)
    if layer_call.read_choice(
        "mode", {"half_to_even": True, "half_away_from_zero": False}, "half_to_even"
    ):
        return op("Round", x)
    absolute_x = op("Abs", x)
    floor_of_absolute_x = op("Floor", absolute_x)
    must_round_up = op(
        "GreaterOrEqual", op("Sub", absolute_x, floor_of_absolute_x), layer_call.scalar(0.5)
    )
    rounded_magnitude = op(
        "Where",
        must_round_up,
        op("Add", floor_of_absolute_x, layer_call.scalar(1)),
        floor_of_absolute_x,
    )
    return op("Mul", op("Sign", x), rounded_magnitude)
