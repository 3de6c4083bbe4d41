"""Masks for finished members of a batched loop, which runs until the last member finishes.

    loop %i while %go for each batch                  %any = ReduceSum(%go)
      carry %x: float64[batch] from %a to %b          loop %i while %any
      continue if %c                           ->       carry %going: bool[batch] from %go to %still
                                                        carry %x: float64[batch] from %a to %kept
                                                        %kept = Where(%going, %b, %x)
                                                        %still = And(%going, %c)
                                                        continue if ReduceSum(%still)

The new loop runs while any member is active. If the body may fail or may not terminate, finished members
compute with the values of the first active member. Preserves: results bit for bit.
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
from mdf_loop.ops.build_helpers import cast, scalar
from mdf_loop.ops.registry import KnownArrays
from mdf_loop.passes.failing import constant_lookup, first_that_may_fail
from mdf_loop.passes.rewrite import rewrite_loops

SELECT_DTYPES = ("float64", "float32", "int64", "int32", "uint8", "string")
"""Dtypes for which ONNX Runtime has a `Where` kernel."""

_WIDE_DTYPES = {"i": "int64", "u": "int64", "f": "float32"}
"""Dtype in which values of another kind of dtype are selected without loss: int64 has the bits of uint64."""


def mask_finished_members(program: Program) -> Program:
    """Replace per-member exits of batched loops by a common condition and masks."""
    if not any(isinstance(op, Loop) and op.member_axis is not None for op in walk(program.ops)):
        return program
    find_constant = constant_lookup(program.ops)
    return rewrite_loops(
        program,
        lambda b, loop: loop if loop.member_axis is None else mask_loop(b, loop, find_constant),
    )


def mask_loop(b: Builder, loop: Loop, find_constant: KnownArrays) -> Loop:
    """Replace the per-member exits of a batched loop by a common condition and masks.

    Append the operations before the loop to `b`, and return the loop.
    """
    assert loop.condition is not None
    assert loop.condition_out is not None
    body_builder = b.body()
    with b.at(loop.where, loop.name), body_builder.at(loop.where, loop.name):
        is_active = loop.condition_in
        is_still_active = body_builder.op("And", is_active, loop.condition_out)
        carried_values = [
            _mask_carried(body_builder, carried, is_active) for carried in loop.carried
        ]
        carried_values.append(
            Carried(
                loop.condition,
                is_active,
                is_still_active,
                _value_or_new(b, loop.last_condition, is_active),
            )
        )
        is_any_active = _append_any_true(body_builder, is_still_active)
        if loop.iteration_count is not None:
            carried_values.append(
                _carry_counts(b, body_builder, loop.condition, is_active, loop.iteration_count)
            )
        body_ops = (
            _feed_active_members(b, loop) if _may_body_fail(loop, find_constant) else loop.ops
        )
        return replace(
            loop,
            condition=_append_any_true(b, loop.condition),
            condition_in=b.new("bool", (), "any going"),
            condition_out=is_any_active,
            carried=tuple(carried_values),
            ops=(*body_ops, *body_builder.ops),
            iteration_count=None,
            last_condition=None,
            member_axis=None,
        )


def _append_any_true(b: Builder, truths: Value) -> Value:
    """Append a scalar that is true if any element of a boolean array is true.

    Without members, the sum is 0, while the maximum would be 1.
    """
    return cast(b, b.op("ReduceSum", cast(b, truths, "int32"), keepdims=0), "bool")


def _value_or_new(b: Builder, final: Value | None, like: Value) -> Value:
    """Return `final`, or a new value with the dtype and shape of `like` if `final` is None."""
    return b.new(like.dtype, like.shape, f"{like.name}_end") if final is None else final


def _carry_counts(
    b: Builder, body_builder: Builder, initial_condition: Value, is_active: Value, count: Value
) -> Carried:
    """Return a carried value that counts the iterations of each batch member."""
    zero_counts = b.op("Mul", cast(b, initial_condition, "int64"), scalar(b, 0, "int64"))
    iteration_counts = body_builder.new("int64", count.shape, "iterations")
    return Carried(
        zero_counts,
        iteration_counts,
        body_builder.op("Add", iteration_counts, cast(body_builder, is_active, "int64")),
        count,
    )


def _mask_carried(b: Builder, carried: Carried, is_active: Value) -> Carried:
    """Return a carried value whose elements stay constant for finished batch members."""
    outgoing_value = carried.body_output
    return replace(
        carried, body_output=_select_active(b, is_active, outgoing_value, carried.body_input, 0)
    )


def _select_active(
    b: Builder, is_active: Value, then: Value, otherwise: Value, member_axis: int
) -> Value:
    """Select `then` for active batch members, and `otherwise` for finished ones.

    `member_axis` is the axis of the members.
    """
    value_rank = len(otherwise.shape or ())
    broadcast_axes = [k for k in range(value_rank) if k != member_axis]
    active_mask = (
        b.op("Unsqueeze", is_active, b.constant(np.array(broadcast_axes, np.int64)))
        if broadcast_axes
        else is_active
    )
    dtype = otherwise.dtype
    if dtype == "bool":
        finished_values = b.op("And", b.op("Not", active_mask), otherwise)
        return b.op("Or", b.op("And", active_mask, then), finished_values)
    wide_dtype = dtype if dtype in SELECT_DTYPES else _WIDE_DTYPES.get(kind_of(dtype), dtype)
    selected_values = b.op(
        "Where", active_mask, cast(b, then, wide_dtype), cast(b, otherwise, wide_dtype)
    )
    return cast(b, selected_values, dtype)


# --- bodies that may fail -------------------------------------------------------------------------


def _may_body_fail(loop: Loop, find_constant: KnownArrays) -> bool:
    has_loops = any(isinstance(operation, Loop) for operation in walk(loop.ops))
    return has_loops or first_that_may_fail(loop.ops, find_constant) is not None


def _feed_active_members(b: Builder, loop: Loop) -> tuple[Operation, ...]:
    """Return a loop body in which finished members repeat the first active member's inputs.

    Finished members then cannot fail.
    """
    selection_builder, is_active = b.body(), loop.condition_in
    first_active_member = selection_builder.op(
        "ArgMax", cast(selection_builder, is_active, "int32"), axis=0, keepdims=1
    )
    replacements: dict[Value, Value] = {}
    for value in (
        *captures(loop),
        *(carried.body_input for carried in loop.carried),
        *(scanned.row for scanned in loop.scanned),
    ):
        if loop.member_axis in (value.shape or ()):
            member_axis = (value.shape or ()).index(loop.member_axis)
            active_member_value = selection_builder.op(
                "Gather", value, first_active_member, axis=member_axis
            )
            replacements[value] = _select_active(
                selection_builder, is_active, value, active_member_value, member_axis
            )
    return (
        *selection_builder.ops,
        *(substitute(operation, replacements) for operation in loop.ops),
    )
