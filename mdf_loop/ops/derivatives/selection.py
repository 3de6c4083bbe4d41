"""Derivatives of operators that select elements by index, with cotangents summed at equal indices.

Indices have no derivative. ONNX forbids repeated indices in `Scatter...` without a reduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import extents, ints, rank, scalar
from mdf_loop.ops.decompositions.build_helpers import attribute, operand
from mdf_loop.ops.derivatives.rule import (
    ExplicitDerivative,
    TangentsOrCotangents,
    first_operand_cotangent,
    linear,
)
from mdf_loop.ops.derivatives.scatter_add import scatter_add_rows, slice_list
from mdf_loop.ops.derivatives.shapes import extent, reshape_like, shape_of, zeros
from mdf_loop.ops.registry import qualified_name

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- along one axis ---------------------------------------------------------------------------


def _gather_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    """Build the cotangent of Gather's array: zeros, with the result's rows added at the indices."""
    x, indices = operand(op), operand(op, 1)
    axis = attribute(op, "axis") % rank(x)
    if rank(indices) == 0:
        cotangent = b.op("Unsqueeze", cotangent, ints(b, axis))
    elif rank(indices) > 1:
        x_shape = shape_of(b, x)
        index_count = b.op("Reshape", b.op("Size", indices), ints(b, 1))
        flattened_shape = b.op(
            "Concat",
            slice_list(b, x_shape, 0, axis),
            index_count,
            slice_list(b, x_shape, axis + 1),
            axis=0,
        )
        cotangent = b.op("Reshape", cotangent, flattened_shape, allowzero=1)
    flat_indices = b.op("Reshape", indices, ints(b, -1))
    return scatter_add_rows(b, cotangent, flat_indices, extent(b, x, axis), axis)


def _compress_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    x, axis = operand(op), attribute(op, "axis")
    flat_x = x if axis is not None else b.op("Reshape", x, ints(b, -1))
    axis = 0 if axis is None else axis % rank(x)
    kept_indices = b.op("Reshape", b.op("NonZero", operand(op, 1)), ints(b, -1))
    return reshape_like(
        b, scatter_add_rows(b, cotangent, kept_indices, extent(b, flat_x, axis), axis), x
    )


GATHER_DERIVATIVE = linear(first_operand_cotangent(_gather_cotangent))
COMPRESS_DERIVATIVE = linear(first_operand_cotangent(_compress_cotangent))


# --- indices of single elements ---------------------------------------------------------------


def _scatter_add(b: Builder, like: Value, indices: Value, cotangent: Value, axis: int) -> Value:
    return b.op("ScatterElements", zeros(b, like), indices, cotangent, axis=axis, reduction="add")


def _gather_elements_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    return _scatter_add(b, operand(op), operand(op, 1), cotangent, attribute(op, "axis"))


def _top_k_tangents(
    b: Builder, op: Op, operand_tangents: TangentsOrCotangents
) -> TangentsOrCotangents:
    tangent = operand_tangents[0]
    if tangent is None:
        return (None, None)
    axis = attribute(op, "axis") % rank(operand(op))
    return (b.op("GatherElements", tangent, op.outputs[1], axis=axis), None)


def _top_k_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    if k != 0 or result_cotangents[0] is None:
        return None
    return _scatter_add(b, operand(op), op.outputs[1], result_cotangents[0], attribute(op, "axis"))


def _gather_nd_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    """Build the cotangent of the array from which GatherND selects elements.

    The data is reshaped to `[batch, indexed, remaining]`.
    """
    x, indices = operand(op), operand(op, 1)
    batch_axis_count, (*_, indexed_axis_count) = attribute(op, "batch_dims"), extents(indices)
    if not isinstance(indexed_axis_count, int):
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} has no derivative where it is not known how many axes are indexed",
            op.where,
            f"give '{indices.name}' a shape whose last extent is a number",
        )
    x_shape = shape_of(b, x)
    indexed_extents = slice_list(
        b, x_shape, batch_axis_count, batch_axis_count + indexed_axis_count
    )
    flat_index = scalar(b, 0, "int64")
    for k in range(indexed_axis_count):
        axis_extent, axis_index = (
            b.op("Gather", extents_or_indices, scalar(b, k, "int64"), axis=axis)
            for extents_or_indices, axis in ((indexed_extents, 0), (indices, -1))
        )
        flat_index = b.op(
            "Add", b.op("Mul", flat_index, axis_extent), b.op("Mod", axis_index, axis_extent)
        )
    merged_extents = [
        b.op("ReduceProd", axis_extents, keepdims=1)
        for axis_extents in (
            slice_list(b, x_shape, 0, batch_axis_count),
            indexed_extents,
            slice_list(b, x_shape, batch_axis_count + indexed_axis_count),
        )
    ]
    flat_zeros = b.op(
        "Expand", scalar(b, 0, cotangent.dtype), b.op("Concat", *merged_extents, axis=0)
    )
    batch_index_count = b.op("Div", b.op("Size", flat_index), merged_extents[0])
    cotangent_rows = b.op(
        "Reshape",
        cotangent,
        b.op("Concat", merged_extents[0], batch_index_count, merged_extents[2], axis=0),
        allowzero=1,
    )
    index_shape = b.op("Concat", merged_extents[0], batch_index_count, ints(b, 1), axis=0)
    index_column = b.op("Reshape", flat_index, index_shape, allowzero=1)
    element_indices = b.op("Expand", index_column, b.op("Shape", cotangent_rows))
    return reshape_like(
        b,
        b.op(
            "ScatterElements", flat_zeros, element_indices, cotangent_rows, axis=1, reduction="add"
        ),
        x,
    )


GATHER_ELEMENTS_DERIVATIVE = linear(first_operand_cotangent(_gather_elements_cotangent))
GATHER_ND_DERIVATIVE = linear(first_operand_cotangent(_gather_nd_cotangent))
TOP_K_DERIVATIVE = ExplicitDerivative(_top_k_tangents, _top_k_cotangent)


# --- scattering -------------------------------------------------------------------------------


def _scatter_derivative(gather: str) -> ExplicitDerivative:
    """Return the derivative of a scatter operation, which is linear in its array and its updates."""

    def transposed(
        b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
    ) -> Value | None:
        (cotangent,), reduction = result_cotangents, _read_scatter_reduction(op)
        if cotangent is None or k == 1:
            return None
        indices, updates = operand(op, 1), operand(op, 2)
        axis_attribute = {"axis": attribute(op, "axis")} if "axis" in op.attributes else {}
        if k == 2:
            return b.op(gather, cotangent, indices, **axis_attribute)
        if reduction == "add":
            return cotangent
        return b.op(op.op_type, cotangent, indices, zeros(b, updates), **axis_attribute)

    def tangents(
        b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        _read_scatter_reduction(op)
        return linear(transposed, (0, 2)).tangents(b, op, operand_tangents)

    return ExplicitDerivative(tangents, transposed)


def _read_scatter_reduction(op: Op) -> str:
    """Return the reduction of a scatter operation: "none" or "add".

    Raises:
        UnsupportedError: the operation has another reduction.
    """
    reduction = str(attribute(op, "reduction") or "none")
    if reduction not in ("none", "add"):
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} has no derivative here with reduction='{reduction}'",
            op.where,
            "use reduction='add' or none, or differentiate by what does not go through it",
        )
    return reduction


SCATTER_ELEMENTS_DERIVATIVE = _scatter_derivative("GatherElements")
SCATTER_ND_DERIVATIVE = _scatter_derivative("GatherND")
