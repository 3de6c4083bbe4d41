"""Analysis of varying values, which may differ between the members of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mdf_loop.ir import Guard, If, Loop, Op, Operation, Value, bodies, operands
from mdf_loop.ops import row_of


def propagate_varying(ops: Iterable[Operation], varying: set[Value]) -> None:
    """Add the results of all operations that depend on values in the set `varying` to this set."""
    for operation in ops:
        if isinstance(operation, Loop):
            _propagate_in_loop(operation, varying)
        elif isinstance(operation, If):
            _propagate_in_choice(operation, varying)
        elif isinstance(operation, Guard):
            varying.update({operation.output} if operation.value in varying else ())
        elif isinstance(operation, Op) and not row_of(operation.op_type).reads_only_shapes:
            op_outputs = operation.outputs
            varying.update(op_outputs if not varying.isdisjoint(operands(operation)) else ())


def has_per_member_exit(loop: Loop, varying: set[Value]) -> bool:
    """Return True if batch members may need different numbers of iterations of a loop."""
    if loop.trip_count in varying:
        return True
    return loop.condition is not None and bool({loop.condition, loop.condition_out} & varying)


def _propagate_in_loop(loop: Loop, varying: set[Value]) -> None:
    """Add all values of a loop that depend on values in the set `varying` to this set."""
    varying.update(carried.body_input for carried in loop.carried if carried.initial in varying)
    varying.update(scanned.row for scanned in loop.scanned if scanned.rows in varying)
    while True:
        propagate_varying(loop.ops, varying)
        new_varying_values = {
            carried.body_input for carried in loop.carried if carried.body_output in varying
        }
        if has_per_member_exit(loop, varying):
            new_varying_values |= {
                loop.condition_in,
                *(carried.body_input for carried in loop.carried),
            }
        if new_varying_values <= varying:
            break
        varying.update(new_varying_values)
    varying.update(carried.final for carried in loop.carried if carried.body_input in varying)
    varying.update(recorded.stack for recorded in loop.recorded if recorded.row in varying)
    loop_conditions = {loop.condition, loop.condition_out}
    if has_per_member_exit(loop, varying):
        varying.update(recorded.stack for recorded in loop.recorded)
        varying.update(() if loop.iteration_count is None else (loop.iteration_count,))
        loop_conditions |= varying
    if loop.last_condition is not None and loop_conditions & varying:
        varying.add(loop.last_condition)


def _propagate_in_choice(choice: If, varying: set[Value]) -> None:
    for branch in (choice.then, choice.otherwise):
        propagate_varying(branch.ops, varying)
    output_tuples = zip(choice.outputs, choice.then.outputs, choice.otherwise.outputs, strict=True)
    varying.update(
        choice_output
        for choice_output, *branch_outputs in output_tuples
        if not varying.isdisjoint((choice.condition, *branch_outputs))
    )


def values_read(operation: Operation) -> Iterator[Value]:
    """Yield all values that an operation, its branches and its loop body read."""
    yield from operands(operation)
    for body in bodies(operation):
        yield from body.outputs
