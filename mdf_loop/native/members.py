"""Rewrite of batched loops with per-member early exit, which splits arrays into scalars.

    %i: int64[]                              ->   %i: int64[batch]
    carry %x: float64[batch, 2] from %x0          carry %x 0, %x 1: float64[batch] from %x0[:, 0], %x0[:, 1]
    %s: float64[batch] = ReduceSum(%x, -1)        %s: float64[batch] = Add(%x 0, %x 1)
    %y: float64[batch, 2] = Add(%x, %a)           %y 0 = Add(%x 0, %a[0]); %y 1 = Add(%x 1, %a[1])

Small arrays of a member are split into their elements (see `elementwise`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.ir import Array, Carried, Constant, Loop, Op, Operation, Value, body_outputs
from mdf_loop.native.elementwise import ElementPosition, ElementwiseValues, elements_read
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import NotNative
from mdf_loop.passes.failing import first_that_may_fail, operation_name


class MemberLoop(Struct, frozen=True, eq=False):
    """Batched loop whose arrays are split, so that each value is one scalar per batch member.

    Attributes:
        loop: The loop.
        constants: All constants, including the elements of constant arrays.
        element_positions: For each element of an input or output array of the loop, its position in the array.
    """

    loop: Loop
    constants: Mapping[Value, Array]
    element_positions: Mapping[Value, ElementPosition]


def split_members(loop: Loop, constants: Mapping[Value, Array]) -> MemberLoop:
    """Rewrite a batched loop with per-member early exit so that arrays become scalar values.

    Raises:
        NotNative: The loop cannot be rewritten. The message states the reason.
    """
    _refuse_rows_and_bodies(loop)
    assert loop.member_axis is not None
    assert loop.condition_out is not None
    elementwise_values = ElementwiseValues(loop.member_axis, constants)
    member_iteration = replace(loop.iteration, shape=(loop.member_axis,))
    elementwise_values.set_elements(loop.iteration, [member_iteration])
    carried_input_elements = [
        elementwise_values.create_input_elements(carried_value.body_input)
        for carried_value in loop.carried
    ]
    used_ops = _select_used_ops(loop)
    for op in used_ops:
        elementwise_values.split_op(op)
    unused_ops = (op for op in loop.ops if op not in used_ops and _computes(op))
    _refuse_failing((*elementwise_values.ops, *unused_ops), elementwise_values.constants)
    carried_elements = tuple(
        Carried(*element_values, name=carried_value.name)
        for carried_value, elements in zip(loop.carried, carried_input_elements, strict=True)
        for element_values in zip(
            elementwise_values.matching_elements(carried_value.initial, carried_value.body_input),
            elements,
            elementwise_values.matching_elements(
                carried_value.body_output, carried_value.body_input
            ),
            elementwise_values.create_outer_elements(carried_value.final),
            strict=True,
        )
    )
    (condition_element,) = elementwise_values.of(loop.condition_out)
    member_loop = replace(
        loop,
        iteration=member_iteration,
        carried=carried_elements,
        condition_out=condition_element,
        ops=tuple(elementwise_values.ops),
    )
    return MemberLoop(
        member_loop, elementwise_values.constants, elementwise_values.element_positions
    )


def _refuse_rows_and_bodies(loop: Loop) -> None:
    """Raise NotNative for a loop with recorded or scanned rows, inner loops or branches."""
    if loop.recorded:
        raise NotNative("each member has a number of rows of its own")
    if loop.scanned:
        raise NotNative("each member scans rows by itself")
    for operation in loop.ops:
        if not isinstance(operation, Op | Constant):
            raise NotNative(
                f"members stop each for itself, and {operation_name(operation)} is in it"
            )


def _refuse_failing(ops: Iterable[Operation], constants: Mapping[Value, Array]) -> None:
    """Raise NotNative if an operation of a loop body may fail at run time."""
    failing_op = first_that_may_fail(ops, lambda value: constants.get(value) if value else None)
    if failing_op is not None:
        raise NotNative(f"members stop each for itself, and {operation_name(failing_op)} may fail")


def _computes(operation: Operation) -> bool:
    """Return True if an operation computes elements instead of only reshaping an operand."""
    return isinstance(operation, Op) and not row_of(operation.op_type).keeps_order


def _select_used_ops(loop: Loop) -> dict[Op, None]:
    """Return the operations whose results, not only their shapes, affect outputs of a loop body."""
    used_values = {*body_outputs(loop)}
    used_ops = []
    for op in reversed(loop.ops):
        if isinstance(op, Op) and used_values.intersection(op.outputs):
            used_ops.append(op)
            used_values.update(elements_read(op))
    return dict.fromkeys(reversed(used_ops))
