"""Batching of matrix products, Einsum and operators on the last two axes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operand,
    Operands,
    attribute,
    batching_error,
    optional_operand,
    present_operands,
    required_operand,
)
from mdf_loop.ops.build_helpers import ints, rank, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def matmul(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build the matrix products of a batch of model runs, as one product of two matrices if possible.

    w[m, n] @ x[runs, n]  ->  x @ w.T;   all else: [runs, 1.., m, n] @ [runs, 1.., n, k]

    A product of two vectors is a sum, because ONNX Runtime takes 0.2 us for each matrix of a stack.
    """
    left_operand, right_operand = required_operand(operands, 0), required_operand(operands, 1)
    if left_operand.is_batched and not right_operand.is_batched and right_operand.rank <= 2:
        return (scope.b.op("MatMul", left_operand.value, right_operand.value),)
    if (
        right_operand.is_batched
        and not left_operand.is_batched
        and right_operand.rank == 1
        and left_operand.rank <= 2
    ):
        return (
            scope.b.op(
                "MatMul", right_operand.value, _transpose_matrix(scope.b, left_operand.value)
            ),
        )
    if (
        left_operand.rank == right_operand.rank == 1
        and left_operand.single_run_value.dtype.startswith("float")
    ):
        products = scope.b.op("Mul", left_operand.value, right_operand.value)
        return (sum_of(scope.b, products, (-1,)),)
    return (_multiply_stacks(scope, left_operand, right_operand),)


def _transpose_matrix(b: Builder, matrix: Value) -> Value:
    """Transpose a matrix, and return a vector unchanged."""
    return matrix if rank(matrix) < 2 else b.op("Transpose", matrix, perm=(1, 0))


def _multiply_stacks(scope: BatchScope, left_operand: Operand, right_operand: Operand) -> Value:
    b = scope.b
    axis_count = max(left_operand.rank, right_operand.rank, 2)
    left_matrix = _reshape_to_matrix(scope, left_operand, axis_count, -2)
    right_matrix = _reshape_to_matrix(scope, right_operand, axis_count, -1)
    product = b.op("MatMul", left_matrix, right_matrix)
    vector_axes = [axis for axis, x in ((-2, left_operand), (-1, right_operand)) if x.rank == 1]
    return b.op("Squeeze", product, ints(b, *vector_axes)) if vector_axes else product


def _reshape_to_matrix(scope: BatchScope, x: Operand, axis_count: int, axis: int) -> Value:
    """Reshape an operand to `axis_count` axes per model run, where a vector becomes a row or column.

    A vector becomes a row if its axis is -2, or a column if its axis is -1.
    """
    if x.rank > 1:
        return scope.align_rank(x, axis_count)
    b = scope.b
    matrix = b.op("Unsqueeze", x.value, ints(b, axis))
    if not x.is_batched or axis_count == 2:
        return matrix
    return b.op("Unsqueeze", matrix, ints(b, *range(1, axis_count - 1)))


def gemm(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build `alpha * (A @ B) + beta * C` for a batch of model runs from separate operations."""
    b = scope.b
    matrix_operands = [
        _transpose_operand(b, required_operand(operands, k), attribute(op, name))
        for k, name in enumerate(("transA", "transB"))
    ]
    product = matmul(scope, op, matrix_operands)[0]
    alpha, beta = attribute(op, "alpha"), attribute(op, "beta")
    product = _scale(b, product, alpha)
    addend = optional_operand(operands, 2)
    if addend is not None:
        product = b.op("Add", product, _scale(b, scope.align_rank(addend, 2), beta))
    return (product,)


def _transpose_operand(b: Builder, x: Operand, is_transposed: int) -> Operand:
    if not is_transposed:
        return x
    axis_order = (0, 2, 1) if x.is_batched else (1, 0)
    return Operand(x.single_run_value, b.op("Transpose", x.value, perm=axis_order), x.is_batched)


def _scale(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.op("Mul", x, b.constant(np.array(factor, x.dtype)))


def einsum(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build an Einsum for a batch of model runs, with a letter for the run axis added to its equation."""
    equation = str(attribute(op, "equation")).replace(" ", "")
    operand_terms, arrow, result_term = equation.partition("->")
    if not arrow:
        operand_letters = operand_terms.replace("...", "").replace(",", "")
        unrepeated_letters = sorted(
            letter for letter in set(operand_letters) if operand_letters.count(letter) == 1
        )
        result_term = ("..." if "..." in operand_terms else "") + "".join(unrepeated_letters)
    run_letter = next((letter for letter in string.ascii_letters if letter not in equation), None)
    if run_letter is None:
        raise batching_error(op, "no letter is left for their axis")
    batched_terms = [
        run_letter + operand_term if x.is_batched else operand_term
        for operand_term, x in zip(
            operand_terms.split(","), present_operands(operands), strict=True
        )
    ]
    equation = f"{','.join(batched_terms)}->{run_letter}{result_term}"
    return scope.append_copy(op, *(x.value for x in present_operands(operands)), equation=equation)


def apply_to_last_two_axes(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build an operation on the last two axes, such as Det, for a batch of model runs."""
    x, *other_operands = present_operands(operands)
    if any(operand.is_batched for operand in other_operands):
        raise batching_error(op, "each of them has its own diagonal")
    return scope.append_copy(op, x.value, *(operand.value for operand in other_operands))
