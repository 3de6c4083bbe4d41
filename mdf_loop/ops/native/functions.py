"""Machine code of transcendental functions.

Scalars are computed by the system's mathematical library, as in ONNX Runtime. Vectors are computed by formulas
of this library, with the same bits in every lane, at every width and on every processor. The formulas compute
in float64. Results of float32 are rounded from float64.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Op
from mdf_loop.ops.native import exponential, logarithm, trigonometric
from mdf_loop.ops.native.arithmetic import Form, first
from mdf_loop.ops.native.code import Code, is_float
from mdf_loop.ops.native.conversions import converted
from mdf_loop.ops.native.formula import Register
from mdf_loop.ops.native.power import power as own_power

Own = Callable[..., Register]
"""Function that writes a formula of float64 registers, and returns the register of the result."""


def of_many(code: Code, dtype: str, own: Own, *registers: str) -> str:
    """Write a mathematical function of floats by its vectorized formula, in float64."""
    wide = (Register(code, converted(code, dtype, register, "float64")) for register in registers)
    return converted(code, "float64", own(*wide).register, dtype)


def function(name: str, own: Own) -> Form:
    """Return a writer of a mathematical function.

    Args:
        name: Name of the function in the system's library, for scalars.
        own: Formula of the function, for vectors.
    """

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
    """Write `x ** y`. Operands of two dtypes are computed in float64 and converted to the first dtype."""
    dtype, other = first(op), op.inputs[1]
    assert other is not None
    if dtype == other.dtype and is_float(dtype) and not code.many:
        return code.library("pow", dtype, x, y)
    wide = converted(code, dtype, x, "float64"), converted(code, other.dtype, y, "float64")
    if code.many:
        wide_power = of_many(code, "float64", own_power, *wide)
    else:
        wide_power = code.library("pow", "float64", *wide)
    return converted(code, "float64", wide_power, dtype)


def sigmoid(code: Code, op: Op, x: str) -> str:
    """Write `1 / (1 + exp(-x))`.

    A scalar is computed from -|x|, for which exp does not overflow, as in ONNX Runtime.
    """
    dtype = first(op)
    if code.many:
        return of_many(code, dtype, exponential.sigmoid, x)
    one = code.number(1, dtype)
    small = exp(code, op, code.put(f"fneg {code.type(dtype)} {code.intrinsic('fabs', dtype, x)}"))
    total = code.binary("fadd", dtype, one, small)
    of_magnitude = code.binary("fdiv", dtype, one, total)
    negative = code.compare("olt", dtype, x, code.number(0, dtype))
    return code.choose(negative, dtype, code.binary("fsub", dtype, one, of_magnitude), of_magnitude)
