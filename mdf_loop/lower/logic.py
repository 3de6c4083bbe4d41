"""Lowering of NumPy's arithmetic and logic functions: add, less, logical_and, where ..."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mdf_loop.ir import Value, is_fixed
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arrays import shape_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.lower.elementary import as_common_floats
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.terms import as_numpy, promote
from mdf_loop.ops.build_helpers import cast, extents, scalar

_NUMPY_NAMES: dict[Callable[[ModelBuilder, Value, Value], Value], tuple[str, ...]] = {
    ops.add: ("add",),
    ops.subtract: ("subtract",),
    ops.multiply: ("multiply",),
    ops.divide: ("divide", "true_divide"),
    ops.floor_divide: ("floor_divide",),
    ops.modulo: ("mod", "remainder"),
    ops.power: ("power", "pow"),
    ops.less: ("less",),
    ops.less_equal: ("less_equal",),
    ops.greater: ("greater",),
    ops.greater_equal: ("greater_equal",),
    ops.equal: ("equal",),
    ops.not_equal: ("not_equal",),
}
"""Names of the equivalent functions of numpy, by the lowering of an operator."""


def _register_operator(
    lower: Callable[[ModelBuilder, Value, Value], Value], spellings: tuple[str, ...]
) -> None:
    @register_as(*(f"numpy.{name}" for name in spellings))
    def call(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
        return as_numpy(b, lower(b, x1, x2))

    call.__doc__ = lower.__doc__


for _lower, _spellings in _NUMPY_NAMES.items():
    _register_operator(_lower, _spellings)


@register_as("numpy.negative")
def negative(b: ModelBuilder, x: Value, /) -> Value:
    """Return `-x`, element by element."""
    return as_numpy(b, ops.negative(b, x))


# --- logic ---------------------------------------------------------------------------------------


def _register_logical(op_type: str) -> None:
    @register_as(f"numpy.logical_{op_type.lower()}")
    def call(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
        return b.op(op_type, ops.truths(b, x1), ops.truths(b, x2))

    call.__doc__ = f"Return `x1 {op_type.lower()} x2`, element by element."


for _op_type in ("And", "Or", "Xor"):
    _register_logical(_op_type)


@register_as("numpy.logical_not")
def logical_not(b: ModelBuilder, x: Value, /) -> Value:
    """Return `not x`, element by element."""
    return b.op("Not", ops.truths(b, x))


@register_as("numpy.invert", "numpy.bitwise_not")
def invert(b: ModelBuilder, x: Value, /) -> Value:
    """Return `~x`, element by element."""
    return as_numpy(b, ops.invert(b, x))


@register_as("numpy.where")
def where(b: ModelBuilder, condition: Value, x: Value, y: Value, /) -> Value:
    """Return `x if condition else y`, element by element."""
    return b.op("Where", ops.truths(b, condition), *promote(b, x, y))


# --- approximate equality ------------------------------------------------------------------------


@register_as("numpy.isclose")
def isclose(
    b: ModelBuilder,
    a: Value,
    b_: Value,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Value:
    """Return True where `|a - b| <= atol + rtol * |b|` for finite b, or `a == b`."""
    first_operand, second_operand = as_common_floats(b, a, b_)
    magnitude = b.op("Abs", second_operand)
    tolerance = b.op("Mul", scalar(b, rtol, first_operand.dtype), magnitude)
    tolerance = b.op("Add", scalar(b, atol, first_operand.dtype), tolerance)
    is_within_tolerance = b.op(
        "LessOrEqual", b.op("Abs", b.op("Sub", first_operand, second_operand)), tolerance
    )
    is_finite = b.op("Less", magnitude, scalar(b, math.inf, first_operand.dtype))
    is_close = b.op(
        "Or",
        b.op("And", is_within_tolerance, is_finite),
        b.op("Equal", first_operand, second_operand),
    )
    if not equal_nan:
        return is_close
    return b.op(
        "Or", is_close, b.op("And", b.op("IsNaN", first_operand), b.op("IsNaN", second_operand))
    )


def all_elements_true(b: ModelBuilder, tests: Value) -> Value:
    """Return True if all elements of a bool array are true, or if the array is empty."""
    false_flags = cast(b, b.op("Not", tests), "int64")
    return b.op("Equal", b.op("ReduceSum", false_flags, keepdims=0), scalar(b, 0, "int64"))


@register_as("numpy.allclose")
def allclose(
    b: ModelBuilder,
    a: Value,
    b_: Value,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Value:
    """Return True if all elements of two arrays are close, by `isclose`."""
    return all_elements_true(b, isclose(b, a, b_, rtol, atol, equal_nan))


@register_as("numpy.array_equal")
def array_equal(b: ModelBuilder, a1: Value, a2: Value, /) -> Value:
    """Return True if both arrays have equal shapes and equal elements."""
    if is_fixed(a1.shape) and is_fixed(a2.shape):
        return (
            all_elements_true(b, ops.equal(b, a1, a2))
            if a1.shape == a2.shape
            else b.constant(False)
        )
    if len(extents(a1)) != len(extents(a2)):
        return b.constant(False)
    have_equal_shapes = all_elements_true(b, b.op("Equal", shape_of(b, a1), shape_of(b, a2)))
    false_constant = b.constant(np.array(False))
    return choose(
        b,
        have_equal_shapes,
        lambda branch: [all_elements_true(branch, ops.equal(branch, a1, a2))],
        lambda _: [false_constant],
        "array_equal",
    )[0]
