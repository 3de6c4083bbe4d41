"""Functions that are rounded: one number by the system's library, as ONNX Runtime does; many by own code.

Own code has the same bits in every lane, at every width and on every processor; it computes in
float64, and float32 is rounded from that.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Op
from mdf_loop.ops.native import exponential, logarithm, trigonometric
from mdf_loop.ops.native.arithmetic import Form, first
from mdf_loop.ops.native.code import Code, is_float
from mdf_loop.ops.native.conversions import converted
from mdf_loop.ops.native.formula import Number
from mdf_loop.ops.native.power import power as own_power

Own = Callable[..., Number]
"""Own code: registers of float64 to one."""


def of_many(code: Code, dtype: str, own: Own, *registers: str) -> str:
    """What own code gives for numbers of a dtype of floats."""
    wide = (Number(code, converted(code, dtype, register, "float64")) for register in registers)
    return converted(code, "float64", own(*wide).register, dtype)


def function(name: str, own: Own) -> Form:
    """A function by its name in the system's library, and by own code."""

    def form(code: Code, op: Op, *registers: str) -> str:
        if code.many:
            return of_many(code, first(op), own, *registers)
        return code.library(name, first(op), *registers)

    return form


exp = function("exp", exponential.exp)
log = function("log", logarithm.log)
sin = function("sin", trigonometric.sin)
cos = function("cos", trigonometric.cos)
tanh = function("tanh", exponential.tanh)


def power(code: Code, op: Op, x: str, y: str) -> str:
    """`x ** y`; of two dtypes in float64, then as the first."""
    dtype, other = first(op), op.inputs[1]
    assert other is not None
    if dtype == other.dtype and is_float(dtype) and not code.many:
        return code.library("pow", dtype, x, y)
    wide = converted(code, dtype, x, "float64"), converted(code, other.dtype, y, "float64")
    if code.many:
        made = of_many(code, "float64", own_power, *wide)
    else:
        made = code.library("pow", "float64", *wide)
    return converted(code, "float64", made, dtype)


def sigmoid(code: Code, op: Op, x: str) -> str:
    """`1 / (1 + exp(-x))`; of one number from the side on which exp does not overflow, as ONNX Runtime."""
    dtype = first(op)
    if code.many:
        return of_many(code, dtype, exponential.sigmoid, x)
    one = code.number(1, dtype)
    small = exp(code, op, code.put(f"fneg {code.type(dtype)} {code.intrinsic('fabs', dtype, x)}"))
    total = code.binary("fadd", dtype, one, small)
    made = code.binary("fdiv", dtype, one, total)
    negative = code.compare("olt", dtype, x, code.number(0, dtype))
    return code.choose(negative, dtype, code.binary("fsub", dtype, one, made), made)
