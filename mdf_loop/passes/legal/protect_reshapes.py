"""Keep ONNX Runtime from replacing a computed extent of a Reshape by -1.

    s: int64[2] = Concat(2, n)             s: int64[2] = Concat(2, n)
    y = Reshape(x, s)             ->       t: int64[2] = Max(s)
                                           y = Reshape(x, t)

ONNX Runtime replaces the one extent that it cannot read from a concatenated shape by -1, which
means "whatever is left". A wrong `n` then passes unnoticed, and an array without elements cannot be
reshaped, because -1 is undetermined. The single-operand `Max` hides the Concat from that rewrite.
Results keep their bits.

Source: onnxruntime 1.32, ReshapeFusion (it skips operations with `allowzero=1`).
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, walk
from mdf_loop.ops.compositions.words import operand
from mdf_loop.passes.rewrite import rewrite


def protect_reshapes(program: Program) -> Program:
    """Return the program in which no Reshape reads a concatenated shape directly."""
    concatenated = {
        op.outputs[0] for op in walk(program.ops) if isinstance(op, Op) and op.op_type == "Concat"
    }

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        if op.op_type != "Reshape" or op.attributes.get("allowzero"):
            return None
        shape = operand(op, 1)
        if shape not in concatenated:
            return None
        return (b.op("Reshape", operand(op), b.op("Max", shape), **op.attributes),)

    return rewrite(program, rule)
