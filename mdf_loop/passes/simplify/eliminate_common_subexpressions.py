"""Compute once what is computed twice alike, in one scope or in a body inside of it.

    a = v / s; b = k - a; c = v / s; d = m * c   ->   a = v / s; b = k - a; d = m * a

Keeps: results bit for bit, errors with the place of the first. Random operations are never
merged: each draws numbers of its own.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, MutableMapping
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from mdf_loop.bits import bits
from mdf_loop.ir import Guard, Op, Operation, Program, Value, bodies, with_bodies
from mdf_loop.ir.substitute import substitute

_Made: TypeAlias = MutableMapping[Hashable, tuple[Value, ...]]


def eliminate_common_subexpressions(program: Program) -> Program:
    """The program with equal operations merged into the first of them."""
    swaps: dict[Value, Value] = {}
    ops = _merged(program.ops, ChainMap(), swaps)
    if ops == program.ops:
        return program
    outputs = substitute(program.outputs, swaps)
    return replace(program, ops=ops, outputs=outputs)


def _merged(
    ops: tuple[Operation, ...],
    made: ChainMap[Hashable, tuple[Value, ...]],
    swaps: dict[Value, Value],
) -> tuple[Operation, ...]:
    out: list[Operation] = []
    for operation in ops:
        if isinstance(operation, Op):
            operation = substitute(operation, swaps)
            if _is_repeated(operation, made, swaps):
                continue
        elif isinstance(operation, Guard):
            operation = substitute(operation, swaps)
            before = made.setdefault((operation.value, operation.ok), (operation.output,))
            if before != (operation.output,):
                swaps[operation.output] = before[0]
                continue
        inner = [_merged(body.ops, made.new_child(), swaps) for body in bodies(operation)]
        out.append(substitute(with_bodies(operation, inner), swaps) if inner else operation)
    return tuple(out)


def _is_repeated(op: Op, made: _Made, swaps: dict[Value, Value]) -> bool:
    """Whether an operation in scope gives the same; what reads this one is to read that."""
    before = made.setdefault(_key(op), op.outputs)
    if before is op.outputs:
        return False
    swaps.update(zip(op.outputs, before, strict=True))
    return True


def _key(op: Op) -> Hashable:
    """What makes two operations equal; unknown extents have names of their own, which count."""
    attributes = tuple((name, _plain(value)) for name, value in sorted(op.attributes.items()))
    types = tuple((output.dtype, output.shape) for output in op.outputs)
    return op.op_type, op.inputs, attributes, types


def _plain(value: object) -> Hashable:
    """An attribute as a key: 1 is not True, 0.0 is not -0.0."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, bits(value)
    return type(value).__name__, repr(value)
