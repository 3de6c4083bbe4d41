"""Reverse-mode derivative of a loop by one small Jacobian matrix for each iteration.

    for all iterations at once     J[i]: derivatives of the leaving numbers by the entering ones
                                   h[i]: cotangents of the entering numbers from recordings
    in a loop, last to first       adjoint = adjoint @ J[i] + h[i]
    for all iterations at once     cotangents of captured values, summed, and of scanned rows

The loop has five operations for every model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Recorded, Scanned, Value, is_fixed
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.registry import count_elements
from mdf_loop.passes.gradient.executed_loop import ExecutedLoop, executed_loop
from mdf_loop.passes.gradient.executed_rows import repeat_rows, reverse_rows
from mdf_loop.passes.gradient.reverse import Reverse
from mdf_loop.passes.gradient.split_backward import SplitBody, iteration_rows
from mdf_loop.passes.gradient.transpose_body import TransposedBody, transpose_body
from mdf_loop.passes.gradient.vectorize_iterations import vectorize_iterations

MAX_CARRIED_ELEMENTS = 32
"""Maximum number of carried elements for which a Jacobian matrix for each iteration is faster."""


def has_small_state(reverse: Reverse, loop: Loop) -> bool:
    """Return True if a loop carries only a few differentiable numbers, all of one dtype.

    The maximum is `MAX_CARRIED_ELEMENTS`.
    """
    active_values = [
        carried.body_input
        for carried in loop.carried
        if reverse.is_active_float(carried.body_input)
    ]
    if not all(is_fixed(value.shape) for value in active_values):
        return False
    return (
        0 < count_elements(active_values) <= MAX_CARRIED_ELEMENTS
        and len({value.dtype for value in active_values}) == 1
    )


def _extents(value: Value) -> tuple[int, ...]:
    return tuple(extent for extent in value.shape or () if isinstance(extent, int))


def _size(value: Value) -> int:
    return count_elements((value,))


def jacobian_backward(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> None:
    """Append a backward loop that multiplies an adjoint by each iteration's Jacobian.

    The Jacobians and all other values are computed for all iterations at once.

    Raises:
        UnsupportedError: An operation cannot be computed for all iterations at once.
    """
    forward_loop = executed_loop(reverse, outer_sweep, loop)
    jacobians = _append_jacobians(
        outer_sweep,
        forward_loop,
        transpose_body(reverse, outer_sweep, forward_loop.loop, recordings=()),
    )
    transposed_body = transpose_body(reverse, outer_sweep, forward_loop.loop)
    adjoint_offsets = None
    if transposed_body.row_cotangents:
        adjoint_offsets = _append_offsets(
            outer_sweep,
            forward_loop,
            transpose_body(reverse, outer_sweep, forward_loop.loop, carried_values=()),
            transposed_body.outgoing_cotangents,
        )
    adjoints = _append_recursion(
        outer_sweep, forward_loop, transposed_body, jacobians, adjoint_offsets
    )
    SplitBody(outer_sweep, forward_loop, transposed_body).add_cotangents(outer_sweep, adjoints)
    forward_loop.propagate_through_slices(reverse, outer_sweep)


def _append_jacobians(
    outer_sweep: Sweep, forward_loop: ExecutedLoop, body: TransposedBody
) -> Value:
    """Append a computation of each iteration's Jacobian (carried outputs by carried inputs)."""
    b, body_builder = outer_sweep.b, body.b
    outgoing_cotangents = list(body.outgoing_cotangents.values())
    total_element_count = count_elements(outgoing_cotangents)
    unit_cotangents = dict(
        zip(
            outgoing_cotangents,
            _unit_cotangents(b, outgoing_cotangents, total_element_count),
            strict=True,
        )
    )
    incoming_cotangents = [
        body.cotangent_of(carried.body_input) for carried in body.outgoing_cotangents
    ]
    nonzero_cotangents = [cotangent for cotangent in incoming_cotangents if cotangent is not None]
    stacked_builder = b.body()
    vectorized_values, stacked_values = vectorize_iterations(
        stacked_builder, body_builder.ops, nonzero_cotangents, unit_cotangents, b.name("unit")
    )
    jacobian_columns = []
    for outgoing_cotangent, incoming_cotangent in zip(
        outgoing_cotangents, incoming_cotangents, strict=True
    ):
        # The cotangent is linear in the unit cotangents, so a constant value is 0.
        if incoming_cotangent not in stacked_values:
            jacobian_columns.append(
                b.constant(
                    np.zeros(
                        (total_element_count, _size(outgoing_cotangent)), outgoing_cotangent.dtype
                    )
                )
            )
        else:
            assert incoming_cotangent is not None
            jacobian_shape = ints(b, total_element_count, _size(outgoing_cotangent))
            jacobian_columns.append(
                stacked_builder.op(
                    "Reshape", vectorized_values[incoming_cotangent], jacobian_shape, allowzero=1
                )
            )
    jacobian = stacked_builder.op("Concat", *jacobian_columns, axis=1)
    jacobians, varying_values = vectorize_iterations(
        b,
        stacked_builder.ops,
        (jacobian,),
        iteration_rows(outer_sweep, forward_loop, body),
        forward_loop.row_extent,
    )
    return (
        jacobians[jacobian]
        if jacobian in varying_values
        else repeat_rows(b, jacobians[jacobian], forward_loop.iteration_count)
    )


