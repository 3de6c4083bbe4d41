"""Derivatives of reductions: sums, products, extremes, norms, softmax, cumulative sums.

Equal extremes share the derivative equally. The derivative of `ReduceL1` is 0 for elements that are 0. The
derivative of `ReduceL2` and `LpNormalization` is 0 if all elements are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast, extents, ints, rank, scalar, sum_of
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, optional_operand
from mdf_loop.ops.derivatives.rule import (
    DecomposedDerivative,
    ElementDerivative,
    ExplicitDerivative,
    TangentsOrCotangents,
    first_operand_cotangent,
    linear,
)
from mdf_loop.ops.derivatives.shapes import broadcast_like, extent, shape_of
from mdf_loop.ops.registry import qualified_name

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Weight: TypeAlias = "Callable[[Builder, Op], Value]"
"""Function that builds the derivative of the result by each element, broadcast to the operand."""

# --- reduced axes -------------------------------------------------------------------------------


def _reduced_axes(b: Builder, op: Op) -> Value | None:
    """Return the axes that a reduction reduces as an int64 array, or None if there are none.

    Raises:
        UnsupportedError: `noop_with_empty_axes` without axes, which ONNX defines for sums only.
    """
    x, axes_attribute, axes_operand = (
        operand(op),
        op.attributes.get("axes"),
        optional_operand(op, 1),
    )
    has_no_axes = not axes_attribute and (axes_operand is None or 0 in extents(axes_operand))
    if not has_no_axes:
        return ints(b, *axes_attribute) if axes_attribute else axes_operand
    if not op.attributes.get("noop_with_empty_axes"):
        return ints(b, *range(rank(x))) if rank(x) else None
    if op.op_type != "ReduceSum":
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} has no derivative here with 'noop_with_empty_axes' and no axes",
            op.where,
            "leave it out where nothing is reduced",
        )
    return None


def _restore_reduced_axes(b: Builder, op: Op, y: Value) -> Value:
    """Insert axes of extent 1 into a reduction's result, unless the operation keeps reduced axes."""
    axes = _reduced_axes(b, op)
    return y if axes is None or attribute(op, "keepdims") else b.op("Unsqueeze", y, axes)


def _sum_along_axes(b: Builder, op: Op, terms: Value, keepdims: int) -> Value:
    """Build the sum of `terms`, shaped as a reduction's operand, along the reduced axes."""
    axes = _reduced_axes(b, op)
    if axes is None:
        return terms
    constant_axes = b.constant_of(axes)
    if constant_axes is None:
        return b.op("ReduceSum", terms, axes, keepdims=keepdims)
    return sum_of(b, terms, constant_axes.ravel().tolist(), keepdims=bool(keepdims))


# --- weighted sums of tangents ------------------------------------------------------------------


