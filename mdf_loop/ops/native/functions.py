"""Functions that are rounded: one number by the system's library, as ONNX Runtime does; many by own code."""

from __future__ import annotations

from mdf_loop.ir import Op
from mdf_loop.ops.native.arithmetic import Form, first
from mdf_loop.ops.native.code import Code, is_float
from mdf_loop.ops.native.conversions import converted


def of_library(name: str) -> Form:
    """A function of the system's mathematical library."""

    def form(code: Code, op: Op, *registers: str) -> str:
        return code.library(name, first(op), *registers)

    return form


exp, log, sin, cos, tanh = map(of_library, ("exp", "log", "sin", "cos", "tanh"))


def power(code: Code, op: Op, x: str, y: str) -> str:
    """`x ** y`; of two dtypes in float64, then as the first."""
    dtype, other = first(op), op.inputs[1]
    assert other is not None
    if dtype == other.dtype and is_float(dtype):
        return code.library("pow", dtype, x, y)
    base = converted(code, dtype, x, "float64")
    made = code.library("pow", "float64", base, converted(code, other.dtype, y, "float64"))
    return converted(code, "float64", made, dtype)


def sigmoid(code: Code, op: Op, x: str) -> str:
    """`1 / (1 + exp(-x))`, from the side on which exp does not overflow."""
    dtype = first(op)
    one = code.number(1, dtype)
    small = exp(code, op, code.put(f"fneg {code.type(dtype)} {code.intrinsic('fabs', dtype, x)}"))
    total = code.binary("fadd", dtype, one, small)
    made = code.binary("fdiv", dtype, one, total)
    negative = code.compare("olt", dtype, x, code.number(0, dtype))
    return code.choose(negative, dtype, code.binary("fsub", dtype, one, made), made)
