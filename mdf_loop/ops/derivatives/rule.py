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
from mdf_loop.ops.derivatives.shapes import broadcast_like, sum_to_shape, with_type_of, zeros

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Changes: TypeAlias = Sequence["Value | None"]
"""Tangents or cotangents, one for each operand or result; None stands for zeros."""

ElementDerivative: TypeAlias = "Callable[[Builder, Op, Value], Value]"
"""Function that builds `g` times the elementwise derivative of the result by one operand.

The product is broadcast to the shape of the result.
"""

CotangentFunction: TypeAlias = "Callable[[Builder, Op, Changes, int], Value | None]"
"""Function that builds the cotangent of the operand at a position from the cotangents of all results."""


class Pointwise(Struct, frozen=True):
    """Derivative of an elementwise operation, with one function (partial derivative) per operand.

    None stands for an operand without a derivative, such as a condition.
    """

    operand_derivatives: Callable[[Op], Sequence[ElementDerivative | None]]

    def tangents(self, b: Builder, op: Op, changes: Changes) -> Changes:
        """Build the tangent of the result from the tangents of the operands."""
        derivative_tangent_pairs = zip(self.operand_derivatives(op), changes, strict=False)
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

    def cotangent(self, b: Builder, op: Op, changes: Changes, position: int) -> Value | None:
        """Build the cotangent of the operand at a position from the cotangent of the result."""
        return self._element_cotangent(b, op, changes, position, is_chosen=False)

    def chosen_cotangent(self, b: Builder, op: Op, changes: Changes, position: int) -> Value | None:
        """Build the cotangent of an operand, with 0 for elements that a later selection (Where) omits.

        Elements that the selection omits have a cotangent of 0, which stays 0 even if the derivative is infinite.
        A finite product remains, because a cotangent that is 0 by coincidence still depends on its operands.
        """
        return self._element_cotangent(b, op, changes, position, is_chosen=True)

    def _element_cotangent(
        self, b: Builder, op: Op, changes: Changes, k: int, *, is_chosen: bool
    ) -> Value | None:
        derivative, (g,), x = self.operand_derivatives(op)[k], changes, op.inputs[k]
        if derivative is None or g is None or x is None:
            return None
        product = derivative(b, op, g)
        if is_chosen and product is not g:
            is_zero = b.op("Equal", g, scalar(b, 0, g.dtype))
            is_undefined = b.op("And", is_zero, b.op("IsNaN", product))
            product = b.op("Where", is_undefined, scalar(b, 0, product.dtype), product)
        return sum_to_shape(b, product, x)


class ExplicitDerivative(Struct, frozen=True):
    """Derivative of an operation as two functions, for its tangents and for its cotangents."""

    tangents: Callable[[Builder, Op, Changes], Changes]
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

    def tangents(b: Builder, op: Op, changes: Changes) -> Changes:
        linear_positions = positions or range(len(op.inputs))
        inputs = [
            x if k not in linear_positions or x is None else changes[k] or zeros(b, x)
            for k, x in enumerate(op.inputs)
        ]
        outputs = b.multi(op.op_type, *inputs, output_count=len(op.outputs), **op.attributes)
        return [with_type_of(b, change, y) for change, y in zip(outputs, op.outputs, strict=True)]

    return ExplicitDerivative(tangents, transposed)


def bilinear(
    transposed: CotangentFunction, positions: Sequence[int] = (0, 1)
) -> ExplicitDerivative:
    """Return the derivative of an operation that is linear in each operand at `positions`.

    The tangent is the sum of the results in which one operand is replaced by its tangent.
    """

    def tangents(b: Builder, op: Op, changes: Changes) -> Changes:
        tangent_terms = []
        for k in positions:
            if changes[k] is not None:
                inputs = (*op.inputs[:k], changes[k], *op.inputs[k + 1 :])
                tangent_term = b.op(op.op_type, *inputs, **op.attributes)
                tangent_terms.append(with_type_of(b, tangent_term, op.outputs[0]))
        return (sum_values(b, tangent_terms) if tangent_terms else None,)

    return ExplicitDerivative(tangents, transposed)


def first_operand_cotangent(cotangent: ElementDerivative) -> CotangentFunction:
    """Return a cotangent function of an operation of which only the first operand has a cotangent.

    The operation has one result.
    """

    def transposed(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
        (g,) = changes
        return cotangent(b, op, g) if k == 0 and g is not None else None

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
    lambda b, op, changes: (None,) * len(op.outputs), lambda b, op, changes, k: None
)
"""Derivative of operations with piecewise constant results, such as comparisons, integers and shapes."""


def refusing_derivative(name: str, reason: str, hint: str) -> ExplicitDerivative:
    """Return a derivative that raises UnsupportedError, for operations without a derivative.

    Otherwise the decomposition of the operation would be differentiated.
    """

    def refuse(b: Builder, op: Op, changes: Changes, k: int = 0) -> NoReturn:
        raise UnsupportedError(f"{name} has no derivative here: {reason}", op.where, hint)

    return ExplicitDerivative(refuse, refuse)
