"""Conversion of values to the types that input ports state.

A value from outside, or a default in the document, is converted to the stated type. A value from an edge is
not converted, as in modeci_mdf: its importers write `float` on every port, PsyNeuLink writes `int64`.
"""

from __future__ import annotations

from mdf_loop.document.parts import InputPort
from mdf_loop.document.stated_types import stated_dtype, states_any_float
from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.ir.types import is_tensor, kind_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import fits_dtype
from mdf_loop.ops.build_helpers import cast


def convert_port_value(b: ModelBuilder, port: InputPort, value: Value) -> Value:
    """Convert a value from an edge, or from outside of a body, to the type of an input port.

    Numbers keep their dtype and shape, whatever type the port states, as in modeci_mdf. Only a port of optional
    values converts its value, to an optional one.

    Raises:
        OperandError: If the port takes text, a sequence or an optional value, and the value is of another kind.
    """
    dtype = stated_dtype(port, b.options.precision)
    if dtype == "string" and value.dtype != "string":
        raise OperandError(f"the port '{port.id}' takes text, but '{value.name}' is {value.type}")
    return value if dtype is None or is_tensor(dtype) else cast(b, value, dtype)


def cast_iteration(b: ModelBuilder, port: InputPort, iteration: Value) -> Value:
    """Cast the iteration number to the dtype that an input port of the loop body states.

    A stated `float` is ignored, since MDF's importers write it on every port.
    """
    dtype = stated_dtype(port, b.options.precision)
    is_any_dtype = dtype is None or states_any_float(port)
    return iteration if is_any_dtype else cast(b, iteration, dtype or iteration.dtype)


def cast_initial_value(b: ModelBuilder, port: InputPort, value: Value) -> Value:
    """Cast an initial value that is a plain number to the dtype of the body's input port.

    The value is returned unchanged if the dtype cannot represent it.
    """
    dtype = stated_dtype(port, b.options.precision)
    if (
        dtype is None
        or not is_tensor(dtype)
        or not (b.is_weak(value) and fits_dtype(b, value, dtype))
    ):
        return value
    allowed_dtype_kinds = {"b": "b", "i": "iuf", "f": "f"}
    return (
        cast(b, value, dtype)
        if kind_of(dtype) in allowed_dtype_kinds[kind_of(value.dtype)]
        else value
    )
