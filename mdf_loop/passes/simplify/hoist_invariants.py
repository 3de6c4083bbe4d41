"""Loop-invariant code motion: operations with only invariant operands run before the loop.

    loop: t = a * b; x' = x + t   ->   t = a * b; loop: x' = x + t

Preserves: results bit for bit. Only operations that cannot fail move, because a loop of zero iterations
must not fail for operations that it never computes. A choice stays in the loop, and so do the
operations of its branches, which are computed only if the branch is chosen. The invariants of a loop
inside a branch move before that loop, within the branch. ONNX Runtime has no loop-invariant code motion.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import (
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Value,
    bodies,
    body_inputs,
    operands,
    results,
    with_bodies,
)
from mdf_loop.ops.registry import KnownArrays
from mdf_loop.passes.failing import can_execute_speculatively, constant_lookup


def hoist_invariants(program: Program) -> Program:
    """Move loop-invariant operations to before their loops (loop-invariant code motion)."""
    hoisted_ops = _hoist_scope(program.ops, constant_lookup(program.ops))
    return program if hoisted_ops == program.ops else replace(program, ops=hoisted_ops)


def _hoist_scope(ops: tuple[Operation, ...], find_constant: KnownArrays) -> tuple[Operation, ...]:
    new_ops: list[Operation] = []
    for operation in ops:
        inner_ops = [_hoist_scope(body.ops, find_constant) for body in bodies(operation)]
        operation = with_bodies(operation, inner_ops)
        if isinstance(operation, Loop):
            ops_before_loop, operation = _split_invariants(operation, find_constant)
            new_ops += ops_before_loop
        new_ops.append(operation)
    return tuple(new_ops)


def _split_invariants(loop: Loop, find_constant: KnownArrays) -> tuple[list[Operation], Loop]:
    """Split a loop into loop-invariant operations and a loop with the other operations."""
    varying_values: set[Value] = set(body_inputs(loop))
    ops_before_loop: list[Operation] = []
    remaining_ops: list[Operation] = []
    for operation in loop.ops:
        is_invariant = isinstance(operation, Constant | Op) and varying_values.isdisjoint(
            operands(operation)
        )
        if is_invariant and can_execute_speculatively(operation, find_constant):
            ops_before_loop.append(operation)
        else:
            remaining_ops.append(operation)
            varying_values.update(results(operation))
    return ops_before_loop, replace(loop, ops=tuple(remaining_ops)) if ops_before_loop else loop
