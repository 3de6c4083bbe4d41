"""Derivatives of operators that select elements by index; repeated indices sum their cotangents.

Indices have no derivative. ONNX forbids repeated indices in `Scatter...` without a reduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import extents, ints, rank, scalar
from mdf_loop.ops.decompositions.build_helpers import attribute, operand
from mdf_loop.ops.derivatives.rule import Changes, ExplicitDerivative, by_first, linear
from mdf_loop.ops.derivatives.scatter_add import scatter_add_rows, slice_list
from mdf_loop.ops.derivatives.shapes import extent, reshape_like, shape_of, zeros
from mdf_loop.ops.registry import title

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- along one axis ---------------------------------------------------------------------------


def _gather_cotangent(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of the data of Gather: add the rows of `g` at their indices."""
    x, indices = operand(op), operand(op, 1)
    axis = attribute(op, "axis") % rank(x)
    if rank(indices) == 0:
        g = b.op("Unsqueeze", g, ints(b, axis))
    elif rank(indices) > 1:
        own = shape_of(b, x)
        count = b.op("Reshape", b.op("Size", indices), ints(b, 1))
        shape = b.op(
            "Concat", slice_list(b, own, 0, axis), count, slice_list(b, own, axis + 1), axis=0
        )
        g = b.op("Reshape", g, shape, allowzero=1)
    listed = b.op("Reshape", indices, ints(b, -1))
    return scatter_add_rows(b, g, listed, extent(b, x, axis), axis)


def _compress_cotangent(b: Builder, op: Op, g: Value) -> Value:
    x, axis = operand(op), attribute(op, "axis")
    flat = x if axis is not None else b.op("Reshape", x, ints(b, -1))
    axis = 0 if axis is None else axis % rank(x)
    indices = b.op("Reshape", b.op("NonZero", operand(op, 1)), ints(b, -1))
    return reshape_like(b, scatter_add_rows(b, g, indices, extent(b, flat, axis), axis), x)


GATHER = linear(by_first(_gather_cotangent))
COMPRESS = linear(by_first(_compress_cotangent))


# --- indices of single elements ---------------------------------------------------------------


def _scatter_add(b: Builder, like: Value, places: Value, g: Value, axis: int) -> Value:
    return b.op("ScatterElements", zeros(b, like), places, g, axis=axis, reduction="add")


def _gather_elements_cotangent(b: Builder, op: Op, g: Value) -> Value:
    return _scatter_add(b, operand(op), operand(op, 1), g, attribute(op, "axis"))


def _top_k_tangents(b: Builder, op: Op, changes: Changes) -> Changes:
    change = changes[0]
    if change is None:
        return (None, None)
    axis = attribute(op, "axis") % rank(operand(op))
    return (b.op("GatherElements", change, op.outputs[1], axis=axis), None)


def _top_k_cotangent(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
    if k != 0 or changes[0] is None:
        return None
    return _scatter_add(b, operand(op), op.outputs[1], changes[0], attribute(op, "axis"))


def _gather_nd_cotangent(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of the data of GatherND, with x reshaped to `[batch, indexed, remaining]`."""
    x, indices = operand(op), operand(op, 1)
    batch, (*_, count) = attribute(op, "batch_dims"), extents(indices)
    if not isinstance(count, int):
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative where it is not known how many axes are indexed",
            op.where,
            f"give '{indices.name}' a shape whose last extent is a number",
        )
    own = shape_of(b, x)
    indexed = slice_list(b, own, batch, batch + count)
    flat_index = scalar(b, 0, "int64")
    for k in range(count):
        length, at = (
            b.op("Gather", v, scalar(b, k, "int64"), axis=axis)
            for v, axis in ((indexed, 0), (indices, -1))
        )
        flat_index = b.op("Add", b.op("Mul", flat_index, length), b.op("Mod", at, length))
    sizes = [
        b.op("ReduceProd", numbers, keepdims=1)
        for numbers in (slice_list(b, own, 0, batch), indexed, slice_list(b, own, batch + count))
    ]
    flat = b.op("Expand", scalar(b, 0, g.dtype), b.op("Concat", *sizes, axis=0))
    count_per_batch = b.op("Div", b.op("Size", flat_index), sizes[0])
    rows = b.op(
        "Reshape", g, b.op("Concat", sizes[0], count_per_batch, sizes[2], axis=0), allowzero=1
    )
    shape = b.op("Concat", sizes[0], count_per_batch, ints(b, 1), axis=0)
    column = b.op("Reshape", flat_index, shape, allowzero=1)
    wide = b.op("Expand", column, b.op("Shape", rows))
    return reshape_like(b, b.op("ScatterElements", flat, wide, rows, axis=1, reduction="add"), x)


GATHER_ELEMENTS = linear(by_first(_gather_elements_cotangent))
GATHER_ND = linear(by_first(_gather_nd_cotangent))
TOP_K = ExplicitDerivative(_top_k_tangents, _top_k_cotangent)


# --- scattering -------------------------------------------------------------------------------


def _scatter_rule(gather: str) -> ExplicitDerivative:
    """Return the derivative of a scatter operation, which is linear in data and updates."""

    def transposed(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
        (g,), kind = changes, _scatter_reduction(op)
        if g is None or k == 1:
            return None
        places, updates = operand(op, 1), operand(op, 2)
        axis = {"axis": attribute(op, "axis")} if "axis" in op.attributes else {}
        if k == 2:
            return b.op(gather, g, places, **axis)
        if kind == "add":
            return g
        return b.op(op.op_type, g, places, zeros(b, updates), **axis)

    def tangents(b: Builder, op: Op, changes: Changes) -> Changes:
        _scatter_reduction(op)
        return linear(transposed, (0, 2)).tangents(b, op, changes)

    return ExplicitDerivative(tangents, transposed)


def _scatter_reduction(op: Op) -> str:
    """Return the reduction of a scatter operation: "none" or "add".

    Raises:
        UnsupportedError: the operation has another reduction.
    """
    reduction = str(attribute(op, "reduction") or "none")
    if reduction not in ("none", "add"):
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative here with reduction='{reduction}'",
            op.where,
            "use reduction='add' or none, or differentiate by what does not go through it",
        )
    return reduction


SCATTER_ELEMENTS = _scatter_rule("GatherElements")
SCATTER_ND = _scatter_rule("GatherND")
