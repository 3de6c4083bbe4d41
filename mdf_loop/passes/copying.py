"""Operations once more, with values of their own.

    %y = Exp(%x); loop %i < %n ...   ->   %y_2 = Exp(%a); loop %i_2 < %n ...

Where `a` stands for `x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Guard, Operation, Value, bodies, results, with_bodies
from mdf_loop.ir.substitute import substitute


def copied(
    b: Builder, ops: Iterable[Operation], swaps: Mapping[Value, Value]
) -> tuple[list[Operation], dict[Value, Value]]:
    """Copies of operations, and what stands for each value in them.

    Args:
        b: gives the names; constants are the program's own.
        ops: what is copied.
        swaps: what stands for values from outside.
    """
    new = dict(swaps)
    return _copied(b, ops, new), new


def _copied(b: Builder, ops: Iterable[Operation], new: dict[Value, Value]) -> list[Operation]:
    made: list[Operation] = []
    for operation in ops:
        if isinstance(operation, Constant):
            new[operation.value] = b.constant(operation.array)
        else:
            made.append(_one(b, operation, new))
    return made


def _one(b: Builder, operation: Operation, new: dict[Value, Value]) -> Operation:
    inner = []
    for body in bodies(operation):
        new.update({value: _fresh(b, value) for value in body.inputs})
        inner.append(tuple(_copied(b, body.ops, new)))
    new.update({value: _fresh(b, value) for value in results(operation)})
    return substitute(with_bodies(operation, inner), new)


def _fresh(b: Builder, value: Value) -> Value:
    return replace(value, name=b.name(value.name))


def unguarded(ops: Iterable[Operation]) -> tuple[Operation, ...]:
    """Operations that have run once: what guards look at has held, so none is needed again."""
    passed: dict[Value, Value] = {}
    return _unguarded(ops, passed)


def _unguarded(ops: Iterable[Operation], passed: dict[Value, Value]) -> tuple[Operation, ...]:
    kept = []
    for operation in ops:
        if isinstance(operation, Guard):
            passed[operation.made] = passed.get(operation.value, operation.value)
            continue
        inner = [_unguarded(body.ops, passed) for body in bodies(operation)]
        kept.append(substitute(with_bodies(operation, inner), passed))
    return tuple(kept)
