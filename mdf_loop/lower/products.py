"""Lowering of NumPy's products and matrix functions: dot, matmul, einsum, tril, trace ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.shapes import ravel, transpose
from mdf_loop.lower.terms import as_float, promote_numbers
from mdf_loop.ops.build_helpers import cast, ints, is_scalar, kind, rank, scalar, sum_of


@register_as("numpy.matmul")
def matmul(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return the matrix product `x1 @ x2`."""
    return ops.matmul(b, x1, x2)


@register_as("numpy.dot")
def dot(b: ModelBuilder, a: Value, b_: Value, /) -> Value:
    """Return `numpy.dot`, the sum over the last axis of a and the second-to-last axis of b."""
    if is_scalar(a) or is_scalar(b_):
        return ops.multiply(b, a, b_)
    if rank(b_) > 2:
        raise OperandError(
            f"numpy.dot of {a.type} and {b_.type} is not supported",
            hint="write numpy.einsum or numpy.matmul",
        )
    return ops.matmul(b, a, b_)


@register_as("numpy.vdot")
def vdot(b: ModelBuilder, a: Value, b_: Value, /) -> Value:
    """Return the dot product of two flattened arrays."""
    return ops.matmul(b, ravel(b, a), ravel(b, b_))


@register_as("numpy.inner")
def inner(b: ModelBuilder, a: Value, b_: Value, /) -> Value:
    """Return the inner product over the last axis of both arrays, or `a * b` for a scalar."""
    if is_scalar(a) or is_scalar(b_):
        return ops.multiply(b, a, b_)
    if rank(b_) > 2:
        raise OperandError(f"numpy.inner of {a.type} and {b_.type}", hint="write numpy.einsum")
    return ops.matmul(b, a, transpose(b, b_))


@register_as("numpy.outer")
def outer(b: ModelBuilder, a: Value, b_: Value, /) -> Value:
    """Return the outer product: each element of a times each element of b."""
    column = b.op("Reshape", a, ints(b, -1, 1))
    return ops.multiply(b, column, b.op("Reshape", b_, ints(b, 1, -1)))


@register_as("numpy.einsum")
def einsum(b: ModelBuilder, subscripts: str, /, *operands: Value) -> Value:
    """Return the Einstein sum `numpy.einsum`, such as `numpy.einsum('ij,j->i', w, x)`."""
    return einstein_sum(b, subscripts.replace(" ", ""), promote_numbers(b, *operands))


def einstein_sum(b: ModelBuilder, equation: str, operands: Sequence[Value]) -> Value:
    """Return the Einstein sum of arrays.

    Letters that only one operand has are summed first, in a fixed order.

    ONNX Runtime's kernel sums over such axis_letters in an order that depends on the memory address.
    """
    operand_letters, arrow, result_letters = equation.partition("->")
    letters_by_operand = operand_letters.split(",")
    ranks_match = len(letters_by_operand) == len(operands) and all(
        len(axis_letters) == len(x.shape or ())
        for axis_letters, x in zip(letters_by_operand, operands, strict=False)
    )
    if not arrow or "." in equation or not ranks_match or any(kind(x) != "f" for x in operands):
        return b.op("Einsum", *operands, equation=equation)
    summed_operands = []
    for k, (axis_letters, x) in enumerate(zip(letters_by_operand, operands, strict=True)):
        other_letters = "".join(
            (result_letters, *letters_by_operand[:k], *letters_by_operand[k + 1 :])
        )
        summed_axes = [
            axis
            for axis, letter in enumerate(axis_letters)
            if letter not in other_letters and axis_letters.count(letter) == 1
        ]
        summed_operands.append(sum_of(b, x, summed_axes) if summed_axes else x)
        letters_by_operand[k] = "".join(
            letter for axis, letter in enumerate(axis_letters) if axis not in summed_axes
        )
    if letters_by_operand == [result_letters]:
        return summed_operands[0]
    return b.op(
        "Einsum", *summed_operands, equation=f"{','.join(letters_by_operand)}->{result_letters}"
    )


@register_as("numpy.linalg.det")
def det(b: ModelBuilder, a: Value, /) -> Value:
    """Return the determinants of square matrices."""
    return b.op("Det", as_float(b, a))


# --- triangles and diagonals ---------------------------------------------------------------------


def _register_triangle(upper: int, name: str) -> Callable[..., Value]:
    @register_as(f"numpy.{name}")
    def call(b: ModelBuilder, m: Value, /, k: int = 0) -> Value:
        return b.op("Trilu", m, b.constant(np.array(k)), upper=upper)

    triangle_name = "upper" if upper else "lower"
    call.__doc__ = f"Return the {triangle_name} triangle up to the k-th diagonal, and 0 elsewhere."
    return call


_register_triangle(0, "tril")
_register_triangle(1, "triu")


def _keep_diagonal(b: ModelBuilder, matrix: Value) -> Value:
    """Return a matrix with its elements outside of the diagonal replaced by 0."""
    zero = b.constant(np.array(0))
    return b.op("Trilu", b.op("Trilu", matrix, zero, upper=0), zero, upper=1)


@register_as("numpy.trace")
def trace(b: ModelBuilder, a: Value, /) -> Value:
    """Return the sum of the diagonal elements of a matrix."""
    if rank(a) != 2:
        raise OperandError(f"numpy.trace needs a matrix, not {a.type}")
    summed_matrix = cast(b, a, "int64") if kind(a) in "bi" else a
    return sum_of(b, _keep_diagonal(b, summed_matrix))


@register_as("numpy.diag")
def diag(b: ModelBuilder, v: Value, /) -> Value:
    """Return the diagonal of a matrix, or the diagonal matrix of a vector."""
    if rank(v) == 1:
        repeated_rows = b.op("Mul", b.op("Unsqueeze", v, ints(b, 0)), _ones_column(b, v))
        return _keep_diagonal(b, repeated_rows)
    vector_extents = set(v.shape or ())
    if rank(v) != 2 or len(vector_extents) != 1:
        raise OperandError(f"numpy.diag needs a list or a square matrix, not {v.type}")
    return sum_of(b, _keep_diagonal(b, v), (1,))


def _ones_column(b: ModelBuilder, v: Value) -> Value:
    column_shape = b.op("Concat", b.op("Shape", v), ints(b, 1), axis=0)
    return b.op("Expand", scalar(b, 1, v.dtype), column_shape)
