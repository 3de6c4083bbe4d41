"""A choice whose truth is known is the side that is taken.

    if True giving %y                    %a = Exp(%x)
      %a = Exp(%x)                ->     ... %a where %y was read
      give %a
    else
      give %x

The condition that enters an iteration is true in a loop without a condition. Keeps: results bit for bit.
ONNX Runtime does the same, but loses what such a choice in a body gives, if
its shape is read, too (onnxruntime 1.32, its constant folding).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import Array, If, Loop, Operation, Program, Value, bodies, walk, with_bodies
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.registry import Known
from mdf_loop.passes.failing import constants_of


def fold_constant_branches(program: Program) -> Program:
    """The program without choices between what is taken and what is not."""
    known = _known_truths(program.ops)
    if not any(_is_known(operation, known) for operation in walk(program.ops)):
        return program
    swaps: dict[Value, Value] = {}
    ops = tuple(_taken(program.ops, known, swaps))
    return replace(program, ops=ops, outputs=substitute(program.outputs, swaps))


def _known_truths(ops: Iterable[Operation]) -> Known:
    """Return what tells constants, and the conditions that enter iterations of loops without one."""
    constants = constants_of(ops)
    loops = (operation for operation in walk(ops) if isinstance(operation, Loop))
    always = {loop.condition_in for loop in loops if loop.condition is None}

    def known(value: Value | None) -> Array | None:
        return np.array(True) if value in always else constants(value)

    return known


def _is_known(operation: Operation, known: Known) -> bool:
    return isinstance(operation, If) and known(operation.condition) is not None


def _taken(
    ops: Iterable[Operation], known: Known, swaps: dict[Value, Value]
) -> Iterator[Operation]:
    """The operations, with what stands for values that choices gave."""
    for operation in ops:
        if isinstance(operation, If) and (truth := known(operation.condition)) is not None:
            branch = operation.then if truth.item() else operation.otherwise
            yield from _taken(branch.ops, known, swaps)
            leaves = substitute(branch.leaves, swaps)
            swaps.update(zip(operation.outputs, leaves, strict=True))
            continue
        inner = [tuple(_taken(body.ops, known, swaps)) for body in bodies(operation)]
        yield substitute(with_bodies(operation, inner), swaps)
