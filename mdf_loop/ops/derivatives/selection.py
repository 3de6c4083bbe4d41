"""Derivatives of what chooses elements by their places; what is chosen several times gets the sum.

Places do not change. `Scatter...` without a reduction must not be given a place twice, as ONNX says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import attribute, operand
from mdf_loop.ops.derivatives.places import part, put_back
from mdf_loop.ops.derivatives.rule import Changes, General, by_first, linear
from mdf_loop.ops.derivatives.shapes import extent, reshaped, shape_of, zeros
from mdf_loop.ops.registry import title
from mdf_loop.ops.words import extents, ints, rank, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- along one axis ---------------------------------------------------------------------------


def _ungathered(b: Builder, op: Op, g: Value) -> Value:
    """`g` with one axis in place of those of the places, put back."""
    x, places = operand(op), operand(op, 1)
    axis = attribute(op, "axis") % rank(x)
    if rank(places) == 0:
        g = b.op("Unsqueeze", g, ints(b, axis))
    elif rank(places) > 1:
        own = shape_of(b, x)
        count = b.op("Reshape", b.op("Size", places), ints(b, 1))
        shape = b.op("Concat", part(b, own, 0, axis), count, part(b, own, axis + 1), axis=0)
        g = b.op("Reshape", g, shape, allowzero=1)
    listed = b.op("Reshape", places, ints(b, -1))
    return put_back(b, g, listed, extent(b, x, axis), axis)


def _uncompressed(b: Builder, op: Op, g: Value) -> Value:
    x, axis = operand(op), attribute(op, "axis")
    flat = x if axis is not None else b.op("Reshape", x, ints(b, -1))
    axis = 0 if axis is None else axis % rank(x)
    places = b.op("Reshape", b.op("NonZero", operand(op, 1)), ints(b, -1))
    return reshaped(b, put_back(b, g, places, extent(b, flat, axis), axis), x)


GATHER = linear(by_first(_ungathered))
COMPRESS = linear(by_first(_uncompressed))


# --- each element from its own place ----------------------------------------------------------


def _added(b: Builder, like: Value, places: Value, g: Value, axis: int) -> Value:
    return b.op("ScatterElements", zeros(b, like), places, g, axis=axis, reduction="add")


def _elements_back(b: Builder, op: Op, g: Value) -> Value:
    return _added(b, operand(op), operand(op, 1), g, attribute(op, "axis"))


def _largest(b: Builder, op: Op, given: Changes) -> Changes:
    change = given[0]
    if change is None:
        return (None, None)
    axis = attribute(op, "axis") % rank(operand(op))
    return (b.op("GatherElements", change, op.outputs[1], axis=axis), None)


def _largest_back(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    if k != 0 or given[0] is None:
        return None
    return _added(b, operand(op), op.outputs[1], given[0], attribute(op, "axis"))


def _unchosen(b: Builder, op: Op, g: Value) -> Value:
    """By places in the flattened indexed axes: x as `[batch, indexed, rest]`."""
    x, places = operand(op), operand(op, 1)
    batch, (*_, count) = attribute(op, "batch_dims"), extents(places)
    if not isinstance(count, int):
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative where it is not known how many axes are indexed",
            op.where,
            f"give '{places.name}' a shape whose last extent is a number",
        )
    own = shape_of(b, x)
    indexed = part(b, own, batch, batch + count)
    place = scalar(b, 0, "int64")
    for k in range(count):
        length, at = (
            b.op("Gather", v, scalar(b, k, "int64"), axis=axis)
            for v, axis in ((indexed, 0), (places, -1))
        )
        place = b.op("Add", b.op("Mul", place, length), b.op("Mod", at, length))
    sizes = [
        b.op("ReduceProd", numbers, keepdims=1)
        for numbers in (part(b, own, 0, batch), indexed, part(b, own, batch + count))
    ]
    flat = b.op("Expand", scalar(b, 0, g.dtype), b.op("Concat", *sizes, axis=0))
    many = b.op("Div", b.op("Size", place), sizes[0])
    rows = b.op("Reshape", g, b.op("Concat", sizes[0], many, sizes[2], axis=0), allowzero=1)
    shape = b.op("Concat", sizes[0], many, ints(b, 1), axis=0)
    column = b.op("Reshape", place, shape, allowzero=1)
    wide = b.op("Expand", column, b.op("Shape", rows))
    return reshaped(b, b.op("ScatterElements", flat, wide, rows, axis=1, reduction="add"), x)


GATHER_ELEMENTS = linear(by_first(_elements_back))
GATHER_ND = linear(by_first(_unchosen))
TOP_K = General(_largest, _largest_back)


# --- scattering -------------------------------------------------------------------------------


def _scattered(gather: str) -> General:
    """Linear in data and updates: what is replaced changes nothing."""

    def transposed(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
        (g,), kind = given, _reduction(op)
        if g is None or k == 1:
            return None
        places, updates = operand(op, 1), operand(op, 2)
        axis = {"axis": attribute(op, "axis")} if "axis" in op.attributes else {}
        if k == 2:
            return b.op(gather, g, places, **axis)
        if kind == "add":
            return g
        return b.op(op.op_type, g, places, zeros(b, updates), **axis)

    def tangents(b: Builder, op: Op, given: Changes) -> Changes:
        _reduction(op)
        return linear(transposed, (0, 2)).tangents(b, op, given)

    return General(tangents, transposed)


def _reduction(op: Op) -> str:
    """Nothing or `add`.

    Raises:
        UnsupportedError: another one.
    """
    reduction = str(attribute(op, "reduction") or "none")
    if reduction not in ("none", "add"):
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative here with reduction='{reduction}'",
            op.where,
            "use reduction='add' or none, or differentiate by what does not go through it",
        )
    return reduction


SCATTER_ELEMENTS = _scattered("GatherElements")
SCATTER_ND = _scattered("GatherND")
