"""Analysis of the values that a selection (ONNX `Where`) may discard."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.ir import If, Loop, Op, Operation, Value, reads, results


def selected_values(ops: Iterable[Operation]) -> set[Value]:
    """Return all values that a selection (`Where`) may discard, directly or indirectly.

    These are the operands of each `Where`, and all values that the operands depend on, also in bodies at any depth.
    """
    discardable_values: set[Value] = set()
    previous_value_count = -1
    program_ops = tuple(ops)
    while previous_value_count < len(discardable_values):
        previous_value_count = len(discardable_values)
        _add_discardable(program_ops, discardable_values)
    return discardable_values


def _add_discardable(ops: tuple[Operation, ...], discardable_values: set[Value]) -> None:
    """Extend the set of values that a `Where` may discard by one backward pass over operations."""
    for operation in reversed(ops):
        if isinstance(operation, Op) and operation.op_type == "Where":
            discardable_values.update(value for value in operation.inputs[1:] if value is not None)
        elif isinstance(operation, Loop):
            _add_discardable_in_loop(operation, discardable_values)
        elif isinstance(operation, If):
            for branch in (operation.then, operation.otherwise):
                output_pairs = zip(branch.outputs, operation.outputs, strict=True)
                discardable_values.update(
                    leaf for leaf, output in output_pairs if output in discardable_values
                )
                _add_discardable(branch.ops, discardable_values)
        elif not discardable_values.isdisjoint(results(operation)):
            discardable_values.update(reads(operation))


def _add_discardable_in_loop(loop: Loop, discardable_values: set[Value]) -> None:
    for carried in loop.carried:
        if discardable_values & {carried.final, carried.body_input}:
            discardable_values.add(carried.body_output)
    discardable_values.update(
        recorded.row for recorded in loop.recorded if recorded.stack in discardable_values
    )
    _add_discardable(loop.ops, discardable_values)
    discardable_values.update(
        carried.initial for carried in loop.carried if carried.body_input in discardable_values
    )
    discardable_values.update(
        scanned.rows for scanned in loop.scanned if scanned.row in discardable_values
    )
