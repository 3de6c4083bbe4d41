"""Protection of computed Reshape extents, which ONNX Runtime would replace by -1.

    s: int64[2] = Concat(2, n)             s: int64[2] = Concat(2, n)
    y = Reshape(x, s)             ->       t: int64[2] = Max(s)
                                           y = Reshape(x, t)

If one extent of a concatenated shape is not constant, ONNX Runtime replaces it by -1, which means "infer this
extent". A wrong `n` then causes no error, and an array without elements cannot be reshaped, because -1 is
undetermined. The single-operand `Max` hides the Concat from this rewrite.
Preserves: results bit for bit.

Source: onnxruntime 1.32, ReshapeFusion (which skips operations with `allowzero=1`).
"""

from __future__ import annotations

from mdf_loop.ir import Op, Program
from mdf_loop.passes.legalize.hide_producer import hide_producer


def protect_reshapes(program: Program) -> Program:
    """Insert a `Max` between each concatenated shape and the Reshape that reads the shape."""
    return hide_producer(program, "Concat", _shape_position)


def _shape_position(op: Op) -> int | None:
    """Return 1 (the shape operand) for a Reshape that ONNX Runtime may change, or None."""
    return 1 if op.op_type == "Reshape" and not op.attributes.get("allowzero") else None
