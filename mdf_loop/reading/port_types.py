"""Conversion of values to the types that ports state.

The type says what a value from outside, or written as a default, becomes. What arrives over an edge
is left alone, as in modeci_mdf: its importers write `float` on every port, PsyNeuLink `int64`.
"""

from __future__ import annotations

from typing import Any

from mdf_loop.document.stated_types import stated_dtype, states_any_float
from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.ir.types import is_tensor, kind_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import fits_dtype
from mdf_loop.ops.build_helpers import cast


def as_held(b: ModelBuilder, port: Any, value: Value) -> Value:
    """Return the value that a port holds for a value from an edge, or from the scope around a body.

    The value as it is, as in modeci_mdf: numbers keep their dtype and shape, whatever the port
    states. Only a port of optional values makes its value one that could be absent.

    Raises:
        OperandError: the port takes text, a sequence or an optional value, and the value is none.
    """
    dtype = stated_dtype(port, b.options.precision)
    if dtype == "string" and value.dtype != "string":
        raise OperandError(f"the port '{port.id}' takes text, but '{value.name}' is {value.type}")
    return value if dtype is None or is_tensor(dtype) else cast(b, value, dtype)


def as_counted(b: ModelBuilder, port: Any, iteration: Value) -> Value:
    """Return the iteration number in the dtype that a port of the body states.

    A mere `float` is what MDF's importers write on every port.
    """
    dtype = stated_dtype(port, b.options.precision)
    general = dtype is None or states_any_float(port)
    return iteration if general else cast(b, iteration, dtype or iteration.dtype)


def as_begun(b: ModelBuilder, port: Any, value: Value) -> Value:
    """Return a plain initial number of a carried value in the dtype that the body's port states.

    Itself where that dtype could not hold it.
    """
    dtype = stated_dtype(port, b.options.precision)
    if (
        dtype is None
        or not is_tensor(dtype)
        or not (b.is_weak(value) and fits_dtype(b, value, dtype))
    ):
        return value
    holds = {"b": "b", "i": "iuf", "f": "f"}
    return cast(b, value, dtype) if kind_of(dtype) in holds[kind_of(value.dtype)] else value
