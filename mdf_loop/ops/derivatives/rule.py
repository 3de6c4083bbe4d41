"""Differentiation rules of operations: elementwise, explicit or by a decomposition.

    y = f(x0, x1, ...)
    tangent     dy = sum of (dy/dxk) dxk       change of the results with the operands
    cotangent   gk = transposed(dy/dxk) g      derivative by xk of a number whose derivative by y is g

A rule builds the tangents of an operation from those of its operands, or the cotangent of an operand
from those of its results. None stands for zeros. A cotangent has the shape of its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from msgspec import Struct

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import is_tensor, kind_of
from mdf_loop.ops.build_helpers import scalar
from mdf_loop.ops.derivatives.shapes import broadcast_like, sum_to_shape, with_shape_of, zeros

if TYPE_CHECKING:
    from mdf_loop.build import Builder

TangentsOrCotangents: TypeAlias = Sequence["Value | None"]
"""Tangents or cotangents, one for each operand or result; None stands for zeros."""

ElementDerivative: TypeAlias = "Callable[[Builder, Op, Value], Value]"
"""Function that builds `g` times the elementwise derivative of the result by one operand.

The product is broadcast to the shape of the result.
"""

CotangentFunction: TypeAlias = "Callable[[Builder, Op, TangentsOrCotangents, int], Value | None]"
"""Function that builds the cotangent of the operand at a position from the cotangents of all results."""


class Pointwise(Struct, frozen=True):
    """Derivative of an elementwise operation, with one function (partial derivative) per operand.

    None stands for an operand without a derivative, such as a condition.
    """

    operand_derivatives: Callable[[Op], Sequence[ElementDerivative | None]]

    def tangents(
        self, b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        """Build the tangent of the result from the tangents of the operands."""
        derivative_tangent_pairs = zip(self.operand_derivatives(op), operand_tangents, strict=False)
        tangent_terms = [
            derivative(b, op, tangent)
            for derivative, tangent in derivative_tangent_pairs
            if derivative is not None and tangent is not None
        ]
        return (
            broadcast_like(b, sum_values(b, tangent_terms), op.outputs[0])
            if tangent_terms
            else None,
        )

    def cotangent(
        self, b: Builder, op: Op, result_cotangents: TangentsOrCotangents, position: int
    ) -> Value | None:
        """Build the cotangent of the operand at a position from the cotangent of the result."""
        return self._element_cotangent(b, op, result_cotangents, position, is_selected=False)

    def selected_cotangent(
        self, b: Builder, op: Op, result_cotangents: TangentsOrCotangents, position: int
    ) -> Value | None:
        """Build the cotangent of an operand, with 0 for elements that a later selection (Where) omits.

        Elements that the selection omits have a cotangent of 0, which stays 0 even if the derivative is infinite.
        A finite product remains, because a cotangent that is 0 by coincidence still depends on its operands.
        """
        return self._element_cotangent(b, op, result_cotangents, position, is_selected=True)

    def _element_cotangent(
        self,
        b: Builder,
        op: Op,
        result_cotangents: TangentsOrCotangents,
        k: int,
        *,
        is_selected: bool,
    ) -> Value | None:
        derivative, (cotangent,), x = (
            self.operand_derivatives(op)[k],
            result_cotangents,
            op.inputs[k],
        )
        if derivative is None or cotangent is None or x is None:
            return None
        product = derivative(b, op, cotangent)
        if is_selected and product is not cotangent:
            is_zero = b.op("Equal", cotangent, scalar(b, 0, cotangent.dtype))
            is_undefined = b.op("And", is_zero, b.op("IsNaN", product))
            product = b.op("Where", is_undefined, scalar(b, 0, product.dtype), product)
        return sum_to_shape(b, product, x)


class ExplicitDerivative(Struct, frozen=True):
    """Derivative of an operation as two functions, for its tangents and for its cotangents."""

    tangents: Callable[[Builder, Op, TangentsOrCotangents], TangentsOrCotangents]
    cotangent: CotangentFunction


class DecomposedDerivative(Struct, frozen=True):
    """Derivative of an operation that is differentiated through its decomposition."""

    decompose: Callable[[Builder, Op], Value | tuple[Value | None, ...]]


Derivative: TypeAlias = Pointwise | ExplicitDerivative | DecomposedDerivative


def pointwise(*operand_derivatives: ElementDerivative | None) -> Pointwise:
    """Return the derivative of an elementwise operation with one function for each operand."""
    return Pointwise(lambda op: operand_derivatives)


def linear(transposed: CotangentFunction, positions: Sequence[int] = (0,)) -> ExplicitDerivative:
    """Return the derivative of an operation that is jointly linear in the operands at `positions`.

    The operation itself computes the tangents, with tangents in place of these operands.
    """

    def tangents(
        b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        linear_positions = positions or range(len(op.inputs))
        tangent_inputs = [
            x if k not in linear_positions or x is None else operand_tangents[k] or zeros(b, x)
            for k, x in enumerate(op.inputs)
        ]
        outputs = b.multi(
            op.op_type, *tangent_inputs, output_count=len(op.outputs), **op.attributes
        )
        return [
            with_shape_of(b, tangent, y) for tangent, y in zip(outputs, op.outputs, strict=True)
        ]

    return ExplicitDerivative(tangents, transposed)


def bilinear(
    transposed: CotangentFunction, positions: Sequence[int] = (0, 1)
) -> ExplicitDerivative:
    """Return the derivative of an operation that is linear in each operand at `positions`.

    The tangent is the sum of the results in which one operand is replaced by its tangent.
    """

    def tangents(
        b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        tangent_terms = []
        for k in positions:
            if operand_tangents[k] is not None:
                tangent_inputs = (*op.inputs[:k], operand_tangents[k], *op.inputs[k + 1 :])
                tangent_term = b.op(op.op_type, *tangent_inputs, **op.attributes)
                tangent_terms.append(with_shape_of(b, tangent_term, op.outputs[0]))
        return (sum_values(b, tangent_terms) if tangent_terms else None,)

    return ExplicitDerivative(tangents, transposed)


def first_operand_cotangent(build_cotangent: ElementDerivative) -> CotangentFunction:
    """Return a function that builds the cotangent of the first operand, and None for others.

    The operation has one result.
    """

    def transposed(
        b: Builder, op: Op, result_cotangents: TangentsOrCotangents, k: int
    ) -> Value | None:
        (result_cotangent,) = result_cotangents
        return (
            build_cotangent(b, op, result_cotangent)
            if k == 0 and result_cotangent is not None
            else None
        )

    return transposed


def sum_values(b: Builder, terms: Sequence[Value]) -> Value:
    """Build the sum of one or more values."""
    value_sum, *other_terms = terms
    for term in other_terms:
        value_sum = b.op("Add", value_sum, term)
    return value_sum


def is_float(value: Value | None) -> bool:
    """Return True if a value has a float dtype, which a derivative requires."""
    return value is not None and kind_of(value.dtype) == "f"


def contains_floats(value: Value | None) -> bool:
    """Return True for a sequence or an optional value of floats, which cannot be differentiated."""
    return value is not None and not is_tensor(value.dtype) and "float" in value.dtype


ZERO_DERIVATIVE = ExplicitDerivative(
    lambda b, op, operand_tangents: (None,) * len(op.outputs),
    lambda b, op, result_cotangents, k: None,
)
"""Derivative of operations with piecewise constant results, such as comparisons, integers and shapes."""


def refusing_derivative(name: str, reason: str, hint: str) -> ExplicitDerivative:
    """Return a derivative that raises UnsupportedError, for operations without a derivative.

    Otherwise the decomposition of the operation would be differentiated.
    """

    def refuse(b: Builder, op: Op, _: TangentsOrCotangents, k: int = 0) -> NoReturn:
        raise UnsupportedError(f"{name} has no derivative here: {reason}", op.where, hint)

    return ExplicitDerivative(refuse, refuse)
