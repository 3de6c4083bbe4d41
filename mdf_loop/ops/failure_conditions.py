"""Conditions under which operand values can make an operation fail at run time.

Incompatible shapes are errors of the model that are reported when the model is read. A rule returns True if
the operation can fail, and also if the necessary values are unknown. `known` returns the array of a value that
is known at compile time.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import Array, Op, Value, is_fixed
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.registry import FailureRule, KnownArrays

DIVISION_BY_ZERO_MESSAGE = "a whole number was divided by zero"
"""Error sentence for an integer quotient or remainder."""

ZERO_DIVISOR_HINT = "ask before: x // k if k else 0"
"""Hint of the error for an integer quotient or remainder."""


def _optional_operand(op: Op, position: int) -> Value | None:
    return op.inputs[position] if position < len(op.inputs) else None


def _has_integer_result(op: Op) -> bool:
    return kind_of(op.outputs[0].dtype) in "iu"


def may_divide_by_zero(op: Op, known_array: KnownArrays) -> bool:
    """Return True if the operation can divide an integer by 0."""
    divisor = known_array(op.inputs[1])
    return _has_integer_result(op) and (divisor is None or not np.all(divisor))


def has_negative_power(op: Op, known_array: KnownArrays) -> bool:
    """Return True if the operation can raise an integer to a negative integer power."""
    exponent, operand = known_array(op.inputs[1]), op.inputs[1]
    if not _has_integer_result(op) or operand is None or kind_of(operand.dtype) != "i":
        return False
    return exponent is None or bool(np.any(exponent < 0))


def is_text_without_number(op: Op, known_array: KnownArrays) -> bool:
    """Return True if the operation converts strings to numbers, which fails for strings without a number."""
    source_value, target_value = op.inputs[0], op.outputs[0]
    return source_value is not None and source_value.dtype == "string" != target_value.dtype


def may_mismatch_unknown_extent(op: Op, known_array: KnownArrays) -> bool:
    """Return True if an extent is unknown at compile time, so that shapes can be incompatible at run time."""
    operands_and_results = (*(value for value in op.inputs if value is not None), *op.outputs)
    return not all(is_fixed(value.shape) for value in operands_and_results)


def has_empty_axis(op: Op, known_array: KnownArrays) -> bool:
    """Return True if the reduced axis of `ArgMax` or `ArgMin` can be empty."""
    reduced_operand = op.inputs[0]
    if (
        reduced_operand is None
        or reduced_operand.shape is None
        or not is_fixed((*reduced_operand.shape, *(op.outputs[0].shape or ())))
    ):
        return True
    return bool(reduced_operand.shape) and reduced_operand.shape[op.attributes.get("axis", 0)] == 0


def unless_values_known(*positions: int) -> FailureRule:
    """Return a predicate that is True (may fail) unless operands at `positions` are constants."""

    def may_fail(op: Op, known_array: KnownArrays) -> bool:
        operands = [
            value
            for position in positions
            if (value := _optional_operand(op, position)) is not None
        ]
        return any(known_array(value) is None for value in operands)

    return may_fail


def unless_shape_and_values_known(*positions: int) -> FailureRule:
    """Return a predicate that is True (may fail) if a shape or operand values are unknown.

    The shape is that of the first operand. The operands are at `positions`.
    """
    has_unknown_values = unless_values_known(*positions)

    def may_fail(op: Op, known_array: KnownArrays) -> bool:
        first_operand = op.inputs[0]
        return (
            has_unknown_values(op, known_array)
            or first_operand is None
            or not is_fixed(first_operand.shape)
        )

    return may_fail


def has_invalid_slice(op: Op, known_array: KnownArrays) -> bool:
    """Return True if a Slice can have a step of 0, or has axes that are unknown.

    No slice bound is invalid.
    """
    if unless_values_known(3, 4)(op, known_array):
        return True
    known_steps = known_array(_optional_operand(op, 4))
    return known_steps is not None and not np.all(known_steps)


def has_index_outside(op: Op, known_array: KnownArrays) -> bool:
    """Return True if an index of a gather or scatter operation can be out of range."""
    indexed_operand, known_indices = op.inputs[0], known_array(op.inputs[1])
    if known_indices is None or indexed_operand is None or indexed_operand.shape is None:
        return True
    axis_extent = indexed_operand.shape[op.attributes.get("axis", 0)]
    return not isinstance(axis_extent, int) or _is_any_outside(known_indices, axis_extent)


def has_index_tuple_outside(op: Op, known_array: KnownArrays) -> bool:
    """Return True if an index tuple of GatherND or ScatterND can be out of range."""
    indexed_operand, known_indices = op.inputs[0], known_array(op.inputs[1])
    if (
        known_indices is None
        or indexed_operand is None
        or indexed_operand.shape is None
        or not known_indices.shape
    ):
        return True
    batch_axis_count = op.attributes.get("batch_dims", 0)
    indexed_extents = indexed_operand.shape[
        batch_axis_count : batch_axis_count + known_indices.shape[-1]
    ]
    index_columns = (known_indices[..., k] for k in range(known_indices.shape[-1]))
    return any(
        not isinstance(extent, int) or _is_any_outside(axis_indices, extent)
        for extent, axis_indices in zip(indexed_extents, index_columns, strict=True)
    )


def _is_any_outside(indices: Array, extent: int) -> bool:
    return bool(np.any((indices < -extent) | (indices >= extent)))


def has_too_few_elements(op: Op, known_array: KnownArrays) -> bool:
    """Return True if the axis of TopK can have fewer than k elements."""
    sorted_operand, required_count = op.inputs[0], known_array(op.inputs[1])
    if required_count is None or sorted_operand is None or sorted_operand.shape is None:
        return True
    axis_extent = sorted_operand.shape[op.attributes.get("axis", -1)]
    return not isinstance(axis_extent, int) or not 0 <= int(required_count.item()) <= axis_extent


def has_axis_outside(op: Op, known_array: KnownArrays) -> bool:
    """Return True if the axis operand of CumSum can be out of range."""
    summed_operand, axis = op.inputs[0], known_array(op.inputs[1])
    if axis is None or summed_operand is None or summed_operand.shape is None:
        return True
    return _is_any_outside(axis, len(summed_operand.shape))
