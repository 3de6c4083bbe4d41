"""Common subexpression elimination: compute equal operations once, also in nested bodies.

    a = v / s; b = k - a; c = v / s; d = m * c   ->   a = v / s; b = k - a; d = m * a

Preserves: results bit for bit, and errors with the place of the first operation. Random operations are
never merged, because each operation draws different numbers.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, MutableMapping
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from mdf_loop.array_digest import array_digest
from mdf_loop.ir import Guard, Op, Operation, Program, Value, bodies, with_bodies
from mdf_loop.ir.substitute import substitute

_ResultsByKey: TypeAlias = MutableMapping[Hashable, tuple[Value, ...]]


def eliminate_common_subexpressions(program: Program) -> Program:
    """Replace each repeated operation of a program by the results of its first occurrence."""
    substitutions: dict[Value, Value] = {}
    remaining_ops = _merge_scope(program.ops, ChainMap(), substitutions)
    if remaining_ops == program.ops:
        return program
    rewritten_outputs = substitute(program.outputs, substitutions)
    return replace(program, ops=remaining_ops, outputs=rewritten_outputs)


def _merge_scope(
    ops: tuple[Operation, ...],
    results_by_key: ChainMap[Hashable, tuple[Value, ...]],
    substitutions: dict[Value, Value],
) -> tuple[Operation, ...]:
    new_ops: list[Operation] = []
    for operation in ops:
        if isinstance(operation, Op):
            operation = substitute(operation, substitutions)
            if _merge_if_repeated(operation, results_by_key, substitutions):
                continue
        elif isinstance(operation, Guard):
            operation = substitute(operation, substitutions)
            earlier_results = results_by_key.setdefault(
                (operation.value, operation.condition), (operation.output,)
            )
            if earlier_results != (operation.output,):
                substitutions[operation.output] = earlier_results[0]
                continue
        inner_ops = [
            _merge_scope(body.ops, results_by_key.new_child(), substitutions)
            for body in bodies(operation)
        ]
        new_ops.append(
            substitute(with_bodies(operation, inner_ops), substitutions) if inner_ops else operation
        )
    return tuple(new_ops)


def _merge_if_repeated(
    op: Op, results_by_key: _ResultsByKey, substitutions: dict[Value, Value]
) -> bool:
    """Replace the results of a repeated operation, and return True if one was found."""
    earlier_results = results_by_key.setdefault(_operation_key(op), op.outputs)
    if earlier_results is op.outputs:
        return False
    substitutions.update(zip(op.outputs, earlier_results, strict=True))
    return True


def _operation_key(op: Op) -> Hashable:
    """Return a hashable key that is the same for equal operations."""
    attribute_keys = tuple(
        (name, _attribute_key(value)) for name, value in sorted(op.attributes.items())
    )
    output_types = tuple((output.dtype, output.shape) for output in op.outputs)
    return op.op_type, op.inputs, attribute_keys, output_types


def _attribute_key(value: object) -> Hashable:
    """Return a hashable key of an operation's attribute, which distinguishes 1, True and 1.0."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, array_digest(value)
    return type(value).__name__, repr(value)
