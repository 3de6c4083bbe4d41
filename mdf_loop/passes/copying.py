"""Copying of operations, with fresh names for their results.

    %y = Exp(%x); loop %i < %n ...   ->   %y_2 = Exp(%a); loop %i_2 < %n ...

In this example, `substitutions` replaces `x` by `a`.
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
    substitutions: Mapping[Value, Value],
    new_extent_names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[Operation], dict[Value, Value]]:
    """Return copies of operations, and a mapping from each copied value to its copy.

    Args:
        b: The builder that generates the names. Copied constants become constants of this builder.
        ops: The operations to copy.
        substitutions: Replacements of values that the operations read from outside.
        new_extent_names: Replacements of extent names.
    """
    operation_copier = _OperationCopier(b, dict(substitutions), new_extent_names)
    return operation_copier.copy_all(ops), operation_copier.replacements


class _OperationCopier(Struct, frozen=True):
    b: Builder
    replacements: dict[Value, Value]
    new_extent_names: Mapping[str, str]

    def copy_all(self, ops: Iterable[Operation]) -> list[Operation]:
        copied_ops: list[Operation] = []
        for operation in ops:
            if isinstance(operation, Constant):
                self.replacements[operation.value] = self.b.constant(operation.array)
            else:
                copied_ops.append(self._copy_operation(operation))
        return copied_ops

    def _copy_operation(self, operation: Operation) -> Operation:
        body_copies = []
        for body in bodies(operation):
            self.replacements.update({value: self._fresh_value(value) for value in body.inputs})
            body_copies.append(tuple(self.copy_all(body.ops)))
        self.replacements.update({value: self._fresh_value(value) for value in results(operation)})
        return substitute(with_bodies(operation, body_copies), self.replacements)

    def _fresh_value(self, value: Value) -> Value:
        renamed_shape = value.shape and tuple(
            self.new_extent_names.get(str(extent), extent) for extent in value.shape
        )
        return replace(value, name=self.b.name(value.name), shape=renamed_shape)


def without_guards(
    ops: Iterable[Operation],
) -> tuple[tuple[Operation, ...], dict[Value, Value]]:
    """Return operations without run-time assertions (guards).

    Return the other operations, and a mapping from each guarded value to the unguarded value.

    The operations are a second copy, and the first copy has checked the conditions of all guards already.
    """
    guarded_values: dict[Value, Value] = {}
    return _remove_guards(ops, guarded_values), guarded_values


def _remove_guards(
    ops: Iterable[Operation], guarded_values: dict[Value, Value]
) -> tuple[Operation, ...]:
    unguarded_ops = []
    for operation in ops:
        if isinstance(operation, Guard):
            guarded_values[operation.output] = guarded_values.get(operation.value, operation.value)
            continue
        unguarded_bodies = [_remove_guards(body.ops, guarded_values) for body in bodies(operation)]
        unguarded_ops.append(substitute(with_bodies(operation, unguarded_bodies), guarded_values))
    return tuple(unguarded_ops)
