"""Functions that are rounded: one number by the system's library, as ONNX Runtime does; many by own code."""

from __future__ import annotations

from mdf_loop.ir import Op
from mdf_loop.ops.native.arithmetic import Form, first
from mdf_loop.ops.native.code import Code


def of_library(name: str) -> Form:
    """A function of the system's mathematical library."""

    def form(code: Code, op: Op, *registers: str) -> str:
        return code.library(name, first(op), *registers)

    return form


exp, log, sin, cos, tanh = map(of_library, ("exp", "log", "sin", "cos", "tanh"))


def power(code: Code, op: Op, x: str, y: str) -> str:
    """`x ** y`."""
    return code.library("pow", first(op), x, y)


def sigmoid(code: Code, op: Op, x: str) -> str:
    """`1 / (1 + exp(-x))`, from the side on which exp does not overflow."""
    dtype = first(op)
    one = code.number(1, dtype)
    small = exp(code, op, code.put(f"fneg {code.type(dtype)} {code.intrinsic('fabs', dtype, x)}"))
    total = code.binary("fadd", dtype, one, small)
    made = code.binary("fdiv", dtype, one, total)
    negative = code.compare("olt", dtype, x, code.number(0, dtype))
    return code.choose(negative, dtype, code.binary("fsub", dtype, one, made), made)
