"""Lowering of NumPy's array creation: array, zeros, full, eye, arange, linspace ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.build import FOLD_LIMIT
from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.ir import Value
from mdf_loop.lower.arguments import DTYPES, Dtype, Extents
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.terms import as_numpy, fits_dtype, promote
from mdf_loop.ops.build_helpers import cast, kind, rank, shape_between


@register_as("numpy.array", "numpy.asarray")
def array(b: ModelBuilder, x: Value, /, dtype: Dtype | None = None) -> Value:
    """Return `numpy.array(x)`: a list of numbers as one tensor."""
    tensor_value = as_numpy(b, x)
    return tensor_value if dtype is None else cast(b, tensor_value, dtype)


def _register_dtype(dtype: str) -> None:
    @register_as(
        *(
            name
            for name, spelled_dtype in DTYPES.items()
            if spelled_dtype == dtype and "numpy." in name
        )
    )
    def call(b: ModelBuilder, x: Value, /) -> Value:
        if not fits_dtype(b, x, dtype):
            raise OperandError(f"the number {b.constant_of(x)} does not fit into {dtype}")
        return array(b, x, dtype)

    call.__doc__ = f"Return `numpy.{dtype}(x)`; a conversion to integers truncates toward zero."


for _dtype in dict.fromkeys(DTYPES.values()):
    if _dtype != "float":
        _register_dtype(_dtype)


# --- filled arrays -----------------------------------------------------------------------------


@register_as("numpy.full")
def full(
    b: ModelBuilder, shape: Extents, fill_value: Value, /, dtype: Dtype | None = None
) -> Value:
    """Return an array of `shape` filled with `fill_value`."""
    fill_tensor = array(b, fill_value, dtype)
    constant_shape = b.constant_of(shape)
    if constant_shape is not None and np.any(constant_shape < 0):
        raise OperandError(f"a shape has no negative extents: {tuple(constant_shape.tolist())}")
    return b.op("Expand", fill_tensor, shape)


def _register_filled(number: int, name: str) -> None:
    @register_as(f"numpy.{name}")
    def call(b: ModelBuilder, shape: Extents, /, dtype: Dtype | None = None) -> Value:
        return full(b, shape, b.constant(np.array(number, dtype or b.float_dtype)))

    call.__doc__ = f"Return an array of {name}."

    @register_as(f"numpy.{name}_like")
    def like(b: ModelBuilder, a: Value, /, dtype: Dtype | None = None) -> Value:
        return full_like(b, a, b.constant(np.array(number)), dtype)

    like.__doc__ = f"Return an array of {name} of the shape and dtype of another."


@register_as("numpy.full_like")
def full_like(b: ModelBuilder, a: Value, fill_value: Value, /, dtype: Dtype | None = None) -> Value:
    """Return an array of the shape and dtype of `a` filled with `fill_value`."""
    fill_tensor = cast(b, fill_value, dtype or a.dtype)
    return b.op("Expand", fill_tensor, shape_of(b, a))


_register_filled(0, "zeros")
_register_filled(1, "ones")


def shape_of(b: ModelBuilder, value: Value) -> Value:
    """Return the shape of a value as an integer vector, constant if all extents are known."""
    return shape_between(b, value, 0)


@register_as("numpy.broadcast_to")
def broadcast_to(b: ModelBuilder, a: Value, shape: Extents, /) -> Value:
    """Return the array `a` broadcast to `shape`."""
    expanded = b.op("Expand", a, shape)
    constant_shape = b.constant_of(shape)
    if constant_shape is not None and expanded.shape != tuple(constant_shape.tolist()):
        raise OperandError(f"{a.type} cannot be spread to {tuple(constant_shape.tolist())}")
    return expanded


# --- constant arrays ----------------------------------------------------------------------------


@register_as("numpy.eye")
def eye(
    b: ModelBuilder, n: int, m: int | None = None, /, k: int = 0, dtype: Dtype | None = None
) -> Value:
    """Return a matrix with ones on the k-th diagonal and zeros elsewhere."""
    _refuse_large("numpy.eye", n * (n if m is None else m))
    return b.constant(np.eye(n, m, k, dtype=dtype or b.float_dtype))


@register_as("numpy.identity")
def identity(b: ModelBuilder, n: int, /, dtype: Dtype | None = None) -> Value:
    """Return a matrix with ones on the diagonal and zeros elsewhere."""
    return eye(b, n, dtype=dtype)


@register_as("numpy.arange")
def arange(
    b: ModelBuilder,
    start: Value,
    stop: Value | None = None,
    step: Value | None = None,
    /,
    dtype: Dtype | None = None,
) -> Value:
    """Return numbers from `start` (default 0) up to `stop`, exclusive.

    Integers may also be known only at run time.
    """
    start_value, stop_value = (
        (start, stop) if stop is not None else (b.constant(np.array(0)), start)
    )
    typed_arguments = promote(b, start_value, stop_value, *(() if step is None else (step,)))
    constant_arguments = [
        b.constant_of(argument) if kind(argument) == "i" else b.evaluated(argument)
        for argument in typed_arguments
    ]
    if all(constant_array is not None for constant_array in constant_arguments):
        range_arguments = [array.item() for array in constant_arguments if array is not None]
        _refuse_large("numpy.arange", _element_count(*range_arguments))
        constant_range = np.arange(*range_arguments)
        return b.constant(
            constant_range.astype(
                dtype
                or (b.float_dtype if constant_range.dtype.kind == "f" else constant_range.dtype)
            )
        )
    if kind(typed_arguments[0]) != "i" or any(rank(argument) for argument in typed_arguments):
        raise OperandError(
            "numpy.arange needs whole numbers, or numbers known when the model is compiled"
        )
    range_tensor = b.op(
        "Range", *typed_arguments, *(() if step is not None else (b.constant(np.array(1)),))
    )
    return range_tensor if dtype is None else cast(b, range_tensor, dtype)


def _element_count(start: float, stop: float, step: float = 1) -> float:
    if step == 0:
        raise OperandError("the step of numpy.arange is 0")
    return abs((stop - start) / step)


def _refuse_large(name: str, count: float) -> None:
    if not count <= FOLD_LIMIT * 64:
        raise ExpressionError(
            f"{name} would make {count:.0f} numbers", hint="give them as an input"
        )


def _register_spaced(name: str, compute: Callable[..., Any]) -> None:
    @register_as(name)
    def call(
        b: ModelBuilder, start: float, stop: float, /, num: int = 50, endpoint: bool = True
    ) -> Value:
        _refuse_large(name, num)
        if num < 0:
            raise OperandError(f"{name} makes {num} numbers")
        return b.constant(compute(start, stop, num, endpoint=endpoint).astype(b.float_dtype))

    call.__doc__ = f"Return `{name}(start, stop, num)` of numbers known at compile time."


_register_spaced("numpy.linspace", np.linspace)
_register_spaced("numpy.logspace", np.logspace)
_register_spaced("numpy.geomspace", np.geomspace)
