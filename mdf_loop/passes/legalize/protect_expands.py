"""Elements spread over none, which ONNX Runtime may keep.

    y: float64[n, 3] = Expand(x: float64[1, 3], s)   ->   wide: float64[1, n, 3] = Expand(x, [1, *s])
                                                          y = Squeeze(wide, axes=[0])

Where a file lets it see that `s` is `[0, 3]`, it takes the Expand for one that changes nothing and
leaves it out; then `y` has a row. One that adds an axis it leaves alone. Where no extent can be 0
that is not so in `x`, nothing changes.

Keeps: results bit for bit.

Source: onnxruntime 1.32, its rule for Expand, which looks for extents of at most 1.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Shape, Value, is_fixed
from mdf_loop.ops.compositions.words import operand
from mdf_loop.ops.words import ints
from mdf_loop.passes.rewrite import rewrite


def protect_expands(program: Program) -> Program:
    """The program without an Expand to no elements that could be taken for no change."""
    return rewrite(program, _rule)


def _rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
    if op.op_type != "Expand":
        return None
    source, target = operand(op, 0), operand(op, 1)
    if source.shape is None or not is_fixed(target.shape):
        return None
    more = 1 + len(source.shape) - target.shape[0]
    if more < 1 or not _may_empty(source.shape, op.outputs[0].shape):
        return None
    shape = b.op("Concat", ints(b, *(1,) * more), target, axis=0)
    return (b.op("Squeeze", b.op("Expand", source, shape), ints(b, 0)),)


def _may_empty(own: tuple[int | str, ...], wide: Shape) -> bool:
    """Whether an extent may become 0 that was another one; the ranks are equal."""
    if wide is None:
        return True
    pairs = zip(own, wide, strict=True)
    return any(large != small and (large == 0 or isinstance(large, str)) for small, large in pairs)
