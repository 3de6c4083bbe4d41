"""Prevention of ONNX Runtime's fusion of Relu and Clip for dtypes for which the fusion fails.

    r: float64 = Relu(x)                   r: float64 = Relu(x)
    y = Clip(r, low)              ->       s: float64 = Max(r)
                                           y = Clip(s, low)

The fusion raises the lower bound of the Clip to 0. For other dtypes than float32 and float16 the fusion
raises an error, and the program cannot be loaded. The single-operand `Max` hides the Relu from the fusion.

Preserves: results bit for bit.

Source: onnxruntime 1.32, ReluClipFusion.
"""

from __future__ import annotations

from mdf_loop.ir import Op, Program
from mdf_loop.ops.decompositions.build_helpers import operand, optional_operand
from mdf_loop.passes.legalize.hide_producer import hide_producer

_FUSED_DTYPES = frozenset(("float32", "float16"))
"""Dtypes that the fusion supports."""


def protect_clips(program: Program) -> Program:
    """Prevent ONNX Runtime's fusion of Relu and Clip for dtypes for which the fusion fails."""
    return hide_producer(program, "Relu", _protected_operand_position)


def _protected_operand_position(op: Op) -> int | None:
    """Return the operand position (0) to protect if a Clip's fusion would fail, else None."""
    if (
        op.op_type != "Clip"
        or operand(op).dtype in _FUSED_DTYPES
        or optional_operand(op, 1) is None
    ):
        return None
    return 0
