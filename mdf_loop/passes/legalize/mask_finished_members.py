"""A loop whose members stop each for itself, as one that goes on while any of them goes.

    loop %i while %go for each batch                  %any = ReduceSum(%go)
      carry %x: float64[batch] from %a to %b          loop %i while %any
      continue if %c                           ->       carry %going: bool[batch] from %go to %still
                                                        carry %x: float64[batch] from %a to %kept
                                                        %kept = Where(%going, %b, %x)
                                                        %still = And(%going, %c)
                                                        continue if ReduceSum(%still)

Where the body may fail, or may never end, members that have stopped are given what the first one is
given that goes on. Keeps: results bit for bit.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Carried,
    Loop,
    Operation,
    Program,
    Value,
    captures,
    walk,
)
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.registry import Known
from mdf_loop.ops.words import cast, scalar
from mdf_loop.passes.failing import constants_of, first_that_may_fail
from mdf_loop.passes.rewrite import rewrite_loops

SELECT_DTYPES = ("float64", "float32", "int64", "int32", "uint8", "string")
"""Dtypes of which the runtime has a choice by truths."""

_WIDE = {"i": "int64", "u": "int64", "f": "float32"}
"""What others are chosen in, without loss: of uint64 int64 has the same bits."""


def mask_finished_members(program: Program) -> Program:
    """The program without loops whose members stop each for itself."""
    if not any(isinstance(op, Loop) and op.members is not None for op in walk(program.ops)):
        return program
    known = constants_of(program.ops)
    return rewrite_loops(
        program, lambda b, loop: loop if loop.members is None else mask_loop(b, loop, known)
    )


def mask_loop(b: Builder, loop: Loop, known: Known) -> Loop:
    """The loop as a plain one; what it begins with is appended to `b`."""
    assert loop.condition is not None
    assert loop.condition_out is not None
    inside = b.body()
    with b.at(loop.where, loop.name), inside.at(loop.where, loop.name):
        going = loop.condition_in
        still = inside.op("And", going, loop.condition_out)
        carried = [_kept(inside, each, going) for each in loop.carried]
        carried.append(Carried(loop.condition, going, still, _made(b, loop.last_condition, going)))
        goes_on = _any(inside, still)
        if loop.count is not None:
            carried.append(_counted(b, inside, loop.condition, going, loop.count))
        ops = _fed(b, loop) if _may_fail(loop, known) else loop.ops
        return replace(
            loop,
            condition=_any(b, loop.condition),
            condition_in=b.new("bool", (), "any going"),
            condition_out=goes_on,
            carried=tuple(carried),
            ops=(*ops, *inside.ops),
            count=None,
            last_condition=None,
            members=None,
        )


def _any(b: Builder, truths: Value) -> Value:
    """Whether one of some truths holds; of none, none does (their largest would be one)."""
    return cast(b, b.op("ReduceSum", cast(b, truths, "int32"), keepdims=0), "bool")


def _made(b: Builder, value: Value | None, like: Value) -> Value:
    return b.new(like.dtype, like.shape, f"{like.name}_end") if value is None else value


def _counted(b: Builder, inside: Builder, goes: Value, going: Value, count: Value) -> Carried:
    """The iterations of each member."""
    zeros = b.op("Mul", cast(b, goes, "int64"), scalar(b, 0, "int64"))
    enter = inside.new("int64", count.shape, "iterations")
    return Carried(zeros, enter, inside.op("Add", enter, cast(inside, going, "int64")), count)


def _kept(b: Builder, carried: Carried, going: Value) -> Carried:
    """A carried value, which stays what it was in members that have stopped."""
    leave = carried.leave
    return replace(carried, leave=_chosen(b, going, leave, carried.enter, 0))


def _chosen(b: Builder, going: Value, then: Value, otherwise: Value, axis: int) -> Value:
    """Of members that go the one, of others the other, which have their axis there."""
    rank = len(otherwise.shape or ())
    axes = [k for k in range(rank) if k != axis]
    mask = b.op("Unsqueeze", going, b.constant(np.array(axes, np.int64))) if axes else going
    dtype = otherwise.dtype
    if dtype == "bool":
        kept = b.op("And", b.op("Not", mask), otherwise)
        return b.op("Or", b.op("And", mask, then), kept)
    wide = dtype if dtype in SELECT_DTYPES else _WIDE.get(kind_of(dtype), dtype)
    made = b.op("Where", mask, cast(b, then, wide), cast(b, otherwise, wide))
    return cast(b, made, dtype)


# --- bodies that may fail -------------------------------------------------------------------------


def _may_fail(loop: Loop, known: Known) -> bool:
    has_loops = any(isinstance(each, Loop) for each in walk(loop.ops))
    return has_loops or first_that_may_fail(loop.ops, known) is not None


def _fed(b: Builder, loop: Loop) -> tuple[Operation, ...]:
    """The operations of the body, which are given nothing of members that have stopped."""
    feeding, going = b.body(), loop.condition_in
    first = feeding.op("ArgMax", cast(feeding, going, "int32"), axis=0, keepdims=1)
    fed: dict[Value, Value] = {}
    for value in (
        *captures(loop),
        *(c.enter for c in loop.carried),
        *(s.row for s in loop.scanned),
    ):
        if loop.members in (value.shape or ()):
            axis = (value.shape or ()).index(loop.members)
            one = feeding.op("Gather", value, first, axis=axis)
            fed[value] = _chosen(feeding, going, value, one, axis)
    return (*feeding.ops, *(substitute(operation, fed) for operation in loop.ops))
