"""Arithmetic on schedule counters and flags that are Python constants or program values.

Constants are computed at once, without an operation in the program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder

Number: TypeAlias = int | Value
Truth: TypeAlias = bool | Value

PYTHON_COMPARISONS: dict[str, Callable[[int | float, int | float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
ONNX_COMPARISONS = {
    "<": "Less",
    "<=": "LessOrEqual",
    ">": "Greater",
    ">=": "GreaterOrEqual",
    "==": "Equal",
    "!=": "Equal",
}
COMPARATORS = tuple(PYTHON_COMPARISONS)


def to_value(b: ModelBuilder, number: int | float | bool | Value) -> Value:
    """Convert a Python number or bool to a constant of the program, or return a program value unchanged."""
    return number if isinstance(number, Value) else b.constant(np.array(number))


def compare(b: ModelBuilder, left: Number, sign: str, right: int | float) -> Truth:
    """Return the truth value of a comparison such as `left >= right`."""
    if not isinstance(left, Value):
        return PYTHON_COMPARISONS[sign](left, right)
    right_number = np.array(right, np.int64 if isinstance(right, int) else np.float64)
    left_number = left if isinstance(right, int) else b.op("Cast", left, to=11)
    comparison = b.op(ONNX_COMPARISONS[sign], left_number, b.constant(right_number))
    return b.op("Not", comparison) if sign == "!=" else comparison


def every_nth(b: ModelBuilder, number: Number, n: int, offset: int) -> Truth:
    """Return the truth value of `(number - offset) % n == 0`."""
    if not isinstance(number, Value):
        return (number - offset) % n == 0
    shifted_number = add(b, number, -offset)
    remainder = b.op("Mod", to_value(b, shifted_number), to_value(b, n))
    return b.op("Equal", remainder, to_value(b, 0))


def logical_and(b: ModelBuilder, left: Truth, right: Truth) -> Truth:
    """Return the truth value of `left and right`."""
    if not isinstance(left, Value):
        return right if left else False
    if not isinstance(right, Value):
        return left if right else False
    return b.op("And", left, right)


def logical_or(b: ModelBuilder, left: Truth, right: Truth) -> Truth:
    """Return the truth value of `left or right`."""
    if not isinstance(left, Value):
        return True if left else right
    if not isinstance(right, Value):
        return True if right else left
    return b.op("Or", left, right)


def logical_not(b: ModelBuilder, truth: Truth) -> Truth:
    """Return the truth value of `not truth`."""
    return b.op("Not", truth) if isinstance(truth, Value) else not truth


def add(b: ModelBuilder, left: Number, right: Number) -> Number:
    """Return the number `left + right`."""
    if not isinstance(left, Value) and not isinstance(right, Value):
        return left + right
    if not isinstance(left, Value) and left == 0:
        return right
    if not isinstance(right, Value) and right == 0:
        return left
    return b.op("Add", to_value(b, left), to_value(b, right))


def truth_to_number(b: ModelBuilder, truth: Truth) -> Number:
    """Return 1 for true and 0 for false."""
    return b.op("Cast", truth, to=7) if isinstance(truth, Value) else int(truth)


def zero_if(b: ModelBuilder, truth: Truth, number: Number) -> Number:
    """Return 0 if a truth value is true, else return `number`."""
    if not isinstance(truth, Value):
        return 0 if truth else number
    if not isinstance(number, Value) and number == 0:
        return 0
    return b.op("Where", truth, to_value(b, 0), to_value(b, number))


def select_truth(b: ModelBuilder, test: Truth, then: Truth, otherwise: Truth) -> Truth:
    """Return the truth value `then if test else otherwise`."""
    if not isinstance(test, Value):
        return then if test else otherwise
    return logical_or(
        b, logical_and(b, test, then), logical_and(b, logical_not(b, test), otherwise)
    )
