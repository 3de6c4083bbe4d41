"""Rewrite rules for loops whose batch members stop at different iterations.

A trip count becomes a condition:

    loop %i < %n while %go                 %goes = And(Greater(%n, 0), %go)
      ...                          ->      loop %i while %goes
      continue if %c                         ...
                                             %next = And(Less(Add(%i, 1), %n), %c)
                                             continue if %next

If the last condition of a loop is read, it becomes a carried value. Preserves: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Loop, Operation, Value
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops.batching.scope import UNBATCHED_HINT
from mdf_loop.ops.build_helpers import scalar


def trip_count_to_condition(b: Builder, loop: Loop) -> tuple[Sequence[Operation], Loop]:
    """Replace the trip count of a loop by an equivalent loop condition.

    Return the operations to insert before the loop, and the new loop.
    """
    assert loop.trip_count is not None
    loop = carry_last_condition(b, loop)
    outer_builder, body_builder = b.body(), b.body()
    with outer_builder.at(loop.where, loop.name), body_builder.at(loop.where, loop.name):
        next_iteration = body_builder.op("Add", loop.iteration, scalar(body_builder, 1, "int64"))
        initial_condition = outer_builder.op(
            "Greater", loop.trip_count, scalar(outer_builder, 0, "int64")
        )
        next_condition = body_builder.op("Less", next_iteration, loop.trip_count)
        if loop.condition is not None:
            initial_condition = outer_builder.op("And", initial_condition, loop.condition)
            next_condition = body_builder.op(
                "And", next_condition, loop.condition_out or loop.condition_in
            )
    body_ops = (*loop.ops, *body_builder.ops)
    conditional_loop = replace(
        loop,
        trip_count=None,
        condition=initial_condition,
        condition_out=next_condition,
        ops=body_ops,
    )
    return outer_builder.ops, conditional_loop


def carry_last_condition(b: Builder, loop: Loop) -> Loop:
    """Turn the last condition of a loop into a carried value, if the program reads it."""
    if loop.last_condition is None:
        return loop
    initial_condition = loop.condition or scalar(b, True, "bool")
    with b.at(loop.where, loop.name):
        incoming_value = b.new("bool", (), "last condition")
    outgoing_value = loop.condition_out or incoming_value
    carried_condition = Carried(
        initial_condition, incoming_value, outgoing_value, loop.last_condition, "last condition"
    )
    return replace(loop, carried=(*loop.carried, carried_condition), last_condition=None)


# --- refusals -------------------------------------------------------------------------------------


def refuse_varying_first_iteration(loop: Loop, varying: Collection[Value]) -> None:
    """Raise an error if a loop's first iteration number differs between batch members.

    Raises:
        UnsupportedError: One iteration of the loop would have a different number in each run.
    """
    if loop.first_iteration in varying:
        error_description = f"the first iteration number of '{loop.name}' depends on the values"
        raise UnsupportedError(error_description, loop.where, UNBATCHED_HINT)


def refuse_changing_shapes(loop: Loop) -> None:
    """Raise an error if a carried value of a loop changes its shape or is no array.

    Raises:
        UnsupportedError: The error names the first such value.
    """
    for carried in loop.carried:
        is_array = is_tensor(carried.body_input.dtype)
        if not is_array or carried.initial.shape != carried.body_output.shape:
            shape_problem = "may change its shape" if is_array else f"is {carried.body_input.dtype}"
            raise UnsupportedError(
                f"'{carried.name or carried.body_input.name}' {shape_problem} in '{loop.name}', "
                "and each member of the sweep would need its own number of iterations",
                loop.where,
                UNBATCHED_HINT,
            )


def ragged_rows_error(value: Value, loop: Loop) -> UnsupportedError:
    """Return the error for recorded arrays whose number of rows differs between batch members."""
    return UnsupportedError(
        f"'{value.name}' has a row for each iteration of '{loop.name}', and each member of the "
        "sweep would need its own number of rows",
        value.where,
        UNBATCHED_HINT,
    )
