"""Compute once, before the loop, what every iteration computes alike.

    loop: t = a * b; x' = x + t   ->   t = a * b; loop: x' = x + t

Keeps: results bit for bit. Only operations that cannot fail move, since a loop of zero
iterations must not fail for what it never computed. A choice stays where it is, and so does
what stands in its branches: it is computed only when it is chosen. A loop in a branch puts its
invariants before itself, in the branch. ONNX Runtime hoists nothing.
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
from mdf_loop.ops.registry import Known
from mdf_loop.passes.failing import can_move, constants_of


def hoist_invariants(program: Program) -> Program:
    """The program with invariants before the loops that need them."""
    ops = _hoisted(program.ops, constants_of(program.ops))
    return program if ops == program.ops else replace(program, ops=ops)


def _hoisted(ops: tuple[Operation, ...], known: Known) -> tuple[Operation, ...]:
    out: list[Operation] = []
    for operation in ops:
        inner = [_hoisted(body.ops, known) for body in bodies(operation)]
        operation = with_bodies(operation, inner)
        if isinstance(operation, Loop):
            before, operation = _split(operation, known)
            out += before
        out.append(operation)
    return tuple(out)


def _split(loop: Loop, known: Known) -> tuple[list[Operation], Loop]:
    """What can stand before the loop, and the loop without it."""
    varying: set[Value] = set(body_inputs(loop))
    before: list[Operation] = []
    inside: list[Operation] = []
    for operation in loop.ops:
        plain = isinstance(operation, Constant | Op) and varying.isdisjoint(operands(operation))
        if plain and can_move(operation, known):
            before.append(operation)
        else:
            inside.append(operation)
            varying.update(results(operation))
    return before, replace(loop, ops=tuple(inside)) if before else loop
