"""`value[...]`: whole numbers, slices, index arrays, and the elements of a loop's results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import ArityError, ExpressionError, OperandError
from mdf_loop.ir import Value
from mdf_loop.lower.operators import Term, cast, rank, tensor


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step`; None stands for an end left out."""

    start: Value | None
    stop: Value | None
    step: Value | None


Index = Value | Slice


def subscript(b: Builder, term: Term, indices: tuple[Index, ...]) -> Term:
    """`term[indices]`."""
    if isinstance(term, tuple):
        return _element(b, term, indices)
    if len(indices) > rank(term):
        if _is_zero(b, indices):  # a loop's only result, written like the first of several
            return term
        raise OperandError(f"{term.type} has {rank(term)} axes, but {len(indices)} subscripts")
    axis = 0
    value = term
    for index in indices:
        if isinstance(index, Slice):
            value = _slice(b, value, axis, index)
            axis += 1
        else:
            value = _take(b, value, axis, index)
            axis += rank(index)
    return value


def _is_zero(b: Builder, indices: tuple[Index, ...]) -> bool:
    if len(indices) != 1 or isinstance(indices[0], Slice):
        return False
    known = b.constant_of(indices[0])
    return known is not None and known.shape == () and known == 0


def _element(b: Builder, term: tuple[Term, ...], indices: tuple[Index, ...]) -> Term:
    index, *rest = indices
    if isinstance(index, Slice):
        raise ExpressionError(
            "the results of a function cannot be sliced", hint="take them one by one"
        )
    known = b.constant_of(index)
    if known is None:
        return subscript(b, tensor(b, term), indices)
    position = int(known)
    if not -len(term) <= position < len(term):
        raise ArityError(
            f"result {position} does not exist: there are {len(term)} results "
            f"(numbered 0 to {len(term) - 1})"
        )
    element = term[position]
    return subscript(b, element, tuple(rest)) if rest else element


def _take(b: Builder, value: Value, axis: int, index: Value) -> Value:
    if np.dtype(index.dtype).kind not in "iu":
        raise OperandError(
            f"a subscript is a whole number, not {index.type}",
            hint="round it first, e.g. x[int(i)]",
        )
    known = b.constant_of(index)
    assert value.shape is not None  # rank() was asked before
    extent = value.shape[axis]
    if known is not None and isinstance(extent, int):
        outside = (known < -extent) | (known >= extent)
        if np.any(outside):
            raise OperandError(f"subscript {known} is outside of axis {axis} of {value.type}")
    return b.op("Gather", value, cast(b, index, "int64"), axis=axis)


def _slice(b: Builder, value: Value, axis: int, part: Slice) -> Value:
    step = 1 if part.step is None else _step(b, part.step)
    ends = np.iinfo(np.int64)
    first, last = (0, ends.max) if step > 0 else (ends.max, ends.min)
    start = _edge(b, part.start, first)
    stop = _edge(b, part.stop, last)
    axes, steps = b.constant(np.array([axis])), b.constant(np.array([step]))
    return b.op("Slice", value, start, stop, axes, steps)


def _step(b: Builder, step: Value) -> int:
    known = b.constant_of(step)
    if known is None or known.shape != () or known.dtype.kind not in "iu" or known == 0:
        raise ExpressionError("the step of a slice must be a whole number other than 0")
    return int(known)


def _edge(b: Builder, edge: Value | None, default: int) -> Value:
    if edge is None:
        return b.constant(np.array([default]))
    if np.dtype(edge.dtype).kind not in "iu" or edge.shape != ():
        raise OperandError(f"the ends of a slice are whole numbers, not {edge.type}")
    return b.op("Reshape", cast(b, edge, "int64"), b.constant(np.array([1])))
