"""Making arrays: `numpy.` array, zeros, full, eye, arange, linspace and the types float64 ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.build import FOLD_LIMIT
from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.ir import Value
from mdf_loop.lower.arguments import DTYPES, Dtype, Extents
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import names
from mdf_loop.lower.terms import as_numpy, fits, promote
from mdf_loop.ops.words import cast, kind, rank, shape_between


@names("numpy.array", "numpy.asarray")
def array(b: ModelBuilder, x: Value, /, dtype: Dtype | None = None) -> Value:
    """`numpy.array(x)`: a list of numbers as one tensor."""
    value = as_numpy(b, x)
    return value if dtype is None else cast(b, value, dtype)


def _type(dtype: str) -> None:
    @names(*(name for name, found in DTYPES.items() if found == dtype and "numpy." in name))
    def call(b: ModelBuilder, x: Value, /) -> Value:
        if not fits(b, x, dtype):
            raise OperandError(f"the number {b.constant_of(x)} does not fit into {dtype}")
        return array(b, x, dtype)

    call.__doc__ = f"`numpy.{dtype}(x)`; numbers with a point become whole towards zero."


for _dtype in dict.fromkeys(DTYPES.values()):
    if _dtype != "float":
        _type(_dtype)


# --- one number everywhere ---------------------------------------------------------------------


@names("numpy.full")
def full(
    b: ModelBuilder, shape: Extents, fill_value: Value, /, dtype: Dtype | None = None
) -> Value:
    """An array of `shape` that holds `fill_value` everywhere."""
    fill = array(b, fill_value, dtype)
    known = b.constant_of(shape)
    if known is not None and np.any(known < 0):
        raise OperandError(f"a shape has no negative extents: {tuple(known.tolist())}")
    return b.op("Expand", fill, shape)


def _filled(number: int, name: str) -> None:
    @names(f"numpy.{name}")
    def call(b: ModelBuilder, shape: Extents, /, dtype: Dtype | None = None) -> Value:
        return full(b, shape, b.constant(np.array(number, dtype or b.float_dtype)))

    call.__doc__ = f"An array of {name}."

    @names(f"numpy.{name}_like")
    def like(b: ModelBuilder, a: Value, /, dtype: Dtype | None = None) -> Value:
        return full_like(b, a, b.constant(np.array(number)), dtype)

    like.__doc__ = f"An array of {name} of the shape and dtype of another."


@names("numpy.full_like")
def full_like(b: ModelBuilder, a: Value, fill_value: Value, /, dtype: Dtype | None = None) -> Value:
    """An array of the shape and dtype of `a` that holds `fill_value` everywhere."""
    fill = cast(b, fill_value, dtype or a.dtype)
    return b.op("Expand", fill, shape_of(b, a))


_filled(0, "zeros")
_filled(1, "ones")


def shape_of(b: ModelBuilder, value: Value) -> Value:
    """The extents as a tensor: known ones are a constant."""
    return shape_between(b, value, 0)


@names("numpy.broadcast_to")
def broadcast_to(b: ModelBuilder, a: Value, shape: Extents, /) -> Value:
    """`a` repeated along new and single axes until it has `shape`."""
    spread = b.op("Expand", a, shape)
    known = b.constant_of(shape)
    if known is not None and spread.shape != tuple(known.tolist()):
        raise OperandError(f"{a.type} cannot be spread to {tuple(known.tolist())}")
    return spread


# --- made of known numbers ----------------------------------------------------------------------


@names("numpy.eye")
def eye(
    b: ModelBuilder, n: int, m: int | None = None, /, k: int = 0, dtype: Dtype | None = None
) -> Value:
    """Ones on the k-th diagonal, zeros elsewhere."""
    _refuse_large("numpy.eye", n * (n if m is None else m))
    return b.constant(np.eye(n, m, k, dtype=dtype or b.float_dtype))


@names("numpy.identity")
def identity(b: ModelBuilder, n: int, /, dtype: Dtype | None = None) -> Value:
    """Ones on the diagonal, zeros elsewhere."""
    return eye(b, n, dtype=dtype)


@names("numpy.arange")
def arange(
    b: ModelBuilder,
    start: Value,
    stop: Value | None = None,
    step: Value | None = None,
    /,
    dtype: Dtype | None = None,
) -> Value:
    """Numbers from `start` (0 if left out) up to but not `stop`; whole ones also at run time."""
    first, last = (start, stop) if stop is not None else (b.constant(np.array(0)), start)
    parts = promote(b, first, last, *(() if step is None else (step,)))
    known = [b.constant_of(part) if kind(part) == "i" else b.evaluated(part) for part in parts]
    if all(array is not None for array in known):
        numbers = [array.item() for array in known if array is not None]
        _refuse_large("numpy.arange", _count(*numbers))
        made = np.arange(*numbers)
        return b.constant(
            made.astype(dtype or (b.float_dtype if made.dtype.kind == "f" else made.dtype))
        )
    if kind(parts[0]) != "i" or any(rank(part) for part in parts):
        raise OperandError(
            "numpy.arange needs whole numbers, or numbers known when the model is compiled"
        )
    found = b.op("Range", *parts, *(() if step is not None else (b.constant(np.array(1)),)))
    return found if dtype is None else cast(b, found, dtype)


def _count(start: float, stop: float, step: float = 1) -> float:
    if step == 0:
        raise OperandError("the step of numpy.arange is 0")
    return abs((stop - start) / step)


def _refuse_large(name: str, count: float) -> None:
    if not count <= FOLD_LIMIT * 64:
        raise ExpressionError(
            f"{name} would make {count:.0f} numbers", hint="give them as an input"
        )


def _spaced(name: str, compute: Callable[..., Any]) -> None:
    @names(name)
    def call(
        b: ModelBuilder, start: float, stop: float, /, num: int = 50, endpoint: bool = True
    ) -> Value:
        _refuse_large(name, num)
        if num < 0:
            raise OperandError(f"{name} makes {num} numbers")
        return b.constant(compute(start, stop, num, endpoint=endpoint).astype(b.float_dtype))

    call.__doc__ = f"`{name}(start, stop, num)` of numbers known when the model is compiled."


_spaced("numpy.linspace", np.linspace)
_spaced("numpy.logspace", np.logspace)
_spaced("numpy.geomspace", np.geomspace)
