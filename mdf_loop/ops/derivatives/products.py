"""Derivatives of matrix products, Einsum and determinants."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import extents, ints, rank, scalar, sum_of
from mdf_loop.ops.decompositions.build_helpers import attribute, operand
from mdf_loop.ops.derivatives.rule import (
    ExplicitDerivative,
    TangentsOrCotangents,
    bilinear,
    first_operand_cotangent,
    sum_values,
)
from mdf_loop.ops.derivatives.shapes import (
    broadcast_like,
    extent,
    shape_of,
    sum_to_shape,
    with_shape_of,
)
from mdf_loop.ops.registry import qualified_name

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- MatMul -----------------------------------------------------------------------------------


def _matmul_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    """Build the cotangent of an operand of `a @ b`, which is `cotangent @ b.T` or `a.T @ cotangent`.

    The cotangent is summed over broadcast stack axes.
    """
    (cotangent,), left_operand, right_operand = result_cotangents, operand(op), operand(op, 1)
    if cotangent is None:
        return None
    x, other_factor = (left_operand, right_operand) if k == 0 else (right_operand, left_operand)
    if rank(x) == 1 and rank(other_factor) <= 2:
        return _vector_cotangent(b, other_factor, cotangent, k)
    row_cotangent = (
        b.op("Unsqueeze", cotangent, ints(b, -2)) if rank(left_operand) == 1 else cotangent
    )
    cotangent = (
        b.op("Unsqueeze", row_cotangent, ints(b, -1)) if rank(right_operand) == 1 else row_cotangent
    )
    if k == 0:
        matrix_cotangent = (
            b.op("Mul", cotangent, right_operand)
            if rank(right_operand) == 1
            else b.op("MatMul", cotangent, _transpose_matrices(b, right_operand))
        )
    else:
        left_factor = (
            b.op("Unsqueeze", left_operand, ints(b, -1))
            if rank(left_operand) == 1
            else _transpose_matrices(b, left_operand)
        )
        matrix_cotangent = b.op("MatMul", left_factor, cotangent)
    if rank(x) > 1:
        return sum_to_shape(b, matrix_cotangent, x)
    vector = b.op("Squeeze", matrix_cotangent, ints(b, -2 if k == 0 else -1))
    return sum_to_shape(b, vector, x)


def _vector_cotangent(b: Builder, other_factor: Value, cotangent: Value, k: int) -> Value:
    """Build the cotangent of a vector operand of MatMul."""
    if rank(other_factor) == 1:
        return b.op("Mul", cotangent, other_factor)
    return b.op("MatMul", *((other_factor, cotangent) if k == 0 else (cotangent, other_factor)))


def _transpose_matrices(b: Builder, x: Value) -> Value:
    """Transpose the last two axes of a value."""
    last_axis = rank(x) - 1
    return b.op("Transpose", x, perm=(*range(last_axis - 1), last_axis, last_axis - 1))


MATMUL_DERIVATIVE = bilinear(_matmul_cotangent)


# --- Gemm -------------------------------------------------------------------------------------


def _gemm_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    """Build the cotangent of an operand of Gemm, `alpha * A' @ B' + beta * C`.

    The cotangent of a factor is the product of `cotangent` with the other factor, transposed as `transA` and `transB` say.
    """
    (cotangent,), left_operand, right_operand = result_cotangents, operand(op), operand(op, 1)
    if cotangent is None:
        return None
    if k == 2:
        return sum_to_shape(b, _scale(b, cotangent, attribute(op, "beta")), operand(op, 2))
    is_transposed = [bool(attribute(op, name)) for name in ("transA", "transB")]
    alpha = attribute(op, "alpha")
    if k == 0:
        return (
            _build_gemm_product(b, (right_operand, is_transposed[1]), (cotangent, True), alpha)
            if is_transposed[0]
            else _build_gemm_product(
                b, (cotangent, False), (right_operand, not is_transposed[1]), alpha
            )
        )
    return (
        _build_gemm_product(b, (cotangent, True), (left_operand, is_transposed[0]), alpha)
        if is_transposed[1]
        else _build_gemm_product(b, (left_operand, not is_transposed[0]), (cotangent, False), alpha)
    )


def _build_gemm_product(
    b: Builder, left_factor: tuple[Value, bool], right_factor: tuple[Value, bool], alpha: float
) -> Value:
    transpose_flags = {"transA": int(left_factor[1]), "transB": int(right_factor[1])}
    return b.op("Gemm", left_factor[0], right_factor[0], alpha=alpha, **transpose_flags)


def _gemm_tangents(
    b: Builder, op: Op, operand_tangents: TangentsOrCotangents
) -> TangentsOrCotangents:
    factors = [operand(op), operand(op, 1)]
    product_attributes = {
        name: attribute_value for name, attribute_value in op.attributes.items() if name != "beta"
    }
    tangent_terms = [
        b.op("Gemm", *factors[:k], tangent, *factors[k + 1 :], **product_attributes)
        for k, tangent in enumerate(operand_tangents[:2])
        if tangent is not None
    ]
    if len(operand_tangents) > 2 and operand_tangents[2] is not None:
        addend_tangent = _scale(b, operand_tangents[2], attribute(op, "beta"))
        tangent_terms.append(broadcast_like(b, addend_tangent, op.outputs[0]))
    return (sum_values(b, tangent_terms) if tangent_terms else None,)


def _scale(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.op("Mul", x, scalar(b, factor, x.dtype))


GEMM_DERIVATIVE = ExplicitDerivative(_gemm_tangents, _gemm_cotangent)


# --- Einsum -----------------------------------------------------------------------------------


def _parse_einsum_terms(op: Op) -> tuple[list[str], str]:
    """Return the terms of an Einsum equation for operands and result, with letters for `...`."""
    equation = str(attribute(op, "equation")).replace(" ", "")
    operand_terms, arrow, result_term = equation.partition("->")
    listed_terms = operand_terms.split(",")
    if not arrow:
        letters = "".join(listed_terms).replace(".", "")
        unrepeated_letters = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        result_term = ("..." if "..." in operand_terms else "") + "".join(unrepeated_letters)
    ellipsis_axis_counts = [
        rank(operand(op, k)) - len(listed_term.replace(".", "")) if "." in listed_term else 0
        for k, listed_term in enumerate(listed_terms)
    ]
    unused_letters = [letter for letter in string.ascii_letters if letter not in equation]
    ellipsis_letters = "".join(unused_letters[: max(ellipsis_axis_counts)])
    expanded_terms = [
        term.replace("...", ellipsis_letters[len(ellipsis_letters) - ellipsis_axis_count :])
        for term, ellipsis_axis_count in zip(listed_terms, ellipsis_axis_counts, strict=True)
    ]
    return expanded_terms, result_term.replace("...", ellipsis_letters)


def _einsum_cotangent(
    b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
) -> Value | None:
    """Build the cotangent of operand k of Einsum from the result's cotangent and all other operands.

    The cotangent of `ij` in `ij,jk->ik` is `ik,jk->ij`. An index that only this operand has was summed, so its
    elements have equal cotangents. If the operand has an index twice, elements off the diagonal have 0.
    """
    (cotangent,), (operand_terms, result_term), x = (
        result_cotangents,
        _parse_einsum_terms(op),
        operand(op, k),
    )
    if cotangent is None:
        return None
    x_term, other_operands = (
        operand_terms[k],
        [operand_value for position, operand_value in enumerate(op.inputs) if position != k],
    )
    other_terms = [term for position, term in enumerate(operand_terms) if position != k]
    kept_letters = [
        letter
        for letter in dict.fromkeys(x_term)
        if any(letter in letters for letters in (result_term, *other_terms))
    ]
    if result_term:
        other_operands, other_terms = [cotangent, *other_operands], [result_term, *other_terms]
    cotangent_factor = (
        b.op(
            "Einsum", *other_operands, equation=f"{','.join(other_terms)}->{''.join(kept_letters)}"
        )
        if other_terms
        else cotangent
    )
    repeated_axes = [axis for axis, letter in enumerate(x_term) if x_term.index(letter) < axis]
    summed_axes = [
        axis
        for axis, letter in enumerate(x_term)
        if letter not in kept_letters or axis in repeated_axes
    ]
    if summed_axes:
        cotangent_factor = b.op("Unsqueeze", cotangent_factor, ints(b, *summed_axes))
    if cotangent_factor.shape != x.shape:
        cotangent_factor = sum_to_shape(b, b.op("Expand", cotangent_factor, shape_of(b, x)), x)
    if not result_term and other_terms:
        cotangent_factor = b.op("Mul", cotangent, cotangent_factor)
    for axis in repeated_axes:
        cotangent_factor = _keep_diagonal(b, cotangent_factor, x_term.index(x_term[axis]), axis)
    return cotangent_factor


def _keep_diagonal(b: Builder, x: Value, first_axis: int, second_axis: int) -> Value:
    """Set the elements outside of the diagonal of two axes to 0."""
    zero, one = (scalar(b, k, "int64") for k in (0, 1))
    axis_indices = []
    for axis in (first_axis, second_axis):
        index_range = b.op("Range", zero, extent(b, x, axis), one)
        index_shape = [-1 if k == axis else 1 for k in range(rank(x))]
        axis_indices.append(b.op("Reshape", index_range, ints(b, *index_shape)))
    return b.op("Where", b.op("Equal", *axis_indices), x, scalar(b, 0, x.dtype))


def _einsum_tangents(
    b: Builder, op: Op, operand_tangents: TangentsOrCotangents
) -> TangentsOrCotangents:
    tangent_terms = [
        b.op("Einsum", *op.inputs[:k], tangent, *op.inputs[k + 1 :], **op.attributes)
        for k, tangent in enumerate(operand_tangents)
        if tangent is not None
    ]
    return (
        with_shape_of(b, sum_values(b, tangent_terms), op.outputs[0]) if tangent_terms else None,
    )


EINSUM_DERIVATIVE = ExplicitDerivative(_einsum_tangents, _einsum_cotangent)


# --- Det --------------------------------------------------------------------------------------


def _build_cofactors(b: Builder, op: Op) -> Value:
    """Build the cofactor matrix: the signed minors (determinants without one row and one column).

    The cofactors exist even if the determinant is 0, unlike `det(A) inv(A).T`.
    """
    x = operand(op)
    n = extents(x)[-1]
    if not isinstance(n, int):
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} of {x.type} has no derivative here",
            op.where,
            "give the matrix a fixed shape",
        )
    if n < 2:
        return scalar(b, 1, x.dtype)
    remaining_indices = b.constant(
        np.array([[k for k in range(n) if k != skipped_index] for skipped_index in range(n)])
    )
    row_axis = rank(x) - 2
    remaining_rows = b.op("Gather", x, remaining_indices, axis=row_axis)
    minors = b.op("Gather", remaining_rows, remaining_indices, axis=row_axis + 2)
    axis_order = (*range(row_axis + 1), row_axis + 2, row_axis + 1, row_axis + 3)
    checkerboard_signs = b.constant(
        (1 - 2 * (np.add.outer(np.arange(n), np.arange(n)) % 2)).astype(x.dtype)
    )
    return b.op("Mul", b.op("Det", b.op("Transpose", minors, perm=axis_order)), checkerboard_signs)


def _det_tangents(
    b: Builder, op: Op, operand_tangents: TangentsOrCotangents
) -> TangentsOrCotangents:
    if operand_tangents[0] is None:
        return (None,)
    cofactor_products = b.op("Mul", operand_tangents[0], _build_cofactors(b, op))
    return (sum_of(b, cofactor_products, (-2, -1)),)


def _det_cotangent(b: Builder, op: Op, cotangent: Value) -> Value:
    unsqueezed_cotangent = b.op("Unsqueeze", cotangent, ints(b, -2, -1))
    return broadcast_like(
        b, b.op("Mul", unsqueezed_cotangent, _build_cofactors(b, op)), operand(op)
    )


DET_DERIVATIVE = ExplicitDerivative(_det_tangents, first_operand_cotangent(_det_cotangent))
