"""Changes brought to the shape of what they belong to: broadcasting, and its transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.words import extents, ints, scalar, shape_between, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def shape_of(b: Builder, x: Value) -> Value:
    """The extents of a value, as ONNX takes shapes; a constant if they are known."""
    return shape_between(b, x, 0)


def extent(b: Builder, x: Value, axis: int) -> Value:
    """The extent of an axis as one number; a constant if it is known."""
    known = extents(x)[axis]
    if isinstance(known, int):
        return scalar(b, known, "int64")
    return b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0)


def zeros(b: Builder, x: Value) -> Value:
    """Zeros of the shape of a value."""
    if is_fixed(x.shape):
        return b.constant(np.zeros(x.shape, x.dtype))
    return typed(b, b.op("Expand", scalar(b, 0, x.dtype), b.op("Shape", x)), x)


def typed(b: Builder, made: Value, like: Value) -> Value:
    """What was made last, which has the shape of a value: its names are more than ONNX can tell."""
    last = b.ops[-1] if b.ops else None
    known = like.shape is None or made.shape == like.shape
    if known or not isinstance(last, Op) or made not in last.outputs:
        return made
    told = replace(made, shape=like.shape)
    b.ops[-1] = substitute(last, {made: told})
    return told


def spread(b: Builder, change: Value, like: Value) -> Value:
    """A change broadcast to the shape of a value."""
    if change.shape is not None and change.shape == like.shape:
        return change
    return typed(b, b.op("Expand", change, shape_of(b, like)), like)


def reshaped(b: Builder, change: Value, like: Value) -> Value:
    """A change of as many elements, with the axes of a value."""
    if change.shape is not None and change.shape == like.shape:
        return change
    return typed(b, b.op("Reshape", change, shape_of(b, like), allowzero=1), like)


def fitted(b: Builder, change: Value, like: Value) -> Value:
    """A change of what a value was broadcast to, summed over all that its elements stand for."""
    wide, own = extents(change), extents(like)
    if wide == own:
        return change
    own = (1,) * (len(wide) - len(own)) + own
    if all(small == 1 or small == large for small, large in zip(own, wide, strict=True)):
        axes = [k for k, (small, large) in enumerate(zip(own, wide, strict=True)) if small != large]
        axes += [k for k in range(len(wide) - len(extents(like))) if k not in axes]
        total = sum_of(b, change, axes, keepdims=True)
        return reshaped(b, total, like)
    return _fitted_when_run(b, change, like)


def _fitted_when_run(b: Builder, change: Value, like: Value) -> Value:
    """The same where it is not known before the run which axes were broadcast."""
    ones = ints(b, *(1,) * (len(extents(change)) - len(extents(like))))
    own = b.op("Concat", ones, b.op("Shape", like), axis=0)
    least = b.op("Max", own, scalar(b, 1, "int64"))
    copies = b.op("Div", b.op("Shape", change), least)
    return reshaped(b, over_copies(b, change, copies, own), like)


def over_copies(b: Builder, change: Value, copies: Value, own: Value) -> Value:
    """`[c0 * n0, c1 * n1, ...]` as `[c0, n0, c1, n1, ...]`, summed over the copies."""
    pairs = [b.op("Unsqueeze", numbers, ints(b, 1)) for numbers in (copies, own)]
    shape = b.op("Reshape", b.op("Concat", *pairs, axis=1), ints(b, -1))
    apart = b.op("Reshape", change, shape, allowzero=1)
    return sum_of(b, apart, range(0, 2 * len(extents(change)), 2))
