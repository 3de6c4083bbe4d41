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
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.compositions.words import operand
from mdf_loop.ops.without_effect import possibly_unchanged
from mdf_loop.passes.rewrite import rewrite


def protect_reshapes(program: Program) -> Program:
    """Return the program in which no Reshape reads a concatenated shape directly.

    ONNX Runtime first removes operations that change nothing, so it also sees a Concat through them.
    """
    makers: dict[Value, Op] = {}

    def is_concatenated(b: Builder, shape: Value) -> bool:
        maker = makers.get(shape)
        if maker is None or maker.op_type == "Concat":
            return maker is not None
        source = possibly_unchanged(maker, b.constant_of)
        return source is not None and is_concatenated(b, source)

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        makers[op.outputs[0]] = op
        if op.op_type != "Reshape" or op.attributes.get("allowzero"):
            return None
        if not is_concatenated(b, operand(op, 1)):
            return None
        return (b.op("Reshape", operand(op), b.op("Max", operand(op, 1)), **op.attributes),)

    return rewrite(program, rule)
