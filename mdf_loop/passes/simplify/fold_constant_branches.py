"""Constant folding of conditionals: replacement of an `If` by its selected branch.

    if True giving %y                    %a = Exp(%x)
      %a = Exp(%x)                ->     ... %a where %y was read
      give %a
    else
      give %x

The condition that enters an iteration is true in a loop without a condition. Preserves: results bit for bit.
ONNX Runtime also folds such choices. But for a choice in a body, it loses the result if another operation
reads the shape of the result (onnxruntime 1.32, constant folding).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import Array, If, Loop, Operation, Program, Value, bodies, walk, with_bodies
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.registry import KnownArrays
from mdf_loop.passes.failing import constant_lookup


def fold_constant_branches(program: Program) -> Program:
    """Replace each `If` with a constant condition by the selected branch."""
    find_constant_condition = _constant_conditions(program.ops)
    if not any(_is_known(operation, find_constant_condition) for operation in walk(program.ops)):
        return program
    substitutions: dict[Value, Value] = {}
    folded_ops = tuple(_fold_scope(program.ops, find_constant_condition, substitutions))
    return replace(program, ops=folded_ops, outputs=substitute(program.outputs, substitutions))


def _constant_conditions(ops: Iterable[Operation]) -> KnownArrays:
    """Return a function that maps a condition to its constant array, or to None.

    The incoming condition of a loop without a condition is constant, too.
    """
    find_constant = constant_lookup(ops)
    loops = (operation for operation in walk(ops) if isinstance(operation, Loop))
    true_conditions = {loop.condition_in for loop in loops if loop.condition is None}

    def find_condition(value: Value | None) -> Array | None:
        return np.array(True) if value in true_conditions else find_constant(value)

    return find_condition


def _is_known(operation: Operation, find_constant_condition: KnownArrays) -> bool:
    return isinstance(operation, If) and find_constant_condition(operation.condition) is not None


def _fold_scope(
    ops: Iterable[Operation],
    find_constant_condition: KnownArrays,
    substitutions: dict[Value, Value],
) -> Iterator[Operation]:
    """Yield operations in which an `If` of constant condition is replaced by its branch.

    `substitutions` then maps the outputs of the choices to outputs of branches.
    """
    for operation in ops:
        if (
            isinstance(operation, If)
            and (constant_condition := find_constant_condition(operation.condition)) is not None
        ):
            selected_branch = operation.then if constant_condition.item() else operation.otherwise
            yield from _fold_scope(selected_branch.ops, find_constant_condition, substitutions)
            branch_outputs = substitute(selected_branch.outputs, substitutions)
            substitutions.update(zip(operation.outputs, branch_outputs, strict=True))
            continue
        inner_ops = [
            tuple(_fold_scope(body.ops, find_constant_condition, substitutions))
            for body in bodies(operation)
        ]
        yield substitute(with_bodies(operation, inner_ops), substitutions)
