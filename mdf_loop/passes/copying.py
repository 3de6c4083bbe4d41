"""Operations once more, with values of their own.

    %y = Exp(%x); loop %i < %n ...   ->   %y_2 = Exp(%a); loop %i_2 < %n ...

Where `a` stands for `x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Guard, Operation, Value, bodies, results, with_bodies
from mdf_loop.ir.substitute import substitute


def copy_operations(
    b: Builder,
    ops: Iterable[Operation],
    swaps: Mapping[Value, Value],
    extents: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[Operation], dict[Value, Value]]:
    """Copies of operations, and what stands for each value in them.

    Args:
        b: gives the names; constants are the program's own.
        ops: what is copied.
        swaps: what stands for values from outside.
        extents: what stands for names of extents.
    """
    copies = _Copies(b, dict(swaps), extents)
    return copies.of(ops), copies.new


class _Copies(Struct, frozen=True):
    b: Builder
    new: dict[Value, Value]
    extents: Mapping[str, str]

    def of(self, ops: Iterable[Operation]) -> list[Operation]:
        made: list[Operation] = []
        for operation in ops:
            if isinstance(operation, Constant):
                self.new[operation.value] = self.b.constant(operation.array)
            else:
                made.append(self._one(operation))
        return made

    def _one(self, operation: Operation) -> Operation:
        inner = []
        for body in bodies(operation):
            self.new.update({value: self._fresh(value) for value in body.inputs})
            inner.append(tuple(self.of(body.ops)))
        self.new.update({value: self._fresh(value) for value in results(operation)})
        return substitute(with_bodies(operation, inner), self.new)

    def _fresh(self, value: Value) -> Value:
        shape = value.shape and tuple(self.extents.get(str(e), e) for e in value.shape)
        return replace(value, name=self.b.name(value.name), shape=shape)


def without_guards(
    ops: Iterable[Operation],
) -> tuple[tuple[Operation, ...], dict[Value, Value]]:
    """Operations that have run once, and what guarded values stand for.

    What guards look at has held, so none is needed again.
    """
    passed: dict[Value, Value] = {}
    return _unguarded(ops, passed), passed


def _unguarded(ops: Iterable[Operation], passed: dict[Value, Value]) -> tuple[Operation, ...]:
    kept = []
    for operation in ops:
        if isinstance(operation, Guard):
            passed[operation.output] = passed.get(operation.value, operation.value)
            continue
        inner = [_unguarded(body.ops, passed) for body in bodies(operation)]
        kept.append(substitute(with_bodies(operation, inner), passed))
    return tuple(kept)