def _weighted_sum_derivative(weight: Weight) -> ExplicitDerivative:
    """Return the derivative of a reduction whose tangent is the sum of `weight` times x's tangent."""

    def tangents(
        b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        tangent = operand_tangents[0]
        if tangent is None:
            return (None,)
        return (
            _sum_along_axes(b, op, b.op("Mul", tangent, weight(b, op)), attribute(op, "keepdims")),
        )

    def cotangent(b: Builder, op: Op, g: Value) -> Value:
        return broadcast_like(
            b, b.op("Mul", _restore_reduced_axes(b, op, g), weight(b, op)), operand(op)
        )

    return ExplicitDerivative(tangents, first_operand_cotangent(cotangent))


def _sum_cotangent(b: Builder, op: Op, g: Value) -> Value:
    return broadcast_like(b, _restore_reduced_axes(b, op, g), operand(op))


def _mean_cotangent(b: Builder, op: Op, g: Value) -> Value:
    axes, x = _reduced_axes(b, op), operand(op)
    if axes is None:
        return g
    reduced_extents = b.op("Gather", shape_of(b, x), axes, axis=0)
    element_count = cast(b, b.op("ReduceProd", reduced_extents, keepdims=0), g.dtype)
    return broadcast_like(b, _restore_reduced_axes(b, op, b.op("Div", g, element_count)), x)


def _extreme_weight(b: Builder, op: Op) -> Value:
    y = _restore_reduced_axes(b, op, op.outputs[0])
    is_extreme = cast(b, b.op("Equal", operand(op), y), y.dtype)
    return b.op("Div", is_extreme, _sum_along_axes(b, op, is_extreme, 1))


def _l1_weight(b: Builder, op: Op) -> Value:
    return b.op("Sign", operand(op))


def _l2_weight(b: Builder, op: Op) -> Value:
    norm = _restore_reduced_axes(b, op, op.outputs[0])
    return b.op("Div", operand(op), _replace_zero_norms(b, norm))


def _replace_zero_norms(b: Builder, norm: Value) -> Value:
    """Replace norms of 0 by 1 to prevent a division by 0."""
    is_zero = b.op("Equal", norm, scalar(b, 0, norm.dtype))
    return b.op("Where", is_zero, scalar(b, 1, norm.dtype), norm)


def _square_sum_weight(b: Builder, op: Op) -> Value:
    return b.op("Mul", operand(op), scalar(b, 2, operand(op).dtype))


def _log_sum_weight(b: Builder, op: Op) -> Value:
    return b.op("Exp", b.op("Neg", _restore_reduced_axes(b, op, op.outputs[0])))


def _log_sum_exp_weight(b: Builder, op: Op) -> Value:
    return b.op("Exp", b.op("Sub", operand(op), _restore_reduced_axes(b, op, op.outputs[0])))


SUM_DERIVATIVE = linear(first_operand_cotangent(_sum_cotangent))
MEAN_DERIVATIVE = linear(first_operand_cotangent(_mean_cotangent))
EXTREME_DERIVATIVE = _weighted_sum_derivative(_extreme_weight)
L1_DERIVATIVE = _weighted_sum_derivative(_l1_weight)
L2_DERIVATIVE = _weighted_sum_derivative(_l2_weight)
SUM_SQUARE_DERIVATIVE = _weighted_sum_derivative(_square_sum_weight)
LOG_SUM_DERIVATIVE = _weighted_sum_derivative(_log_sum_weight)
LOG_SUM_EXP_DERIVATIVE = _weighted_sum_derivative(_log_sum_exp_weight)


# --- products -----------------------------------------------------------------------------------


def _product_weight(b: Builder, op: Op) -> Value:
    """Build the derivative of ReduceProd for each element, which is the product of all other elements.

    Elements may be 0, because no product is divided by an element.
    """
    remaining_product, axes = operand(op), _reduced_axes(b, op)
    constant_axes = None if axes is None else b.constant_of(axes)
    if constant_axes is None:
        if axes is None:
            return scalar(b, 1, remaining_product.dtype)
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} has no derivative where its axes are computed",
            op.where,
            "give the axes as constants",
        )
    product: Value | None = None
    for axis in (int(axis) % rank(remaining_product) for axis in constant_axes):
        exclusive_product = _build_exclusive_product(b, remaining_product, axis)
        product = exclusive_product if product is None else b.op("Mul", product, exclusive_product)
        remaining_product = b.op("ReduceProd", remaining_product, axes=(axis,), keepdims=1)
    assert product is not None
    return product


def _build_exclusive_product(b: Builder, x: Value, axis: int) -> Value:
    """Build for each element the product of all other elements along an axis, in log(n) steps."""
    n = extents(x)[axis]
    if not isinstance(n, int):
        return _exclusive_product_of_unknown_length(b, x, axis)
    prefix_suffix_products = []
    for direction in (1, -1):
        one_sided_product, shift_distance = _shift_along_axis(b, x, axis, direction), 1
        while shift_distance < n - 1:
            one_sided_product = b.op(
                "Mul",
                one_sided_product,
                _shift_along_axis(b, one_sided_product, axis, direction * shift_distance),
            )
            shift_distance *= 2
        prefix_suffix_products.append(one_sided_product)
    return b.op("Mul", *prefix_suffix_products)


