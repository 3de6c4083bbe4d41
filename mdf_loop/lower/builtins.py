"""Lowerings of Python's builtin functions such as `abs`, `sum` and `int`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.ir.types import is_sequence
from mdf_loop.lower import guards
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.rounding import round_decimals as numpy_rounded
from mdf_loop.lower.shapes import size
from mdf_loop.lower.terms import Term, as_plain, literal, plain_result, tensor
from mdf_loop.ops.build_helpers import ints, is_scalar, kind, rank


@register_as("abs")
def absolute(b: ModelBuilder, x: Value, /) -> Value:
    """Return `abs(x)` of each element."""
    return ops.absolute(b, x)


@register_as("pow")
def power(b: ModelBuilder, base: Value, exp: Value, /) -> Value:
    """Return `base ** exp` for Python's `pow`."""
    return ops.power(b, base, exp)


# --- max, min, sum -------------------------------------------------------------------------------


def _list_elements(b: ModelBuilder, name: str, term: Term) -> list[Value]:
    """Return the elements of a list or vector of numbers as separate values."""
    if isinstance(term, tuple):
        return [tensor(b, element) for element in term]
    extent = term.shape[0] if term.shape is not None and len(term.shape) == 1 else None
    if not isinstance(extent, int):
        raise OperandError(
            f"'{name}' needs a list of numbers of known length, not {term.type}",
            hint=f"write numpy.{name}(x)",
        )
    return [b.op("Gather", term, b.constant(np.array(k)), axis=0) for k in range(extent)]


def _has_one_element(value: Value) -> bool:
    """Return True if a value has exactly one element."""
    return value.shape is not None and all(extent == 1 for extent in value.shape)


def _register_extreme(name: str, better: Callable[[ModelBuilder, Value, Value], Value]) -> None:
    @register_as(name)
    def call(b: ModelBuilder, /, *terms: Term) -> Value:
        operands = [tensor(b, term) for term in terms]
        if len(terms) == 1:
            operands = _list_elements(b, name, terms[0])
        if not operands:
            raise OperandError(f"'{name}' needs at least one number")
        for operand in operands:
            if not _has_one_element(operand):
                raise OperandError(
                    f"'{name}' compares numbers, not {operand.type}",
                    hint=f"write numpy.{name}imum(a, b)",
                )
        max_rank = max(rank(operand) for operand in operands)
        extremum, *further_operands = (
            b.op("Reshape", operand, ints(b, *[1] * max_rank))
            if rank(operand) < max_rank
            else operand
            for operand in operands
        )
        for operand in further_operands:
            extremum = ops.select(b, better(b, operand, extremum), operand, extremum)
        return extremum

    call.__doc__ = (
        f"Return `{name}(a, b, ...)` or `{name}(list)` as Python does: the first of equal numbers. "
        "Arrays of one element count as numbers. The result has their broadcast shape."
    )


_register_extreme("max", ops.greater)
_register_extreme("min", ops.less)


@register_as("sum")
def total(b: ModelBuilder, iterable: Term, start: Value | None = None, /) -> Value:
    """Return Python's `sum`: `start + first + second + ...`, from left to right.

    The summands of an array are its rows.
    """
    if isinstance(iterable, tuple) or (iterable.shape is not None and len(iterable.shape) == 1):
        summands = _list_elements(b, "sum", iterable)
    else:
        raise OperandError(
            f"'sum' adds a list of numbers, not {iterable.type}", hint="write numpy.sum(x, axis=0)"
        )
    return functools.reduce(functools.partial(ops.add, b), summands, start or literal(b, 0))


# --- int, float, bool, len, round ----------------------------------------------------------------


def _single_number(b: ModelBuilder, name: str, value: Value) -> Value:
    if value.shape is None or any(dim != 1 for dim in value.shape):
        raise OperandError(
            f"'{name}' makes one number, not {value.type}", hint="write numpy.int64(x) for arrays"
        )
    return ops.as_scalar(b, value)


@register_as("int")
def to_int(b: ModelBuilder, x: Value, /) -> Value:
    """Return `int(x)` of a value with one element, truncated toward zero."""
    python_number = plain_result(b, int, (x,))
    return python_number or _to_int(b, "int", _single_number(b, "int", x))


def _to_int(b: ModelBuilder, name: str, x: Value) -> Value:
    return as_plain(b, guards.check_fits_int64(b, x, name) if kind(x) == "f" else x, "int64")


@register_as("float")
def to_float(b: ModelBuilder, x: Value, /) -> Value:
    """Return `float(x)` of a value with one element."""
    return as_plain(b, _single_number(b, "float", x), b.float_dtype)


@register_as("bool")
def to_bool(b: ModelBuilder, x: Value, /) -> Value:
    """Return `bool(x)` of a value with one element."""
    return as_plain(b, ops.truth(b, x), "bool")


@register_as("len")
def length(b: ModelBuilder, x: Term, /) -> Value:
    """Return `len(x)`: the extent of the first axis, or the length of a sequence."""
    if isinstance(x, tuple):
        return literal(b, len(x))
    if is_sequence(x.dtype):
        return b.op("SequenceLength", x)
    if rank(x) == 0:
        raise OperandError("'len' needs a list, not one number", hint="write numpy.size(x)")
    return size(b, x, 0)


@register_as("round")
def rounded(b: ModelBuilder, number: Value, /, ndigits: int | None = None) -> Value:
    """Return Python's `round(x)` or `round(x, digits)`, with halves rounded to even.

    A float without digits becomes an int.
    """
    python_number = plain_result(b, functools.partial(round, ndigits=ndigits), (number,))
    if python_number is not None:
        return python_number
    if ndigits is None and kind(number) == "f" and is_scalar(number):
        return _to_int(b, "round", b.op("Round", number))
    return numpy_rounded(b, number, ndigits or 0)
