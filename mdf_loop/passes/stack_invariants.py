"""Repeat after a loop what every iteration would record alike.

    loop i < M: ...; record a giving rows   ->   loop i < M: ...; count giving n
    (a from outside)                             rows = Expand(a, [n, ...])

Keeps: results bit for bit. Only where the trip count says how many rows there are: then they cost
nothing in the loop. The count is read, not M, as a run may be stopped before its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Recorded,
    Value,
    bodies,
    body_inputs,
    results,
    with_bodies,
)


def stack_invariants(program: Program) -> Program:
    """The program with rows that do not change stacked after their loops."""
    b = Builder.resume(program)
    ops = _scope(b, program.ops)
    return program if ops == program.ops else replace(program, ops=ops)


def _scope(b: Builder, ops: Iterable[Operation]) -> tuple[Operation, ...]:
    for operation in ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
            continue
        inner = [_scope(b.body(), body.ops) for body in bodies(operation)]
        operation = with_bodies(operation, inner)
        alike = _invariant(operation) if isinstance(operation, Loop) else ()
        if isinstance(operation, Loop) and alike:
            kept = tuple(r for r in operation.recorded if r not in alike)
            count = operation.count or b.new("int64", (), f"{operation.name}:iterations")
            b.append(replace(operation, recorded=kept, count=count))
            for recorded in alike:
                _repeat(b, count, recorded, operation.where)
        else:
            b.ops.append(operation)
    return tuple(b.ops)


def _invariant(loop: Loop) -> tuple[Recorded, ...]:
    """The records of rows that come from outside and whose number is the trip count."""
    if loop.kind != "for":
        return ()
    inside = {value for operation in loop.ops for value in results(operation)}
    inside.update(body_inputs(loop))
    return tuple(r for r in loop.recorded if r.row not in inside and _is_known(r.row))


def _is_known(row: Value) -> bool:
    fixed = row.shape is not None and all(isinstance(extent, int) for extent in row.shape)
    return fixed and row.dtype in ("float64", "float32", "int64", "int32", "bool")


def _repeat(b: Builder, count: Value, recorded: Recorded, where: str) -> None:
    """Append what gives the stack."""
    with b.at(where, recorded.stack.name):
        shape = b.op("Reshape", count, b.constant(np.array([1])))
        if recorded.row.shape:
            extents = b.constant(np.array(recorded.row.shape, np.int64))
            shape = b.op("Concat", shape, extents, axis=0)
    b.ops.append(Op("Expand", (recorded.row, shape), (recorded.stack,), where=where))