def _shift_along_axis(b: Builder, x: Value, axis: int, offset: int) -> Value:
    """Shift the elements of an array along an axis, and insert ones in the free places."""
    pads = np.zeros((2, rank(x)), np.int64)
    pads[:, axis] = offset, -offset
    return b.op("Pad", x, ints(b, *pads.ravel().tolist()), scalar(b, 1, x.dtype))


def _exclusive_product_of_unknown_length(b: Builder, x: Value, axis: int) -> Value:
    """Build for each element the product of all other elements along an axis of unknown extent.

    In each of the n products, a 1 replaces one element.
    """
    zero, one = (scalar(b, k, "int64") for k in (0, 1))
    indices = b.op("Range", zero, extent(b, x, axis), one)
    trailing_axis_count = rank(x) - axis - 1
    column_indices, row_indices = (
        b.op("Reshape", indices, ints(b, *vector_shape, *(1,) * trailing_axis_count))
        for vector_shape in ((-1, 1), (1, -1))
    )
    is_omitted = b.op("Equal", column_indices, row_indices)
    unsqueezed_x = b.op("Unsqueeze", x, ints(b, axis))
    masked_factors = b.op("Where", is_omitted, scalar(b, 1, x.dtype), unsqueezed_x)
    return b.op("ReduceProd", masked_factors, axes=(axis + 1,), keepdims=0)


PROD_DERIVATIVE = _weighted_sum_derivative(_product_weight)


# --- operations that keep the shape -------------------------------------------------------------


def _sum_along_axis(b: Builder, op: Op, terms: Value) -> Value:
    return sum_of(b, terms, (attribute(op, "axis"),), keepdims=True)


def _softmax_derivative(b: Builder, op: Op, g: Value) -> Value:
    """Build the derivative of Softmax, `y * (g - sum(y * g))`, both for a tangent and a cotangent `g`."""
    y = op.outputs[0]
    return b.op("Mul", y, b.op("Sub", g, _sum_along_axis(b, op, b.op("Mul", y, g))))


def _log_softmax_cotangent(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Sub", g, b.op("Mul", b.op("Exp", op.outputs[0]), _sum_along_axis(b, op, g)))


def _log_softmax_tangent(b: Builder, op: Op, t: Value) -> Value:
    return b.op("Sub", t, _sum_along_axis(b, op, b.op("Mul", b.op("Exp", op.outputs[0]), t)))


def _same_shape_derivative(
    tangent: ElementDerivative, cotangent: ElementDerivative
) -> ExplicitDerivative:
    def tangents(
        b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        return (None if operand_tangents[0] is None else tangent(b, op, operand_tangents[0]),)

    return ExplicitDerivative(tangents, first_operand_cotangent(cotangent))


def _reverse_cumulative_sum(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of CumSum, the cumulative sum of `g` in the opposite direction."""
    attributes = {**op.attributes, "reverse": 1 - attribute(op, "reverse")}
    return b.op("CumSum", g, operand(op, 1), **attributes)


def _decompose_lp_normalization(b: Builder, op: Op) -> Value:
    """Decompose LpNormalization into `x / norm` along an axis, or 0 if the norm is 0."""
    x, axis = operand(op), attribute(op, "axis")
    op_type = "ReduceL1" if attribute(op, "p") == 1 else "ReduceL2"
    norm, zero = b.op(op_type, x, axes=(axis,), keepdims=1), scalar(b, 0, x.dtype)
    normalized_x = b.op("Div", x, _replace_zero_norms(b, norm))
    return b.op("Where", b.op("Equal", norm, zero), zero, normalized_x)


SOFTMAX_DERIVATIVE = _same_shape_derivative(_softmax_derivative, _softmax_derivative)
LOG_SOFTMAX_DERIVATIVE = _same_shape_derivative(_log_softmax_tangent, _log_softmax_cotangent)
CUM_SUM_DERIVATIVE = linear(first_operand_cotangent(_reverse_cumulative_sum))
LP_NORMALIZATION_DERIVATIVE = DecomposedDerivative(_decompose_lp_normalization)
