"""Decomposition of operations without an ONNX Runtime kernel into operations with kernels.

    y: float64[n] = Tan(x)    ->   n = Round(x * 2/pi); ...; y = Where(...)
    y: float64[n] = Exp(x)    ->   y = Exp(x)         (has a kernel)

Preserves: the values of ONNX's definition, in the dtype of the model. Elementary functions are within
4 ulp, all other operations as exact as their sums. float64 never passes through float32. Attributes
keep the precision of the model, while an ONNX file would round them to float32. If a decomposition
is refused for constant operands, NumPy computes the result.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.registry import row_of
from mdf_loop.passes.legalize.constant_fallback import build_or_evaluate
from mdf_loop.passes.legalize.kernel_needed import is_decomposed, lacks_kernel
from mdf_loop.passes.rewrite import rewrite


def decompose(program: Program) -> Program:
    """Decompose operations without an ONNX Runtime kernel, where a decomposition exists.

    Raises:
        UnsupportedError: An operation cannot be decomposed. The message states the reason and the place.
    """
    return rewrite(program, _decompose_op)


def _decompose_op(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    decomposition = row_of(op.op_type).decomposition
    if decomposition is None or not (lacks_kernel(op) and is_decomposed(op)):
        return None

    def build(b: Builder, op: Op) -> tuple[Value | None, ...]:
        decomposed_outputs = decomposition(b, op)
        return (
            decomposed_outputs if isinstance(decomposed_outputs, tuple) else (decomposed_outputs,)
        )

    return build_or_evaluate(b, op, build)
