"""Reverse-mode accumulation of cotangents over the operations of a scope, last to first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Op, Operation, Value, results
from mdf_loop.ops.derivatives.rule import (
    CotangentFunction,
    DecomposedDerivative,
    Derivative,
    ExplicitDerivative,
    Pointwise,
    TangentsOrCotangents,
    contains_floats,
    is_float,
)
from mdf_loop.ops.derivatives.shapes import with_shape_of, zeros
from mdf_loop.ops.registry import qualified_name, row_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def derivative_of(op: Op) -> Derivative | None:
    """Return the derivative of an operation, by its decomposition if necessary, or None without one."""
    registry_row = row_of(op.op_type)
    if registry_row.derivative is not None or registry_row.decomposition is None:
        return registry_row.derivative
    return DecomposedDerivative(registry_row.decomposition)


def rule_of(op: Op) -> Pointwise | ExplicitDerivative:
    """Return the derivative rule of an operation, or raise UnsupportedError if there is none.

    Raises:
        UnsupportedError: the operation has no derivative.
    """
    derivative_rule = derivative_of(op)
    if derivative_rule is None or isinstance(derivative_rule, DecomposedDerivative):
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} has no derivative here",
            op.where,
            "differentiate by what does not go through it, or write it with other functions",
        )
    return derivative_rule


class Sweep:
    """Reverse-mode accumulator of the cotangents of values, from the last operation to the first.

    Args:
        b: builder that the cotangents are appended to.
        targets: values that need a cotangent.
        selected_values: values that a selection such as Where reads, which may omit some of their elements.
    """

    def __init__(
        self, b: Builder, targets: Collection[Value], selected_values: Collection[Value] = ()
    ) -> None:
        self.b = b
        self.cotangents: dict[Value, Value] = {}
        self._targets = targets
        self._selected_values = selected_values

    def add(self, value: Value | None, contribution: Value | None) -> None:
        """Add a contribution from one reader of a value to the cotangent of the value."""
        if value is None or contribution is None or not self.needs_cotangent(value):
            return
        contribution = with_shape_of(self.b, contribution, value)
        accumulated_cotangent = self.cotangents.get(value)
        self.cotangents[value] = (
            contribution
            if accumulated_cotangent is None
            else self.b.op("Add", accumulated_cotangent, contribution)
        )

    def needs_cotangent(self, value: Value | None) -> bool:
        """Return True if a value is a float among the values that need a cotangent."""
        return value is not None and is_float(value) and value in self._targets

    def has_result_cotangent(self, operation: Operation) -> bool:
        """Return True if a result of an operation has a cotangent already."""
        return not self.cotangents.keys().isdisjoint(results(operation))

    def propagate(self, op: Op) -> None:
        """Add the contributions of an operation to the cotangents of its operands."""
        operand_positions = [k for k, x in enumerate(op.inputs) if self.needs_cotangent(x)]
        if not operand_positions and not any(
            contains_floats(x) and x in self._targets for x in op.inputs
        ):
            return
        derivative_rule = rule_of(op)
        result_cotangents = [self.cotangents.get(output) for output in op.outputs]
        is_selected = not set(op.outputs).isdisjoint(self._selected_values)
        for k in operand_positions:
            if is_selected and isinstance(derivative_rule, Pointwise):
                self.add(
                    op.inputs[k],
                    derivative_rule.selected_cotangent(self.b, op, result_cotangents, k),
                )
            else:
                self.add(op.inputs[k], derivative_rule.cotangent(self.b, op, result_cotangents, k))


def by_transposing(transposed: CotangentFunction) -> ExplicitDerivative:
    """Return a derivative whose tangents are computed by transposing its cotangent function.

    The cotangents of the operands are linear in the cotangents `g` of the results. The transpose of this linear
    map computes the tangents of the results.
    """

    def tangents(
        b: Builder, op: Op, operand_tangents: TangentsOrCotangents
    ) -> TangentsOrCotangents:
        scratch_builder = b.body()
        result_cotangents = [
            b.new(output.dtype, output.shape) if is_float(output) else None for output in op.outputs
        ]
        dependent_values = {
            result_cotangent
            for result_cotangent in result_cotangents
            if result_cotangent is not None
        }
        contribution_pairs = [
            (transposed(scratch_builder, op, result_cotangents, k), tangent)
            for k, tangent in enumerate(operand_tangents)
            if tangent is not None and op.inputs[k] is not None
        ]
        ops = [
            _require_op(operation)
            for operation in scratch_builder.ops
            if not isinstance(operation, Constant)
        ]
        b.ops += [operation for operation in scratch_builder.ops if isinstance(operation, Constant)]
        b.ops += _operations_without(ops, dependent_values)
        transposing_sweep = Sweep(b, dependent_values)
        for contribution, tangent in contribution_pairs:
            transposing_sweep.add(contribution, tangent)
        for operation in reversed(ops):
            if transposing_sweep.has_result_cotangent(operation):
                transposing_sweep.propagate(operation)
        b.release(dependent_values)
        return [
            None if g is None else transposing_sweep.cotangents.get(g) or zeros(b, g)
            for g in result_cotangents
        ]

    return ExplicitDerivative(tangents, transposed)


def _require_op(operation: Operation) -> Op:
    assert isinstance(operation, Op), "a rule is made of plain operations"
    return operation


def _operations_without(ops: Iterable[Op], dependent_values: set[Value]) -> Sequence[Op]:
    """Return the operations that do not depend on the values in `dependent_values`.

    The results of all other operations are added to `dependent_values`.
    """
    independent_ops = []
    for op in ops:
        if dependent_values.isdisjoint(op.inputs):
            independent_ops.append(op)
        else:
            dependent_values.update(op.outputs)
    return independent_ops
