"""Matrix products, run by run."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.lane import (
    Lane,
    Operand,
    Operands,
    attribute,
    given,
    optional,
    refusal,
    required,
)
from mdf_loop.ops.words import ints, rank, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def matmul(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The runs of one vector are the rows of a matrix, so one product makes them all.

    w[m, n] @ x[runs, n]  ->  x @ w.T;   all else: [runs, 1.., m, n] @ [runs, 1.., n, k]

    A product of two vectors is a sum: ONNX Runtime takes 0.2 us for each matrix of a stack.
    """
    a, c = required(operands, 0), required(operands, 1)
    if a.batched and not c.batched and c.rank <= 2:
        return (lane.b.op("MatMul", a.value, c.value),)
    if c.batched and not a.batched and c.rank == 1 and a.rank <= 2:
        return (lane.b.op("MatMul", c.value, _flipped(lane.b, a.value)),)
    if a.rank == c.rank == 1 and a.member.dtype.startswith("float"):
        products = lane.b.op("Mul", a.value, c.value)
        return (sum_of(lane.b, products, (-1,)),)
    return (_each(lane, a, c),)


def _flipped(b: Builder, matrix: Value) -> Value:
    """The transposed matrix; a vector is its own."""
    return matrix if rank(matrix) < 2 else b.op("Transpose", matrix, perm=(1, 0))


def _each(lane: Lane, a: Operand, c: Operand) -> Value:
    b = lane.b
    most = max(a.rank, c.rank, 2)
    left = _matrix(lane, a, most, -2)
    right = _matrix(lane, c, most, -1)
    product = b.op("MatMul", left, right)
    extra = [axis for axis, x in ((-2, a), (-1, c)) if x.rank == 1]
    return b.op("Squeeze", product, ints(b, *extra)) if extra else product


def _matrix(lane: Lane, x: Operand, most: int, axis: int) -> Value:
    """A vector as a row (axis -2) or a column (axis -1); `most` axes for one run."""
    if x.rank > 1:
        return lane.aligned(x, most)
    b = lane.b
    as_matrix = b.op("Unsqueeze", x.value, ints(b, axis))
    if not x.batched or most == 2:
        return as_matrix
    return b.op("Unsqueeze", as_matrix, ints(b, *range(1, most - 1)))


def gemm(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """`alpha * (A @ B) + beta * C`, part by part."""
    b = lane.b
    factors = [
        _turned(b, required(operands, k), attribute(op, name))
        for k, name in enumerate(("transA", "transB"))
    ]
    result = matmul(lane, op, factors)[0]
    alpha, beta = attribute(op, "alpha"), attribute(op, "beta")
    result = _times(b, result, alpha)
    c = optional(operands, 2)
    if c is not None:
        result = b.op("Add", result, _times(b, lane.aligned(c, 2), beta))
    return (result,)


def _turned(b: Builder, x: Operand, turned: int) -> Operand:
    if not turned:
        return x
    perm = (0, 2, 1) if x.batched else (1, 0)
    return Operand(x.member, b.op("Transpose", x.value, perm=perm), x.batched)


def _times(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.op("Mul", x, b.constant(np.array(factor, x.dtype)))


def einsum(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """One more letter, in front of every term that has the axis of the runs."""
    equation = str(attribute(op, "equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    free = next((c for c in string.ascii_letters if c not in equation), None)
    if free is None:
        raise refusal(op, "no letter is left for their axis")
    terms = [
        free + term if x.batched else term
        for term, x in zip(left.split(","), given(operands), strict=True)
    ]
    equation = f"{','.join(terms)}->{free}{right}"
    return lane.same(op, *(x.value for x in given(operands)), equation=equation)


def last_two_axes(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Works on the last two axes of an array, whatever stands before them."""
    x, *rest = given(operands)
    if any(part.batched for part in rest):
        raise refusal(op, "each of them has its own diagonal")
    return lane.same(op, x.value, *(part.value for part in rest))
