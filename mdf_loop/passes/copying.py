"""Copying of operations under fresh value names.

    %y = Exp(%x); loop %i < %n ...   ->   %y_2 = Exp(%a); loop %i_2 < %n ...

In this example, `swaps` replaces `x` by `a`.
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
    """Return copies of operations, and a mapping from each value to its copy.

    Args:
        b: The builder that generates the names. Copied constants become constants of this builder.
        ops: The operations to copy.
        swaps: Replacements of values that the operations read from outside.
        extents: Replacements of extent names.
    """
    copies = _Copies(b, dict(swaps), extents)
    return copies.copy_all(ops), copies.new


class _Copies(Struct, frozen=True):
    b: Builder
    new: dict[Value, Value]
    extents: Mapping[str, str]

    def copy_all(self, ops: Iterable[Operation]) -> list[Operation]:
        copies: list[Operation] = []
        for operation in ops:
            if isinstance(operation, Constant):
                self.new[operation.value] = self.b.constant(operation.array)
            else:
                copies.append(self._copy_one(operation))
        return copies

    def _copy_one(self, operation: Operation) -> Operation:
        inner = []
        for body in bodies(operation):
            self.new.update({value: self._fresh_value(value) for value in body.inputs})
            inner.append(tuple(self.copy_all(body.ops)))
        self.new.update({value: self._fresh_value(value) for value in results(operation)})
        return substitute(with_bodies(operation, inner), self.new)

    def _fresh_value(self, value: Value) -> Value:
        shape = value.shape and tuple(self.extents.get(str(e), e) for e in value.shape)
        return replace(value, name=self.b.name(value.name), shape=shape)


def without_guards(
    ops: Iterable[Operation],
) -> tuple[tuple[Operation, ...], dict[Value, Value]]:
    """Return operations without guards, and a mapping from each guarded value to the unguarded value.

    The operations are a second copy, and the first copy has checked the conditions of all guards already.
    """
    passed: dict[Value, Value] = {}
    return _remove_guards(ops, passed), passed


def _remove_guards(ops: Iterable[Operation], passed: dict[Value, Value]) -> tuple[Operation, ...]:
    unguarded = []
    for operation in ops:
        if isinstance(operation, Guard):
            passed[operation.output] = passed.get(operation.value, operation.value)
            continue
        inner = [_remove_guards(body.ops, passed) for body in bodies(operation)]
        unguarded.append(substitute(with_bodies(operation, inner), passed))
    return tuple(unguarded)
