"""Protection of an Expand with an empty result, which ONNX Runtime would remove.

    y: float64[n, 3] = Expand(x: float64[1, 3], s)   ->   wide: float64[1, n, 3] = Expand(x, [1, *s])
                                                          y = Squeeze(wide, axes=[0])

If `s` is `[0, 3]` and known from the file, ONNX Runtime treats the Expand as an identity and removes it. Then
`y` has one row instead of none. ONNX Runtime keeps an Expand that adds an axis. An Expand is unchanged if no
extent can become 0 that is not 0 in `x`.

Preserves: results bit for bit.

Source: onnxruntime 1.32, rewrite rule for Expand, which compares extents of at most 1.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Shape, Value, is_fixed
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.passes.rewrite import rewrite


def protect_expands(program: Program) -> Program:
    """Rewrite each Expand with a possibly empty result, so that ONNX Runtime keeps it."""
    return rewrite(program, _protect_expand)


def _protect_expand(b: Builder, op: Op) -> tuple[Value, ...] | None:
    if op.op_type != "Expand":
        return None
    expanded_operand, target_shape = operand(op, 0), operand(op, 1)
    if expanded_operand.shape is None or not is_fixed(target_shape.shape):
        return None
    added_axes = 1 + len(expanded_operand.shape) - target_shape.shape[0]
    if added_axes < 1 or not _may_become_empty(expanded_operand.shape, op.outputs[0].shape):
        return None
    extended_shape = b.op("Concat", ints(b, *(1,) * added_axes), target_shape, axis=0)
    return (b.op("Squeeze", b.op("Expand", expanded_operand, extended_shape), ints(b, 0)),)


def _may_become_empty(source_shape: tuple[int | str, ...], target_shape: Shape) -> bool:
    """Return True if an extent may be 0 in `target_shape`, but not in `source_shape`."""
    if target_shape is None:
        return True
    extent_pairs = zip(source_shape, target_shape, strict=True)
    return any(
        target_extent != source_extent and (target_extent == 0 or isinstance(target_extent, str))
        for source_extent, target_extent in extent_pairs
    )