def _unit_cotangents(b: Builder, values: Sequence[Value], size: int) -> list[Value]:
    """Return the rows of an identity matrix, as stacked cotangents of several values."""
    unit_cotangents, column_offset = [], 0
    for value in values:
        identity_columns = np.eye(size, dtype=value.dtype)[
            :, column_offset : column_offset + _size(value)
        ]
        unit_cotangents.append(b.constant(identity_columns.reshape(size, *(value.shape or ()))))
        column_offset += _size(value)
    return unit_cotangents


def _append_offsets(
    outer_sweep: Sweep,
    forward_loop: ExecutedLoop,
    body: TransposedBody,
    active_carried: Iterable[Carried],
) -> Value:
    """Append a computation of the cotangents that carried inputs receive from recorded rows.

    These are the offsets h[i] that the backward loop adds to the adjoint in each iteration.
    """
    b = outer_sweep.b
    row_builder = b.body()
    row_builder.ops += body.ops
    flat_cotangents = []
    for carried in active_carried:
        incoming_cotangent = body.cotangent_of(carried.body_input) or zeros(b, carried.body_input)
        flat_cotangents.append(
            row_builder.op(
                "Reshape", incoming_cotangent, ints(b, _size(carried.body_input)), allowzero=1
            )
        )
    offset_row = row_builder.op("Concat", *flat_cotangents, axis=0)
    adjoint_offsets, varying_values = vectorize_iterations(
        b,
        row_builder.ops,
        (offset_row,),
        iteration_rows(outer_sweep, forward_loop, body),
        forward_loop.row_extent,
    )
    return (
        adjoint_offsets[offset_row]
        if offset_row in varying_values
        else repeat_rows(b, adjoint_offsets[offset_row], forward_loop.iteration_count)
    )


def _append_recursion(
    outer_sweep: Sweep,
    forward_loop: ExecutedLoop,
    body: TransposedBody,
    jacobians: Value,
    offsets: Value | None,
) -> Mapping[Value, Value]:
    """Append the backward loop over the Jacobians, and return the cotangents of carried values.

    The cotangents of carried values are called adjoints. The returned rows are in forward order.
    """
    b = outer_sweep.b
    outgoing_cotangents = list(body.outgoing_cotangents.items())
    cotangent_sizes = [_size(cotangent) for _, cotangent in outgoing_cotangents]
    total_element_count, dtype = sum(cotangent_sizes), jacobians.dtype
    final_adjoint = _concatenate(
        b,
        [
            outer_sweep.cotangents.get(carried.final) or zeros(b, carried.body_input)
            for carried, _ in outgoing_cotangents
        ],
    )
    body_builder = b.body()
    adjoint, jacobian = (
        b.new(dtype, (total_element_count,), "adjoint"),
        b.new(dtype, (total_element_count, total_element_count), "J"),
    )
    recursion_scans = [Scanned(jacobians, jacobian, 0, True)]
    next_adjoint = body_builder.op("MatMul", adjoint, jacobian)
    if offsets is not None:
        next_adjoint_offset = b.new(dtype, (total_element_count,), "h")
        recursion_scans.append(Scanned(offsets, next_adjoint_offset, 0, True))
        next_adjoint = body_builder.op("Add", next_adjoint, next_adjoint_offset)
    initial_adjoint = b.new(dtype, (total_element_count,), "first adjoint")
    stacked_adjoints = b.new(dtype, (forward_loop.row_extent, total_element_count), "adjoints")
    carried_adjoint = Carried(final_adjoint, adjoint, next_adjoint, initial_adjoint, "adjoint")
    forward_loop.append_backward(
        b,
        (carried_adjoint,),
        (Recorded(adjoint, stacked_adjoints),),
        body_builder.ops,
        recursion_scans,
    )
    initial_cotangents = _split_parts(b, initial_adjoint, cotangent_sizes, 0)
    for (carried, _), initial_cotangent in zip(
        outgoing_cotangents, initial_cotangents, strict=True
    ):
        carried_shape = ints(b, *_extents(carried.body_input))
        forward_loop.add_initial_cotangent(
            outer_sweep, carried, b.op("Reshape", initial_cotangent, carried_shape, allowzero=1)
        )
    adjoint_rows = _split_parts(b, reverse_rows(b, stacked_adjoints), cotangent_sizes, 1)
    return {
        cotangent: _reshape_rows(b, rows, cotangent)
        for (_, cotangent), rows in zip(outgoing_cotangents, adjoint_rows, strict=True)
    }


def _reshape_rows(b: Builder, rows: Value, cotangent: Value) -> Value:
    """Reshape flat rows `[n, size]` to rows with the shape of a cotangent, `[n, ...]`."""
    row_count = b.op("Shape", rows, start=0, end=1)
    stacked_shape = b.op("Concat", row_count, ints(b, *_extents(cotangent)), axis=0)
    return b.op("Reshape", rows, stacked_shape, allowzero=1)


def _concatenate(b: Builder, values: Sequence[Value]) -> Value:
    flat_values = (b.op("Reshape", value, ints(b, _size(value)), allowzero=1) for value in values)
    return b.op("Concat", *flat_values, axis=0)


def _split_parts(b: Builder, value: Value, sizes: Sequence[int], axis: int) -> Sequence[Value]:
    if len(sizes) == 1:
        return (value,)
    return b.multi("Split", value, ints(b, *sizes), output_count=len(sizes), axis=axis)
