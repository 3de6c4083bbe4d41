"""Make operations for which ONNX Runtime has no kernel of others.

    y: float64[n] = Tan(x)    ->   n = Round(x * 2/pi); ...; y = Where(...)
    y: float64[n] = Exp(x)    ->   the same

Keeps: the values of ONNX's definition, in the dtype of the model; elementary functions within
4 ulp, everything else as exact as its sums. float64 never passes through float32. Attributes
are used as the model has them, where an ONNX file would round them to float32. Constants whose
composition is refused are computed by numpy.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.registry import row_of
from mdf_loop.passes.legalize.constant_fallback import build_or_evaluate
from mdf_loop.passes.legalize.kernel_needed import is_decomposed, lacks_kernel
from mdf_loop.passes.rewrite import rewrite


def decompose(program: Program) -> Program:
    """The program with what has no kernel, but a composition, composed.

    Raises:
        UnsupportedError: a composition cannot be made here; the sentence says why, and where.
    """
    return rewrite(program, _rule)


def _rule(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    composed = row_of(op.op_type).composed
    if composed is None or not (lacks_kernel(op) and is_decomposed(op)):
        return None

    def build(b: Builder, op: Op) -> tuple[Value | None, ...]:
        results = composed(b, op)
        return results if isinstance(results, tuple) else (results,)

    return build_or_evaluate(b, op, build)
