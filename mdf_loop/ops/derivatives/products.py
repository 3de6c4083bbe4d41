"""Derivatives of products of matrices, and of determinants."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import attribute, operand
from mdf_loop.ops.derivatives.rule import (
    Changes,
    General,
    bilinear,
    by_first,
    summed,
)
from mdf_loop.ops.derivatives.shapes import extent, fitted, shape_of, spread, typed
from mdf_loop.ops.registry import title
from mdf_loop.ops.words import extents, ints, rank, scalar, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- MatMul -----------------------------------------------------------------------------------


def _factor(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    """`ga = g @ b.T`, `gb = a.T @ g`, summed over stacks that are broadcast; vectors by themselves."""
    (g,), a, c = given, operand(op), operand(op, 1)
    if g is None:
        return None
    x, other = (a, c) if k == 0 else (c, a)
    if rank(x) == 1 and rank(other) <= 2:
        return _vector(b, other, g, k)
    rows = b.op("Unsqueeze", g, ints(b, -2)) if rank(a) == 1 else g
    g = b.op("Unsqueeze", rows, ints(b, -1)) if rank(c) == 1 else rows
    if k == 0:
        made = b.op("Mul", g, c) if rank(c) == 1 else b.op("MatMul", g, _turned(b, c))
    else:
        left = b.op("Unsqueeze", a, ints(b, -1)) if rank(a) == 1 else _turned(b, a)
        made = b.op("MatMul", left, g)
    if rank(x) > 1:
        return fitted(b, made, x)
    line = b.op("Squeeze", made, ints(b, -2 if k == 0 else -1))
    return fitted(b, line, x)


def _vector(b: Builder, other: Value, g: Value, k: int) -> Value:
    """Of a vector that meets a vector or a matrix."""
    if rank(other) == 1:
        return b.op("Mul", g, other)
    return b.op("MatMul", *((other, g) if k == 0 else (g, other)))


def _turned(b: Builder, x: Value) -> Value:
    """Its matrices transposed."""
    last = rank(x) - 1
    return b.op("Transpose", x, perm=(*range(last - 1), last, last - 1))


MATMUL = bilinear(_factor)


# --- Gemm -------------------------------------------------------------------------------------


def _gemm(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    """Of `alpha * A' @ B' + beta * C`: products of `g` with the other factor, turned as it fits."""
    (g,), a, c = given, operand(op), operand(op, 1)
    if g is None:
        return None
    if k == 2:
        return fitted(b, _times(b, g, attribute(op, "beta")), operand(op, 2))
    turned = [bool(attribute(op, name)) for name in ("transA", "transB")]
    alpha = attribute(op, "alpha")
    if k == 0:
        return (
            _product(b, (c, turned[1]), (g, True), alpha)
            if turned[0]
            else _product(b, (g, False), (c, not turned[1]), alpha)
        )
    return (
        _product(b, (g, True), (a, turned[0]), alpha)
        if turned[1]
        else _product(b, (a, not turned[0]), (g, False), alpha)
    )


def _product(
    b: Builder, left: tuple[Value, bool], right: tuple[Value, bool], alpha: float
) -> Value:
    turned = {"transA": int(left[1]), "transB": int(right[1])}
    return b.op("Gemm", left[0], right[0], alpha=alpha, **turned)


def _gemm_tangents(b: Builder, op: Op, given: Changes) -> Changes:
    both = [operand(op), operand(op, 1)]
    words = {name: v for name, v in op.attributes.items() if name != "beta"}
    parts = [
        b.op("Gemm", *both[:k], t, *both[k + 1 :], **words)
        for k, t in enumerate(given[:2])
        if t is not None
    ]
    if len(given) > 2 and given[2] is not None:
        term = _times(b, given[2], attribute(op, "beta"))
        parts.append(spread(b, term, op.outputs[0]))
    return (summed(b, parts) if parts else None,)


def _times(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.op("Mul", x, scalar(b, factor, x.dtype))


GEMM = General(_gemm_tangents, _gemm)


# --- Einsum -----------------------------------------------------------------------------------


def _terms(op: Op) -> tuple[list[str], str]:
    """The letters of all operands, and of the result: those of `...` are written out."""
    equation = str(attribute(op, "equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    named = left.split(",")
    if not arrow:
        letters = "".join(named).replace(".", "")
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    hidden = [
        rank(operand(op, k)) - len(term.replace(".", "")) if "." in term else 0
        for k, term in enumerate(named)
    ]
    free = [letter for letter in string.ascii_letters if letter not in equation]
    most = "".join(free[: max(hidden)])
    terms = [
        term.replace("...", most[len(most) - n :]) for term, n in zip(named, hidden, strict=True)
    ]
    return terms, right.replace("...", most)


def _einsum(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    """The same sum with `g` in place of the operand, for the indices of the operand.

    `ij,jk->ik` gives `ik,jk->ij`. An index of the operand alone was summed: each has the same. Of one
    that it has twice, what is off the diagonal gets 0.
    """
    (g,), (terms, made), x = given, _terms(op), operand(op, k)
    if g is None:
        return None
    term, others = terms[k], [v for place, v in enumerate(op.inputs) if place != k]
    rest = [term for place, term in enumerate(terms) if place != k]
    there = [c for c in dict.fromkeys(term) if any(c in said for said in (made, *rest))]
    if made:
        others, rest = [g, *others], [made, *rest]
    factor = b.op("Einsum", *others, equation=f"{','.join(rest)}->{''.join(there)}") if rest else g
    again = [axis for axis, c in enumerate(term) if term.index(c) < axis]
    gone = [axis for axis, c in enumerate(term) if c not in there or axis in again]
    if gone:
        factor = b.op("Unsqueeze", factor, ints(b, *gone))
    if factor.shape != x.shape:
        factor = fitted(b, b.op("Expand", factor, shape_of(b, x)), x)
    if not made and rest:
        factor = b.op("Mul", g, factor)
    for axis in again:
        factor = _on_diagonal(b, factor, term.index(term[axis]), axis)
    return factor


def _on_diagonal(b: Builder, x: Value, first: int, second: int) -> Value:
    """0 where two places are not the same."""
    zero, one = (scalar(b, k, "int64") for k in (0, 1))
    sides = []
    for axis in (first, second):
        places = b.op("Range", zero, extent(b, x, axis), one)
        shape = [-1 if k == axis else 1 for k in range(rank(x))]
        sides.append(b.op("Reshape", places, ints(b, *shape)))
    return b.op("Where", b.op("Equal", *sides), x, scalar(b, 0, x.dtype))


def _einsum_tangents(b: Builder, op: Op, given: Changes) -> Changes:
    parts = [
        b.op("Einsum", *op.inputs[:k], t, *op.inputs[k + 1 :], **op.attributes)
        for k, t in enumerate(given)
        if t is not None
    ]
    return (typed(b, summed(b, parts), op.outputs[0]) if parts else None,)


EINSUM = General(_einsum_tangents, _einsum)


# --- Det --------------------------------------------------------------------------------------


def _cofactors(b: Builder, op: Op) -> Value:
    """Of each element the determinant of what is left without its row and column, with its sign.

    `det(A) inv(A).T` has none where the determinant is 0; the cofactors are right there, too.
    """
    x = operand(op)
    n = extents(x)[-1]
    if not isinstance(n, int):
        raise UnsupportedError(
            f"{title(op.op_type)} of {x.type} has no derivative here",
            op.where,
            "give the matrix a fixed shape",
        )
    if n < 2:
        return scalar(b, 1, x.dtype)
    left = b.constant(np.array([[k for k in range(n) if k != gone] for gone in range(n)]))
    axis = rank(x) - 2
    rows = b.op("Gather", x, left, axis=axis)
    minors = b.op("Gather", rows, left, axis=axis + 2)
    order = (*range(axis + 1), axis + 2, axis + 1, axis + 3)
    signs = b.constant((1 - 2 * (np.add.outer(np.arange(n), np.arange(n)) % 2)).astype(x.dtype))
    return b.op("Mul", b.op("Det", b.op("Transpose", minors, perm=order)), signs)


def _det_tangents(b: Builder, op: Op, given: Changes) -> Changes:
    if given[0] is None:
        return (None,)
    terms = b.op("Mul", given[0], _cofactors(b, op))
    return (sum_of(b, terms, (-2, -1)),)


def _det(b: Builder, op: Op, g: Value) -> Value:
    wide = b.op("Unsqueeze", g, ints(b, -2, -1))
    return spread(b, b.op("Mul", wide, _cofactors(b, op)), operand(op))


DET = General(_det_tangents, by_first(_det))
