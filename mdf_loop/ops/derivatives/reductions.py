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
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, optional
from mdf_loop.ops.derivatives.rule import (
    Changes,
    DecomposedDerivative,
    ElementDerivative,
    ExplicitDerivative,
    by_first,
    linear,
)
from mdf_loop.ops.derivatives.shapes import broadcast_like, extent, shape_of
from mdf_loop.ops.registry import title

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Weight: TypeAlias = "Callable[[Builder, Op], Value]"
"""Function that builds the derivative of the result by each element, broadcast to the operand."""

# --- reduced axes -------------------------------------------------------------------------------


def _axes(b: Builder, op: Op) -> Value | None:
    """Return the axes that an operation reduces as int64[n], or None if it reduces no axis.

    Raises:
        UnsupportedError: `noop_with_empty_axes` without axes, which ONNX defines for sums only.
    """
    x, axes_attribute, axes_operand = operand(op), op.attributes.get("axes"), optional(op, 1)
    none_named = not axes_attribute and (axes_operand is None or 0 in extents(axes_operand))
    if not none_named:
        return ints(b, *axes_attribute) if axes_attribute else axes_operand
    if not op.attributes.get("noop_with_empty_axes"):
        return ints(b, *range(rank(x))) if rank(x) else None
    if op.op_type != "ReduceSum":
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative here with 'noop_with_empty_axes' and no axes",
            op.where,
            "leave it out where nothing is reduced",
        )
    return None


def _restore_reduced_axes(b: Builder, op: Op, y: Value) -> Value:
    """Insert the reduced axes into a result with extent 1, unless the operation keeps them."""
    axes = _axes(b, op)
    return y if axes is None or attribute(op, "keepdims") else b.op("Unsqueeze", y, axes)


def _sum_along_axes(b: Builder, op: Op, terms: Value, keepdims: int) -> Value:
    """Build the sum of `terms`, an array of the operand's shape, along the reduced axes of an operation."""
    axes = _axes(b, op)
    if axes is None:
        return terms
    known = b.constant_of(axes)
    if known is None:
        return b.op("ReduceSum", terms, axes, keepdims=keepdims)
    return sum_of(b, terms, known.ravel().tolist(), keepdims=bool(keepdims))


# --- weighted sums of tangents ------------------------------------------------------------------


def _weighted(weight: Weight) -> ExplicitDerivative:
    """Return the derivative of a reduction whose tangent is the sum of `weight * dx`."""

    def tangents(b: Builder, op: Op, changes: Changes) -> Changes:
        change = changes[0]
        if change is None:
            return (None,)
        return (
            _sum_along_axes(b, op, b.op("Mul", change, weight(b, op)), attribute(op, "keepdims")),
        )

    def back(b: Builder, op: Op, g: Value) -> Value:
        return broadcast_like(
            b, b.op("Mul", _restore_reduced_axes(b, op, g), weight(b, op)), operand(op)
        )

    return ExplicitDerivative(tangents, by_first(back))


def _sum_cotangent(b: Builder, op: Op, g: Value) -> Value:
    return broadcast_like(b, _restore_reduced_axes(b, op, g), operand(op))


def _mean_cotangent(b: Builder, op: Op, g: Value) -> Value:
    axes, x = _axes(b, op), operand(op)
    if axes is None:
        return g
    lengths = b.op("Gather", shape_of(b, x), axes, axis=0)
    count = cast(b, b.op("ReduceProd", lengths, keepdims=0), g.dtype)
    return broadcast_like(b, _restore_reduced_axes(b, op, b.op("Div", g, count)), x)


def _extreme_weight(b: Builder, op: Op) -> Value:
    y = _restore_reduced_axes(b, op, op.outputs[0])
    is_extreme = cast(b, b.op("Equal", operand(op), y), y.dtype)
    return b.op("Div", is_extreme, _sum_along_axes(b, op, is_extreme, 1))


def _l1_weight(b: Builder, op: Op) -> Value:
    return b.op("Sign", operand(op))


def _l2_weight(b: Builder, op: Op) -> Value:
    norm = _restore_reduced_axes(b, op, op.outputs[0])
    return b.op("Div", operand(op), _nonzero_norm(b, norm))


def _nonzero_norm(b: Builder, norm: Value) -> Value:
    """Replace norms of 0 by 1, so that a division by them is defined."""
    is_zero = b.op("Equal", norm, scalar(b, 0, norm.dtype))
    return b.op("Where", is_zero, scalar(b, 1, norm.dtype), norm)


def _square_sum_weight(b: Builder, op: Op) -> Value:
    return b.op("Mul", operand(op), scalar(b, 2, operand(op).dtype))


def _log_sum_weight(b: Builder, op: Op) -> Value:
    return b.op("Exp", b.op("Neg", _restore_reduced_axes(b, op, op.outputs[0])))


def _log_sum_exp_weight(b: Builder, op: Op) -> Value:
    return b.op("Exp", b.op("Sub", operand(op), _restore_reduced_axes(b, op, op.outputs[0])))


