"""Keep ONNX Runtime from fusing a Relu with the Clip that reads it, for dtypes that the fusion does not know.

    r: float64 = Relu(x)                   r: float64 = Relu(x)
    y = Clip(r, low)              ->       s: float64 = Max(r)
                                           y = Clip(s, low)

The fusion raises the lower bound of the Clip to 0. For another dtype than float32 and float16 it ends with an
error, and the program cannot be loaded. The single-operand `Max` hides the Relu from it. Results keep their bits.

Source: onnxruntime 1.32, ReluClipFusion.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.compositions.words import operand, optional
from mdf_loop.ops.without_effect import possibly_unchanged
from mdf_loop.passes.rewrite import rewrite

_FUSED = frozenset(("float32", "float16"))
"""The dtypes that the fusion knows."""


def protect_clips(program: Program) -> Program:
    """Return the program in which no Clip with a lower bound reads a Relu of another dtype directly.

    ONNX Runtime first removes operations that change nothing, so it also sees a Relu through them.
    """
    makers: dict[Value, Op] = {}

    def is_rectified(b: Builder, x: Value) -> bool:
        maker = makers.get(x)
        if maker is None or maker.op_type == "Relu":
            return maker is not None
        source = possibly_unchanged(maker, b.constant_of)
        return source is not None and is_rectified(b, source)

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        makers[op.outputs[0]] = op
        if op.op_type != "Clip" or operand(op).dtype in _FUSED or optional(op, 1) is None:
            return None
        if not is_rectified(b, operand(op)):
            return None
        return (b.op("Clip", b.op("Max", operand(op)), *op.inputs[1:], **op.attributes),)

    return rewrite(program, rule)
