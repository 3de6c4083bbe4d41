"""Dead code elimination: remove everything that no output depends on, also in nested bodies.

    loop: carry x, u; record y  (only x is read)   ->   loop: carry x
    if go giving x, u           (only x is read)   ->   if go giving x

The pass removes operations, carried and scanned values, recordings, loops and choices. Preserves: results bit
for bit. ONNX Runtime does not remove dead operations and recordings of a body.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mdf_loop.ir import (
    Branch,
    If,
    Loop,
    Operation,
    Program,
    Value,
    reads,
    results,
)


def eliminate_dead_code(program: Program) -> Program:
    """Remove everything that no output of a program depends on (dead code)."""
    live_ops = _live_ops(program.ops, {output.value for output in program.outputs})
    return program if live_ops == program.ops else replace(program, ops=live_ops)


def _live_ops(ops: tuple[Operation, ...], needed_values: Iterable[Value]) -> tuple[Operation, ...]:
    live_values = set(needed_values)
    live_ops: list[Operation] = []
    for operation in reversed(ops):
        if not live_values.intersection(results(operation)):
            continue
        if isinstance(operation, Loop):
            operation = _live_loop(operation, live_values)
        elif isinstance(operation, If):
            operation = _live_choice(operation, live_values)
        live_values.update(reads(operation))
        live_ops.append(operation)
    return tuple(reversed(live_ops))


def _live_loop(loop: Loop, live: set[Value]) -> Loop:
    """Remove from a loop all results and operations that no live value depends on."""
    last_condition = loop.last_condition if loop.last_condition in live else None
    keeps_condition = loop.condition is not None or last_condition is not None
    live_recordings = tuple(recorded for recorded in loop.recorded if recorded.stack in live)
    recorded_rows = {recording.row for recording in live_recordings}
    if keeps_condition and loop.condition_out is not None:
        recorded_rows.add(loop.condition_out)
    live_carried_values = {carried for carried in loop.carried if carried.final in live}
    while True:
        live_ops = _live_ops(
            loop.ops, recorded_rows | {carried.body_output for carried in live_carried_values}
        )
        read_values = (
            {value for op in live_ops for value in reads(op)}
            | recorded_rows
            | {carried.body_output for carried in live_carried_values}
        )
        newly_live_values = {
            carried for carried in loop.carried if carried.body_input in read_values
        } - live_carried_values
        if not newly_live_values:
            break
        live_carried_values |= newly_live_values
    live_loop = replace(
        loop,
        ops=live_ops,
        carried=tuple(carried for carried in loop.carried if carried in live_carried_values),
        recorded=live_recordings,
        first_iteration=loop.first_iteration if loop.iteration in read_values else None,
        scanned=tuple(scanned for scanned in loop.scanned if scanned.row in read_values),
        condition_out=loop.condition_out if keeps_condition else None,
        iteration_count=loop.iteration_count if loop.iteration_count in live else None,
        last_condition=last_condition,
    )
    return loop if _is_same_loop(loop, live_loop) else live_loop


def _live_choice(choice: If, live: set[Value]) -> If:
    """Remove from an `If` all outputs and operations that no live value depends on."""
    live_positions = [k for k, output in enumerate(choice.outputs) if output in live]

    def reduce_branch(branch: Branch) -> Branch:
        branch_outputs = tuple(branch.outputs[k] for k in live_positions)
        return Branch(_live_ops(branch.ops, branch_outputs), branch_outputs)

    then_branch, else_branch = reduce_branch(choice.then), reduce_branch(choice.otherwise)
    has_fewer_outputs = len(live_positions) < len(choice.outputs)
    if not has_fewer_outputs and (then_branch.ops, else_branch.ops) == (
        choice.then.ops,
        choice.otherwise.ops,
    ):
        return choice
    live_outputs = tuple(choice.outputs[k] for k in live_positions)
    return replace(choice, then=then_branch, otherwise=else_branch, outputs=live_outputs)


def _is_same_loop(left: Loop, right: Loop) -> bool:
    field_names = (
        *("ops", "carried", "recorded", "scanned", "first_iteration"),
        *("condition_out", "iteration_count", "last_condition"),
    )
    return all(
        getattr(left, field_name) == getattr(right, field_name) for field_name in field_names
    )