SUM = linear(by_first(_sum_cotangent))
MEAN = linear(by_first(_mean_cotangent))
EXTREME = _weighted(_extreme_weight)
L1 = _weighted(_l1_weight)
L2 = _weighted(_l2_weight)
SUM_SQUARE = _weighted(_square_sum_weight)
LOG_SUM = _weighted(_log_sum_weight)
LOG_SUM_EXP = _weighted(_log_sum_exp_weight)


# --- products -----------------------------------------------------------------------------------


def _product_of_others(b: Builder, op: Op) -> Value:
    """Build the derivative of ReduceProd by each element: the product of all other reduced elements.

    Elements may be 0, because no product is divided by an element.
    """
    rest, axes = operand(op), _axes(b, op)
    listed = None if axes is None else b.constant_of(axes)
    if listed is None:
        if axes is None:
            return scalar(b, 1, rest.dtype)
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative where its axes are computed",
            op.where,
            "give the axes as constants",
        )
    product: Value | None = None
    for axis in (int(axis) % rank(rest) for axis in listed):
        factor = _exclusive_product(b, rest, axis)
        product = factor if product is None else b.op("Mul", product, factor)
        rest = b.op("ReduceProd", rest, axes=(axis,), keepdims=1)
    assert product is not None
    return product


def _exclusive_product(b: Builder, x: Value, axis: int) -> Value:
    """Build the product of all other elements along an axis for each element, in log(n) doubling steps."""
    n = extents(x)[axis]
    if not isinstance(n, int):
        return _exclusive_product_of_unknown_length(b, x, axis)
    sides = []
    for way in (1, -1):
        running, reach = _shift_along_axis(b, x, axis, way), 1
        while reach < n - 1:
            running = b.op("Mul", running, _shift_along_axis(b, running, axis, way * reach))
            reach *= 2
        sides.append(running)
    return b.op("Mul", *sides)


def _shift_along_axis(b: Builder, x: Value, axis: int, by: int) -> Value:
    """Shift the elements along an axis and insert ones."""
    pads = np.zeros((2, rank(x)), np.int64)
    pads[:, axis] = by, -by
    return b.op("Pad", x, ints(b, *pads.ravel().tolist()), scalar(b, 1, x.dtype))


def _exclusive_product_of_unknown_length(b: Builder, x: Value, axis: int) -> Value:
    """Build the product of all other elements along an axis of unknown extent for each element.

    In each of the n products, a 1 replaces one element.
    """
    zero, one = (scalar(b, k, "int64") for k in (0, 1))
    places = b.op("Range", zero, extent(b, x, axis), one)
    after = rank(x) - axis - 1
    column, row = (b.op("Reshape", places, ints(b, *s, *(1,) * after)) for s in ((-1, 1), (1, -1)))
    left_out = b.op("Equal", column, row)
    copies = b.op("Unsqueeze", x, ints(b, axis))
    factors = b.op("Where", left_out, scalar(b, 1, x.dtype), copies)
    return b.op("ReduceProd", factors, axes=(axis + 1,), keepdims=0)


PROD = _weighted(_product_of_others)


# --- operations that keep the shape -------------------------------------------------------------


def _along(b: Builder, op: Op, terms: Value) -> Value:
    return sum_of(b, terms, (attribute(op, "axis"),), keepdims=True)


def _softmax(b: Builder, op: Op, g: Value) -> Value:
    """Build `y * (g - sum(y * g))`, which is both the tangent and the cotangent of Softmax."""
    y = op.outputs[0]
    return b.op("Mul", y, b.op("Sub", g, _along(b, op, b.op("Mul", y, g))))


def _log_softmax(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Sub", g, b.op("Mul", b.op("Exp", op.outputs[0]), _along(b, op, g)))


def _log_softmax_tangent(b: Builder, op: Op, t: Value) -> Value:
    return b.op("Sub", t, _along(b, op, b.op("Mul", b.op("Exp", op.outputs[0]), t)))


def _same_shape_rule(there: ElementDerivative, back: ElementDerivative) -> ExplicitDerivative:
    def tangents(b: Builder, op: Op, changes: Changes) -> Changes:
        return (None if changes[0] is None else there(b, op, changes[0]),)

    return ExplicitDerivative(tangents, by_first(back))


def _reverse_cumulative_sum(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of CumSum: the cumulative sum of `g` in the opposite direction."""
    attributes = {**op.attributes, "reverse": 1 - attribute(op, "reverse")}
    return b.op("CumSum", g, operand(op, 1), **attributes)


def _normalized(b: Builder, op: Op) -> Value:
    """Decompose LpNormalization into `x / norm` along an axis, or 0 if the norm is 0."""
    x, axis = operand(op), attribute(op, "axis")
    word = "ReduceL1" if attribute(op, "p") == 1 else "ReduceL2"
    norm, zero = b.op(word, x, axes=(axis,), keepdims=1), scalar(b, 0, x.dtype)
    ratio = b.op("Div", x, _nonzero_norm(b, norm))
    return b.op("Where", b.op("Equal", norm, zero), zero, ratio)


SOFTMAX = _same_shape_rule(_softmax, _softmax)
LOG_SOFTMAX = _same_shape_rule(_log_softmax_tangent, _log_softmax)
CUM_SUM = linear(by_first(_reverse_cumulative_sum))
LP_NORMALIZATION = DecomposedDerivative(_normalized)
