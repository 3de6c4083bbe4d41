"""Python's builtin functions on values."""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.functions import names
from mdf_loop.lower.operators import Term, tensor


@names("abs")
def absolute(b: Builder, x: Term, /) -> Value:
    """`abs(x)`."""
    return ops.absolute(b, tensor(b, x))


def _extreme(b: Builder, symbol: str, terms: tuple[Term, ...]) -> Value:
    if len(terms) == 1:
        return _reduced(b, "ReduceMax" if symbol == "max" else "ReduceMin", terms[0])
    compare = ops.greater if symbol == "max" else ops.less
    best = tensor(b, terms[0])
    for term in terms[1:]:
        other = tensor(b, term)
        if not (ops.is_scalar(best) and ops.is_scalar(other)):
            raise OperandError(
                f"'{symbol}' compares numbers, not arrays", hint=f"write numpy.{symbol}imum(a, b)"
            )
        best = ops.choose(b, compare(b, other, best), other, best)
    return best


def _reduced(b: Builder, op_type: str, term: Term) -> Value:
    value = tensor(b, term)
    if ops.rank(value) != 1:
        raise OperandError(f"needs a list of numbers, not {value.type}")
    return b.op(op_type, value, axes=(0,), keepdims=0)


@names("max")
def maximum(b: Builder, /, *terms: Term) -> Value:
    """`max(a, b, ...)` or `max(list)`, Python's way: the first of equals."""
    return _extreme(b, "max", terms)


@names("min")
def minimum(b: Builder, /, *terms: Term) -> Value:
    """`min(a, b, ...)` or `min(list)`, Python's way: the first of equals."""
    return _extreme(b, "min", terms)


@names("pow", "numpy.power", "math.pow")
def power(b: Builder, x: Term, y: Term, /) -> Value:
    """`x ** y`."""
    return ops.power(b, tensor(b, x), tensor(b, y))


@names("int")
def whole(b: Builder, x: Term, /) -> Value:
    """`int(x)`: towards zero, for one number."""
    value = tensor(b, x)
    if value.shape is None or any(dim != 1 for dim in value.shape):
        raise OperandError(f"'int' makes one whole number, not {value.type}")
    scalar = b.op("Reshape", value, b.constant(np.zeros(0, np.int64)))
    return ops.cast(b, scalar, "int64")


@names("float")
def real(b: Builder, x: Term, /) -> Value:
    """`float(x)`."""
    return ops.cast(b, tensor(b, x), b.float_dtype)


@names("bool")
def truth(b: Builder, x: Term, /) -> Value:
    """`bool(x)`, for one element."""
    return ops.truth(b, tensor(b, x))


@names("len")
def length(b: Builder, x: Term, /) -> Value:
    """`len(x)`: the extent of the first axis."""
    if isinstance(x, tuple):
        return ops.literal(b, len(x))
    if ops.rank(x) == 0:
        raise OperandError("'len' needs a list, not one number")
    assert x.shape is not None
    extent = x.shape[0]
    if isinstance(extent, int):
        return ops.literal(b, extent)
    shape = b.op("Shape", x)
    return b.op("Gather", shape, b.constant(np.array(0)), axis=0)


@names("round")
def rounded(b: Builder, x: Term, digits: Term | None = None, /) -> Value:
    """`round(x)`, `round(x, digits)`: half to even; one number without digits becomes whole."""
    value = tensor(b, x)
    if np.dtype(value.dtype).kind != "f":
        return value
    if digits is None:
        result = b.op("Round", value)
        return ops.cast(b, result, "int64") if ops.is_scalar(value) else result
    scale = ops.cast(b, ops.power(b, ops.literal(b, 10.0), tensor(b, digits)), value.dtype)
    return b.op("Div", b.op("Round", b.op("Mul", value, scale)), scale)
