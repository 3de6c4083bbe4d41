"""Loops of which each run decides for itself, said in a way that can be computed for many runs.

A trip count is a condition:

    loop %i < %n while %go                 %goes = And(Greater(%n, 0), %go)
      ...                          ->      loop %i while %goes
      continue if %c                         ...
                                             %next = And(Less(Add(%i, 1), %n), %c)
                                             continue if %next

A last condition that does not end the loop is carried. Keeps: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Loop, Operation, Value
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops.batching.lane import HINT
from mdf_loop.ops.words import scalar


def trip_count_to_condition(b: Builder, loop: Loop) -> tuple[Sequence[Operation], Loop]:
    """Operations before the loop, and the loop without its trip count."""
    assert loop.trip_count is not None
    loop = carry_last_condition(b, loop)
    before, inside = b.body(), b.body()
    with before.at(loop.where, loop.name), inside.at(loop.where, loop.name):
        number = inside.op("Add", loop.iteration, scalar(inside, 1, "int64"))
        goes = before.op("Greater", loop.trip_count, scalar(before, 0, "int64"))
        more = inside.op("Less", number, loop.trip_count)
        if loop.condition is not None:
            goes = before.op("And", goes, loop.condition)
            more = inside.op("And", more, loop.condition_out or loop.condition_in)
    ops = (*loop.ops, *inside.ops)
    changed = replace(loop, trip_count=None, condition=goes, condition_out=more, ops=ops)
    return before.ops, changed


def carry_last_condition(b: Builder, loop: Loop) -> Loop:
    """The loop, which carries its last condition if that is asked for."""
    if loop.last_condition is None:
        return loop
    first = loop.condition or scalar(b, True, "bool")
    with b.at(loop.where, loop.name):
        enter = b.new("bool", (), "last condition")
    leave = loop.condition_out or enter
    carried = Carried(first, enter, leave, loop.last_condition, "last condition")
    return replace(loop, carried=(*loop.carried, carried), last_condition=None)


# --- refused --------------------------------------------------------------------------------------


def refuse_varying_first_iteration(loop: Loop, varying: Collection[Value]) -> None:
    """Refuse a first iteration number of each run.

    Raises:
        UnsupportedError: iterations of one loop would have several numbers.
    """
    if loop.first in varying:
        what = f"the first iteration number of '{loop.name}' depends on the values"
        raise UnsupportedError(what, loop.where, HINT)


def refuse_changing_shapes(loop: Loop) -> None:
    """Refuse carried values of runs that stop apart, if they are no arrays, or may have other shapes then.

    Raises:
        UnsupportedError: the first of them, by name.
    """
    for carried in loop.carried:
        is_array = is_tensor(carried.enter.dtype)
        if not is_array or carried.initial.shape != carried.leave.shape:
            what = "may change its shape" if is_array else f"is {carried.enter.dtype}"
            raise UnsupportedError(
                f"'{carried.name or carried.enter.name}' {what} in '{loop.name}', "
                "and each member of the sweep would need its own number of iterations",
                loop.where,
                HINT,
            )


def ragged_rows_error(value: Value, loop: Loop) -> UnsupportedError:
    """The error for what reads records of runs that stop apart."""
    return UnsupportedError(
        f"'{value.name}' has a row for each iteration of '{loop.name}', and each member of the "
        "sweep would need its own number of rows",
        value.where,
        HINT,
    )
