"""Removal of loop conditions that are always true, which turns while loops into for loops.

    loop i < M while True; continue if True   ->   loop i < M

Preserves: results bit for bit. Loops without a trip count and a bound keep their condition, because they are
endless.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import (
    Loop,
    Operation,
    Program,
    Value,
    always_true,
    bodies,
    true_constants,
    with_bodies,
)


def drop_true_conditions(program: Program) -> Program:
    """Remove loop conditions that are always true, which turns while loops into for loops."""
    rewritten_ops = _drop_conditions(program.ops, true_constants(program.ops))
    return program if rewritten_ops == program.ops else replace(program, ops=rewritten_ops)


def _drop_conditions(ops: tuple[Operation, ...], true_values: set[Value]) -> tuple[Operation, ...]:
    new_ops: list[Operation] = []
    for operation in ops:
        inner_ops = [_drop_conditions(body.ops, true_values) for body in bodies(operation)]
        operation = with_bodies(operation, inner_ops)
        if isinstance(operation, Loop):
            is_bounded = operation.trip_count is not None or operation.max_iterations is not None
            if is_bounded and always_true(operation, true_values):
                operation = replace(operation, condition=None)
        new_ops.append(operation)
    return tuple(new_ops)
