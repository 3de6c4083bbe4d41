"""Derivatives along axes: sums, products, extremes, norms, softmax, running sums.

At a kink: of equal largest, or smallest, elements each has its share; `ReduceL1` has 0 for elements
that are 0, `ReduceL2` and `LpNormalization` have 0 where all are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import attribute, operand, optional
from mdf_loop.ops.derivatives.rule import Changes, General, Side, Through, by_first, linear
from mdf_loop.ops.derivatives.shapes import extent, shape_of, spread
from mdf_loop.ops.registry import title
from mdf_loop.ops.words import cast, extents, ints, rank, scalar, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Weight: TypeAlias = "Callable[[Builder, Op], Value]"
"""How much the result changes with each element; broadcast to the operand."""

# --- the axes that are reduced ------------------------------------------------------------------


def _axes(b: Builder, op: Op) -> Value | None:
    """The axes that are gone, or would be; None: none at all.

    Raises:
        UnsupportedError: it is said that no axes mean none, which ONNX leaves open but for sums.
    """
    x, said, listed = operand(op), op.attributes.get("axes"), optional(op, 1)
    none_named = not said and (listed is None or 0 in extents(listed))
    if not none_named:
        return ints(b, *said) if said else listed
    if not op.attributes.get("noop_with_empty_axes"):
        return ints(b, *range(rank(x))) if rank(x) else None
    if op.op_type != "ReduceSum":
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative here with 'noop_with_empty_axes' and no axes",
            op.where,
            "leave it out where nothing is reduced",
        )
    return None


def _kept(b: Builder, op: Op, y: Value) -> Value:
    """What is made, or comes back, with extent 1 on the axes that are gone."""
    axes = _axes(b, op)
    return y if axes is None or attribute(op, "keepdims") else b.op("Unsqueeze", y, axes)


def _total(b: Builder, op: Op, terms: Value, keepdims: int) -> Value:
    """The sum of something like the operand along the same axes."""
    axes = _axes(b, op)
    if axes is None:
        return terms
    known = b.constant_of(axes)
    if known is None:
        return b.op("ReduceSum", terms, axes, keepdims=keepdims)
    return sum_of(b, terms, known.ravel().tolist(), keepdims=bool(keepdims))


# --- sums of changes, with weights --------------------------------------------------------------


def _weighted(weight: Weight) -> General:
    """`dy = sum of weight * dx`."""

    def tangents(b: Builder, op: Op, given: Changes) -> Changes:
        change = given[0]
        if change is None:
            return (None,)
        return (_total(b, op, b.op("Mul", change, weight(b, op)), attribute(op, "keepdims")),)

    def back(b: Builder, op: Op, g: Value) -> Value:
        return spread(b, b.op("Mul", _kept(b, op, g), weight(b, op)), operand(op))

    return General(tangents, by_first(back))


def _to_all(b: Builder, op: Op, g: Value) -> Value:
    return spread(b, _kept(b, op, g), operand(op))


def _to_all_alike(b: Builder, op: Op, g: Value) -> Value:
    axes, x = _axes(b, op), operand(op)
    if axes is None:
        return g
    lengths = b.op("Gather", shape_of(b, x), axes, axis=0)
    count = cast(b, b.op("ReduceProd", lengths, keepdims=0), g.dtype)
    return spread(b, _kept(b, op, b.op("Div", g, count)), x)


def _share(b: Builder, op: Op) -> Value:
    y = _kept(b, op, op.outputs[0])
    is_one = cast(b, b.op("Equal", operand(op), y), y.dtype)
    return b.op("Div", is_one, _total(b, op, is_one, 1))


def _sign(b: Builder, op: Op) -> Value:
    return b.op("Sign", operand(op))


def _of_norm(b: Builder, op: Op) -> Value:
    norm = _kept(b, op, op.outputs[0])
    return b.op("Div", operand(op), _unless_zero(b, norm))


def _unless_zero(b: Builder, norm: Value) -> Value:
    """A norm to divide by: 1 where it is 0."""
    is_zero = b.op("Equal", norm, scalar(b, 0, norm.dtype))
    return b.op("Where", is_zero, scalar(b, 1, norm.dtype), norm)


def _twice(b: Builder, op: Op) -> Value:
    return b.op("Mul", operand(op), scalar(b, 2, operand(op).dtype))


def _of_sum(b: Builder, op: Op) -> Value:
    return b.op("Exp", b.op("Neg", _kept(b, op, op.outputs[0])))


def _of_powers(b: Builder, op: Op) -> Value:
    return b.op("Exp", b.op("Sub", operand(op), _kept(b, op, op.outputs[0])))


SUM = linear(by_first(_to_all))
MEAN = linear(by_first(_to_all_alike))
EXTREME = _weighted(_share)
L1 = _weighted(_sign)
L2 = _weighted(_of_norm)
SUM_SQUARE = _weighted(_twice)
LOG_SUM = _weighted(_of_sum)
LOG_SUM_EXP = _weighted(_of_powers)


# --- products -----------------------------------------------------------------------------------


def _others(b: Builder, op: Op) -> Value:
    """The product of all others, also where some are 0: axis by axis, those before and behind."""
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
    made: Value | None = None
    for axis in (int(axis) % rank(rest) for axis in listed):
        factor = _all_but_one(b, rest, axis)
        made = factor if made is None else b.op("Mul", made, factor)
        rest = b.op("ReduceProd", rest, axes=(axis,), keepdims=1)
    assert made is not None
    return made


def _all_but_one(b: Builder, x: Value, axis: int) -> Value:
    """The product of the others along an axis: of n by doubling what is multiplied, in log(n) steps."""
    n = extents(x)[axis]
    if not isinstance(n, int):
        return _each_left_out(b, x, axis)
    sides = []
    for way in (1, -1):
        running, reach = _moved(b, x, axis, way), 1
        while reach < n - 1:
            running = b.op("Mul", running, _moved(b, running, axis, way * reach))
            reach *= 2
        sides.append(running)
    return b.op("Mul", *sides)


def _moved(b: Builder, x: Value, axis: int, by: int) -> Value:
    """So many places further along an axis, ones behind it."""
    pads = np.zeros((2, rank(x)), np.int64)
    pads[:, axis] = by, -by
    return b.op("Pad", x, ints(b, *pads.ravel().tolist()), scalar(b, 1, x.dtype))


def _each_left_out(b: Builder, x: Value, axis: int) -> Value:
    """The same where n is known only when it runs: n products, of which each has a 1 for one element."""
    zero, one = (scalar(b, k, "int64") for k in (0, 1))
    places = b.op("Range", zero, extent(b, x, axis), one)
    after = rank(x) - axis - 1
    column, row = (b.op("Reshape", places, ints(b, *s, *(1,) * after)) for s in ((-1, 1), (1, -1)))
    left_out = b.op("Equal", column, row)
    copies = b.op("Unsqueeze", x, ints(b, axis))
    kept = b.op("Where", left_out, scalar(b, 1, x.dtype), copies)
    return b.op("ReduceProd", kept, axes=(axis + 1,), keepdims=0)


PROD = _weighted(_others)


# --- as many as before --------------------------------------------------------------------------


def _along(b: Builder, op: Op, terms: Value) -> Value:
    return sum_of(b, terms, (attribute(op, "axis"),), keepdims=True)


def _softmax(b: Builder, op: Op, g: Value) -> Value:
    """`y * (g - sum(y * g))`, both ways."""
    y = op.outputs[0]
    return b.op("Mul", y, b.op("Sub", g, _along(b, op, b.op("Mul", y, g))))


def _log_softmax(b: Builder, op: Op, g: Value) -> Value:
    return b.op("Sub", g, b.op("Mul", b.op("Exp", op.outputs[0]), _along(b, op, g)))


def _log_softmax_tangent(b: Builder, op: Op, t: Value) -> Value:
    return b.op("Sub", t, _along(b, op, b.op("Mul", b.op("Exp", op.outputs[0]), t)))


def _both_ways(there: Side, back: Side) -> General:
    def tangents(b: Builder, op: Op, given: Changes) -> Changes:
        return (None if given[0] is None else there(b, op, given[0]),)

    return General(tangents, by_first(back))


def _running_back(b: Builder, op: Op, g: Value) -> Value:
    """From the other end."""
    turned = {**op.attributes, "reverse": 1 - attribute(op, "reverse")}
    return b.op("CumSum", g, operand(op, 1), **turned)


def _normalized(b: Builder, op: Op) -> Value:
    """`x / norm` along an axis, 0 where the norm is 0."""
    x, axis = operand(op), attribute(op, "axis")
    word = "ReduceL1" if attribute(op, "p") == 1 else "ReduceL2"
    norm, zero = b.op(word, x, axes=(axis,), keepdims=1), scalar(b, 0, x.dtype)
    ratio = b.op("Div", x, _unless_zero(b, norm))
    return b.op("Where", b.op("Equal", norm, zero), zero, ratio)


SOFTMAX = _both_ways(_softmax, _softmax)
LOG_SOFTMAX = _both_ways(_log_softmax_tangent, _log_softmax)
CUM_SUM = linear(by_first(_running_back))
LP_NORMALIZATION = Through(_normalized)
