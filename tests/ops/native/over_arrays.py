"""Run the vectorized functions of native loops over arrays at any vector width, and measure errors in ulp."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import mpmath
import numpy as np

from mdf_loop.native import machine
from mdf_loop.ops.native.code import REGISTER_TYPES, Code, FunctionText
from mdf_loop.ops.native.functions import Formula, write_vectorized

WIDTHS = (1, 2, 4, 8)
MP = mpmath.mp.clone()
MP.prec = 120


@functools.cache
def over_arrays(
    own: Formula, width: int, operands: int = 1, dtype: str = "float64"
) -> Callable[..., np.ndarray]:
    """Compile a vectorized function for `width` lanes and return the function over arrays."""
    code = Code(FunctionText(), width, has_vector_functions=True)
    machine_code = machine.compile_llvm(_text(code, own, operands, dtype), ["over_arrays"])
    argument_types = (ctypes.c_int64, *[ctypes.c_void_p] * (1 + operands))
    compiled_function = ctypes.CFUNCTYPE(None, *argument_types)(*machine_code.function_addresses)

    def call_compiled(*arrays: np.ndarray) -> np.ndarray:
        element_count = arrays[0].size
        padded_arrays = [np.resize(array, -(-element_count // width) * width) for array in arrays]
        output_array = np.empty_like(padded_arrays[0])
        compiled_function(
            output_array.size,
            output_array.ctypes.data,
            *(array.ctypes.data for array in padded_arrays),
        )
        return output_array[:element_count]

    call_compiled.machine = machine_code  # type: ignore[attr-defined]  # keeps the code alive as long as the function
    return call_compiled


def _text(code: Code, own: Formula, operands: int, dtype: str) -> str:
    """Return the LLVM text of a function that applies `own` to blocks of arrays.

    `for i in range(0, n, width): out[i : i + width] = own(in0[i : i + width], ...)`.
    """
    pointer_names = ["%out", *(f"%in{k}" for k in range(operands))]
    code.line("br label %again\nagain:")
    code.line("%i = phi i64 [0, %entry], [%next, %stored]")
    code.line("%more = icmp slt i64 %i, %n")
    code.line("br i1 %more, label %some, label %done\nsome:")
    element_pointers = [
        code.emit(f"getelementptr {REGISTER_TYPES[dtype]}, ptr {pointer_name}, i64 %i")
        for pointer_name in pointer_names
    ]
    operand_registers = [
        code.emit(f"load {code.type(dtype)}, ptr {operand_pointer}, align 4")
        for operand_pointer in element_pointers[1:]
    ]
    computed_register = write_vectorized(code, dtype, own, *operand_registers)
    code.line(f"store {code.type(dtype)} {computed_register}, ptr {element_pointers[0]}, align 4")
    code.line("br label %stored\nstored:")
    code.line(f"%next = add i64 %i, {code.lane_count}")
    code.line("br label %again\ndone:\n  ret void")
    signature = f"define void @over_arrays(i64 %n, {', '.join(f'ptr {pointer_name}' for pointer_name in pointer_names)}) {{"
    function_text = code.function_text
    return "\n".join(
        [
            *function_text.declarations.values(),
            signature,
            "entry:",
            *function_text.allocation_lines,
            *function_text.instruction_lines,
            "}",
        ]
    )


def bits(y: np.ndarray) -> np.ndarray:
    """Return the bit patterns of numbers as integers, with one pattern for every nan."""
    return np.where(np.isnan(y), np.nan, y).view(f"uint{8 * y.itemsize}")


def ulps(exact: Callable[..., mpmath.mpf], y: np.ndarray, *x: np.ndarray) -> np.ndarray:
    """Return the error of each y in ulp, or infinity if only one of y and the true value is finite."""

    def one(approximation: float, *at: float) -> float:
        exact_number = exact(*map(MP.mpf, at))
        nearest_float = float(exact_number)
        if not np.isfinite(nearest_float):
            return 0.0 if approximation == nearest_float else np.inf
        if not np.isfinite(approximation):
            return np.inf
        return float(
            abs(MP.mpf(approximation) - exact_number)
            / MP.mpf(float(np.spacing(abs(nearest_float))))
        )

    return np.array(
        [
            one(*arguments)
            for arguments in zip(
                y.tolist(), *(argument_array.tolist() for argument_array in x), strict=True
            )
        ]
    )
