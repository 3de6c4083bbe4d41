"""When an operation fails for values of operands that fit it: the `may_fail` of rows.

Shapes that do not fit are another matter: they are found when a model is read, where they are known.
What a rule cannot tell may fail. All rules answer for the values that are known now.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import Array, Op, Value, is_fixed
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.registry import Fails, Known

DIVIDED_BY_ZERO = "a whole number was divided by zero"
"""The sentence of the error about an integer quotient or remainder, in every form."""

ASK_BEFORE = "ask before: x // k if k else 0"
"""The hint of that error."""


def _given(op: Op, position: int) -> Value | None:
    return op.inputs[position] if position < len(op.inputs) else None


def _whole(op: Op) -> bool:
    return kind_of(op.outputs[0].dtype) in "iu"


def divides_by_zero(op: Op, known: Known) -> bool:
    """Whole numbers are divided by 0."""
    divisor = known(op.inputs[1])
    return _whole(op) and (divisor is None or not np.all(divisor))


def negative_power(op: Op, known: Known) -> bool:
    """A whole number has a negative whole power."""
    exponent, operand = known(op.inputs[1]), op.inputs[1]
    if not _whole(op) or operand is None or kind_of(operand.dtype) != "i":
        return False
    return exponent is None or bool(np.any(exponent < 0))


def no_number(op: Op, known: Known) -> bool:
    """A text is no number."""
    source, made = op.inputs[0], op.outputs[0]
    return source is not None and source.dtype == "string" != made.dtype


def unless_fixed(op: Op, known: Known) -> bool:
    """An extent that is not known does not fit."""
    values = (*(value for value in op.inputs if value is not None), *op.outputs)
    return not all(is_fixed(value.shape) for value in values)


def nothing_to_choose(op: Op, known: Known) -> bool:
    """There is no element along the axis of `ArgMax` or `ArgMin`."""
    data = op.inputs[0]
    if (
        data is None
        or data.shape is None
        or not is_fixed((*data.shape, *(op.outputs[0].shape or ())))
    ):
        return True
    return bool(data.shape) and data.shape[op.attributes.get("axis", 0)] == 0


def unless_known(*positions: int) -> Fails:
    """An operand at one of these positions, if it is given, is not as it must be."""

    def may_fail(op: Op, known: Known) -> bool:
        given = [value for position in positions if (value := _given(op, position)) is not None]
        return any(known(value) is None for value in given)

    return may_fail


def unless_fixed_and_known(*positions: int) -> Fails:
    """The data have another shape than operands at these positions ask for."""
    unknown = unless_known(*positions)

    def may_fail(op: Op, known: Known) -> bool:
        data = op.inputs[0]
        return unknown(op, known) or data is None or not is_fixed(data.shape)

    return may_fail


def step_of_zero(op: Op, known: Known) -> bool:
    """A slice has a step of 0, or axes that are none; its ends may be anywhere."""
    if unless_known(3, 4)(op, known):
        return True
    steps = known(_given(op, 4))
    return steps is not None and not np.all(steps)


def index_outside(op: Op, known: Known) -> bool:
    """An index is not on the axis."""
    data, indices = op.inputs[0], known(op.inputs[1])
    if indices is None or data is None or data.shape is None:
        return True
    extent = data.shape[op.attributes.get("axis", 0)]
    return not isinstance(extent, int) or _any_outside(indices, extent)


def tuple_outside(op: Op, known: Known) -> bool:
    """A row of indices is not in the data."""
    data, indices = op.inputs[0], known(op.inputs[1])
    if indices is None or data is None or data.shape is None or not indices.shape:
        return True
    first = op.attributes.get("batch_dims", 0)
    extents = data.shape[first : first + indices.shape[-1]]
    columns = (indices[..., k] for k in range(indices.shape[-1]))
    return any(
        not isinstance(extent, int) or _any_outside(column, extent)
        for extent, column in zip(extents, columns, strict=True)
    )


def _any_outside(indices: Array, extent: int) -> bool:
    return bool(np.any((indices < -extent) | (indices >= extent)))


def too_few(op: Op, known: Known) -> bool:
    """There are fewer elements than the k that are asked for."""
    data, k = op.inputs[0], known(op.inputs[1])
    if k is None or data is None or data.shape is None:
        return True
    extent = data.shape[op.attributes.get("axis", -1)]
    return not isinstance(extent, int) or not 0 <= int(k.item()) <= extent


def no_axis(op: Op, known: Known) -> bool:
    """The axis that is given as an operand is none of the data's."""
    data, axis = op.inputs[0], known(op.inputs[1])
    if axis is None or data is None or data.shape is None:
        return True
    return _any_outside(axis, len(data.shape))
