"""Lowering of ONNX operators on sequences and optional values.

    SequenceInsert(history, 1.0)      a plain number takes the dtype of the sequence's members
    SequenceAt([a, b], 1)             a list of values is converted to a sequence
    OptionalHasElement(x)             true for a value that cannot be absent; OptionalGetElement(x) is x

Source: ONNX operators, opset 17; for values that cannot be absent, opset 18.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Data, Op, Value
from mdf_loop.ir.types import (
    TypeAttribute,
    element_type,
    inner_dtype,
    is_optional,
    is_sequence,
    is_tensor,
    kind_of,
    wrong_kind_error,
)
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import OperatorResults, Term, promote, tensor
from mdf_loop.ops.build_helpers import cast, ints, kind


def as_sequence(b: ModelBuilder, term: Term) -> Value:
    """Return a value as an ONNX sequence, built from the elements if the value is a tuple.

    Raises:
        OperandError: The term is no sequence.
    """
    if isinstance(term, tuple) and term and not isinstance(term, OperatorResults):
        return b.op("SequenceConstruct", *promote(b, *(tensor(b, member) for member in term)))
    value = tensor(b, term)
    if not is_sequence(value.dtype):
        raise wrong_kind_error(value, kinds=("seq",))
    return value


def lower_known_data(b: ModelBuilder, dtype: str, data: Data) -> Value:
    """Append constant data (an array, a list of arrays or None) to the program, and return its value."""
    if is_tensor(dtype):
        return b.constant(data)
    if is_optional(dtype):
        if data is None:
            return b.op("Optional", type=TypeAttribute(inner_dtype(dtype)))
        return b.op("Optional", lower_known_data(b, inner_dtype(dtype), data))
    if not data:
        return b.op("SequenceEmpty", dtype=element_type(inner_dtype(dtype)))
    return b.op("SequenceConstruct", *(b.constant(member) for member in data))


def cast_new_member(b: ModelBuilder, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Return the inputs of SequenceInsert, with the new tensor cast to the sequence's dtype.

    Only weakly typed numbers are cast, and only if the cast is lossless.

    Raises:
        OperandError: The member has another dtype.
    """
    sequence, member, *position_operands = inputs
    assert sequence is not None
    assert member is not None
    member_dtype = inner_dtype(sequence.dtype)
    if (
        not is_sequence(sequence.dtype)
        or member.dtype == member_dtype
        or not is_tensor(member.dtype)
    ):
        return list(inputs)
    kind_rank = {"b": 0, "i": 1, "u": 1, "f": 2}
    if (
        b.is_weak(member)
        and kind_of(member_dtype) in kind_rank
        and kind_rank[kind(member)] <= kind_rank[kind_of(member_dtype)]
    ):
        return [sequence, cast(b, member, member_dtype), *position_operands]
    raise OperandError(
        f"'{sequence.name}' is {sequence.type}, but '{member.name}', which is put into it, is "
        f"{member.type}",
        hint="all members of a sequence have one dtype: use onnx::Cast",
    )


def _lower_has_element(b: ModelBuilder, inputs: Sequence[Value | None]) -> Value | None:
    operand = inputs[0] if inputs else None
    if operand is not None and is_optional(operand.dtype):
        return None
    return b.constant(np.array(operand is not None))


def _lower_get_element(b: ModelBuilder, inputs: Sequence[Value | None]) -> Value | None:
    operand = inputs[0]
    if operand is None or not is_optional(operand.dtype):
        return operand
    optional_operands = _producer_operands(b, operand, "Optional")
    return (
        optional_operands[0]
        if optional_operands is not None and len(optional_operands) == 1
        else None
    )


def _producer_operands(
    b: ModelBuilder, value: Value | None, op_type: str
) -> tuple[Value, ...] | None:
    """Return the operands of the `op_type` operation that computed a value, or None.

    The result is also None if an operand is weakly typed.
    """
    producer = None if value is None else b.producers.get(value)
    if not isinstance(producer, Op) or producer.op_type != op_type:
        return None
    operands = tuple(operand for operand in producer.inputs if operand is not None)
    return None if any(b.is_weak(operand) for operand in operands) else operands


def known_sequence_member(b: ModelBuilder, inputs: Sequence[Value | None]) -> Value | None:
    """Return a sequence member from the operands of its `SequenceConstruct`, or None if impossible.

    If the position is computed at run time, the members are stacked along a new axis. Therefore gradients and
    sweeps support the member like any other array.
    """
    members, position = _producer_operands(b, inputs[0], "SequenceConstruct"), inputs[1]
    if not members or position is None:
        return None
    constant_position = b.constant_of(position)
    if constant_position is not None:
        member_index = int(constant_position.reshape(()))
        return members[member_index] if -len(members) <= member_index < len(members) else None
    member_shape = members[0].shape
    has_fixed_shape = member_shape is not None and all(
        isinstance(extent, int) for extent in member_shape
    )
    if (
        not has_fixed_shape
        or position.shape != ()
        or any(member.shape != member_shape for member in members)
    ):
        return None
    expanded_members = [b.op("Unsqueeze", member, ints(b, 0)) for member in members]
    stacked_members = (
        expanded_members[0]
        if len(expanded_members) == 1
        else b.op("Concat", *expanded_members, axis=0)
    )
    return b.op("Gather", stacked_members, position, axis=0)


def _lower_optional(_: ModelBuilder, inputs: Sequence[Value | None]) -> Value | None:
    operand = inputs[0] if inputs else None
    return operand if operand is not None and is_optional(operand.dtype) else None


STATIC_RESULTS: Mapping[str, Callable[[ModelBuilder, Sequence[Value | None]], Value | None]] = {
    "OptionalHasElement": _lower_has_element,
    "OptionalGetElement": _lower_get_element,
    "Optional": _lower_optional,
}
"""Function for each operator that computes the result without the operator, or returns None."""
