"""Replacement of loops with zero iterations by their initial values and empty arrays.

    loop %i < 0                                         %rows: float64[n, 3] = []
      carry %x from %x0 to %next giving %final    ->    %count = 0
      record %row giving %rows                          (%final is %x0)
      count giving %count

A loop whose initial condition is false also has zero iterations.

Preserves: results bit for bit. A loop stays if the row shape of a recording is known only at run time.
A loop also stays if the type of a final value is less specific than the type of its initial value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import (
    Array,
    Constant,
    Loop,
    Operation,
    Program,
    Value,
    bodies,
    walk,
    with_bodies,
)
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.types import is_tensor, numpy_dtype


def drop_empty_loops(program: Program) -> Program:
    """Replace loops with zero iterations by their initial values and empty arrays."""
    constant_arrays = {op.value: op.array for op in walk(program.ops) if isinstance(op, Constant)}
    substitutions: dict[Value, Value] = {}
    remaining_ops = _replace_empty_loops(program.ops, constant_arrays, substitutions)
    if remaining_ops == program.ops:
        return program
    rewritten_outputs = substitute(program.outputs, substitutions)
    return replace(program, ops=remaining_ops, outputs=rewritten_outputs)


def _replace_empty_loops(
    ops: Iterable[Operation],
    constant_arrays: Mapping[Value, Array],
    substitutions: dict[Value, Value],
) -> tuple[Operation, ...]:
    """Replace loops with zero iterations among operations and in nested bodies.

    `substitutions` then maps final carried values to initial values.
    """
    new_ops: list[Operation] = []
    for operation in (substitute(operation, substitutions) for operation in ops):
        if (
            isinstance(operation, Loop)
            and _is_empty(operation, constant_arrays)
            and _has_known_results(operation)
        ):
            substitutions |= {carried.final: carried.initial for carried in operation.carried}
            new_ops += _results_of_empty_loop(operation, substitutions)
            continue
        inner_ops = [
            _replace_empty_loops(body.ops, constant_arrays, substitutions)
            for body in bodies(operation)
        ]
        new_ops.append(with_bodies(substitute(operation, substitutions), inner_ops))
    return tuple(new_ops)


def _is_empty(loop: Loop, constant_arrays: Mapping[Value, Array]) -> bool:
    if loop.member_axis is not None:
        return False
    constant_trip_count = None if loop.trip_count is None else constant_arrays.get(loop.trip_count)
    constant_condition = None if loop.condition is None else constant_arrays.get(loop.condition)
    has_zero_trip_count = constant_trip_count is not None and bool((constant_trip_count <= 0).all())
    return has_zero_trip_count or (constant_condition is not None and not constant_condition.any())


def _has_known_results(loop: Loop) -> bool:
    """Return True if all result types of a loop with zero iterations are known."""
    has_typed_finals = all(
        (carried.final.dtype, carried.final.shape) == (carried.initial.dtype, carried.initial.shape)
        for carried in loop.carried
    )
    return has_typed_finals and all(
        is_tensor(recorded.stack.dtype) and _row_shape(recorded.stack) is not None
        for recorded in loop.recorded
    )


def _row_shape(stack: Value) -> tuple[int, ...] | None:
    """Return the shape of one row of a recorded array, or None if the shape is unknown."""
    if not stack.shape:
        return None
    known_extents = tuple(extent for extent in stack.shape[1:] if isinstance(extent, int))
    return known_extents if len(known_extents) == len(stack.shape) - 1 else None


def _results_of_empty_loop(loop: Loop, substitutions: dict[Value, Value]) -> Iterable[Constant]:
    """Yield constants for the results of a loop with zero iterations."""
    for recorded in loop.recorded:
        dtype = numpy_dtype(recorded.stack.dtype)
        yield Constant(recorded.stack, np.zeros((0, *(_row_shape(recorded.stack) or ())), dtype))
    if loop.iteration_count is not None:
        yield Constant(loop.iteration_count, np.array(0, np.int64))
    if loop.last_condition is not None and loop.condition is not None:
        substitutions[loop.last_condition] = loop.condition
    elif loop.last_condition is not None:
        yield Constant(loop.last_condition, np.array(True))
