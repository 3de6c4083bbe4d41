"""A loop whose members stop each for itself, as lanes compute it: each member has an iteration of its own.

%i: int64[]          ->   %i: int64[batch]
%y: int64[] = Add(%i, 1)  %y: int64[batch] = Add(%i, 1)
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mdf_loop.ir import Array, Constant, Loop, Op, Value, operands
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.native.code import NotNative, is_single
from mdf_loop.passes.failing import first_that_may_fail, name_of


def of_members(loop: Loop, known: Mapping[Value, Array]) -> Loop:
    """The loop, with the types that its values have in lanes.

    Raises:
        NotNative: it is none that lanes can compute; the text says why.
    """
    _refuse(loop, known)
    assert loop.members is not None
    swaps = {loop.iteration: replace(loop.iteration, shape=(loop.members,))}
    ops = []
    for operation in loop.ops:
        if isinstance(operation, Op) and any(value in swaps for value in operands(operation)):
            made = (value for value in operation.outputs if is_single(value))
            swaps.update((value, replace(value, shape=(loop.members,))) for value in made)
        ops.append(substitute(operation, swaps))
    return substitute(replace(loop, ops=tuple(ops)), swaps)


def _refuse(loop: Loop, known: Mapping[Value, Array]) -> None:
    if loop.recorded:
        raise NotNative("each member has a number of rows of its own")
    if loop.scanned:
        raise NotNative("each member scans rows by itself")
    for operation in loop.ops:
        if not isinstance(operation, Op | Constant):
            raise NotNative(f"members stop each for itself, and {name_of(operation)} is in it")
    failing = first_that_may_fail(loop.ops, lambda value: known.get(value) if value else None)
    if failing is not None:
        raise NotNative(f"members stop each for itself, and {name_of(failing)} may fail")
