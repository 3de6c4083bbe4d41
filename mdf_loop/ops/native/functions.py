"""Machine code of transcendental functions, vectorized or by the system's math library.

Scalars are computed by the system's mathematical library, as in ONNX Runtime. Vectors are computed by formulas
of this library, with the same bits in every lane, at every width and on every processor. The formulas compute
in float64. Results of float32 are rounded from float64.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Op
from mdf_loop.ops.native import exponential, logarithm, trigonometric
from mdf_loop.ops.native.arithmetic import OpWriter, operand_dtype
from mdf_loop.ops.native.code import Code, is_float
from mdf_loop.ops.native.conversions import convert
from mdf_loop.ops.native.formula import Register
from mdf_loop.ops.native.power import power as own_power

Formula = Callable[..., Register]
"""Function that writes a formula of float64 registers, and returns the register of the result."""


def write_vectorized(code: Code, dtype: str, formula: Formula, *registers: str) -> str:
    """Write LLVM code of a mathematical function of floats by a formula in float64."""
    float64_registers = (
        Register(code, convert(code, dtype, register, "float64")) for register in registers
    )
    return convert(code, "float64", formula(*float64_registers).register, dtype)


def function_writer(name: str, formula: Formula) -> OpWriter:
    """Return a function that writes LLVM code of a transcendental function.

    Args:
        name: Name of the function in the system's library, for scalars.
        formula: Formula of the function, for vectors.
    """

    def write(code: Code, op: Op, *registers: str) -> str:
        if code.has_vector_functions:
            return write_vectorized(code, operand_dtype(op), formula, *registers)
        return code.library(name, operand_dtype(op), *registers)

    return write


exp = function_writer("exp", exponential.exp)
log = function_writer("log", logarithm.log)
sin = function_writer("sin", trigonometric.sin)
cos = function_writer("cos", trigonometric.cos)
tanh = function_writer("tanh", exponential.tanh)


def power(code: Code, op: Op, x: str, y: str) -> str:
    """Write LLVM code of `x ** y`, in the dtype of x.

    Operands of two dtypes are computed in float64 and converted to the first dtype.
    """
    dtype, exponent_value = operand_dtype(op), op.inputs[1]
    assert exponent_value is not None
    if dtype == exponent_value.dtype and is_float(dtype) and not code.has_vector_functions:
        return code.library("pow", dtype, x, y)
    float64_operands = (
        convert(code, dtype, x, "float64"),
        convert(code, exponent_value.dtype, y, "float64"),
    )
    if code.has_vector_functions:
        float64_power = write_vectorized(code, "float64", own_power, *float64_operands)
    else:
        float64_power = code.library("pow", "float64", *float64_operands)
    return convert(code, "float64", float64_power, dtype)


def sigmoid(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `1 / (1 + exp(-x))`.

    A scalar is computed from -|x|, for which exp does not overflow, as in ONNX Runtime.
    """
    dtype = operand_dtype(op)
    if code.has_vector_functions:
        return write_vectorized(code, dtype, exponential.sigmoid, x)
    one_literal = code.constant(1, dtype)
    exp_of_negative = exp(
        code, op, code.emit(f"fneg {code.type(dtype)} {code.intrinsic('fabs', dtype, x)}")
    )
    denominator = code.binary("fadd", dtype, one_literal, exp_of_negative)
    sigmoid_of_magnitude = code.binary("fdiv", dtype, one_literal, denominator)
    is_negative = code.compare("olt", dtype, x, code.constant(0, dtype))
    return code.select(
        is_negative,
        dtype,
        code.binary("fsub", dtype, one_literal, sigmoid_of_magnitude),
        sigmoid_of_magnitude,
    )
