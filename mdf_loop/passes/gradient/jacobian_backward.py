"""Backward form of a loop with a Jacobian matrix for each iteration, for loops that carry few numbers.

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
    """Return True if a loop carries at most `MAX_CARRIED_ELEMENTS` active numbers, all of one dtype."""
    active_values = [c.enter for c in loop.carried if reverse.is_active_float(c.enter)]
    if not all(is_fixed(value.shape) for value in active_values):
        return False
    return (
        0 < count_elements(active_values) <= MAX_CARRIED_ELEMENTS
        and len({value.dtype for value in active_values}) == 1
    )


def _extents(value: Value) -> tuple[int, ...]:
    return tuple(e for e in value.shape or () if isinstance(e, int))


def _size(value: Value) -> int:
    return count_elements((value,))


def jacobian_backward(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> None:
    """Append the backward form of a loop that multiplies an adjoint by one Jacobian per iteration.

    The Jacobians and all other values are computed for all iterations at once.

    Raises:
        UnsupportedError: An operation cannot be computed for all iterations at once.
    """
    executed = executed_loop(reverse, outer_sweep, loop)
    matrices = _append_jacobians(
        outer_sweep, executed, transpose_body(reverse, outer_sweep, executed.loop, rows=())
    )
    transposed_body = transpose_body(reverse, outer_sweep, executed.loop)
    offsets = None
    if transposed_body.rows:
        offsets = _append_offsets(
            outer_sweep,
            executed,
            transpose_body(reverse, outer_sweep, executed.loop, leaving=()),
            transposed_body.leaving,
        )
    adjoints = _append_recursion(outer_sweep, executed, transposed_body, matrices, offsets)
    SplitBody(outer_sweep, executed, transposed_body).add_cotangents(outer_sweep, adjoints)
    executed.propagate_through_cuts(reverse, outer_sweep)


def _append_jacobians(outer_sweep: Sweep, executed: ExecutedLoop, body: TransposedBody) -> Value:
    """Return the Jacobian `J[i]` of the leaving by the entering carried numbers of each iteration."""
    b, body_builder = outer_sweep.b, body.b
    leaving_cotangents = list(body.leaving.values())
    size = count_elements(leaving_cotangents)
    unit_cotangents = dict(
        zip(leaving_cotangents, _unit_cotangents(b, leaving_cotangents, size), strict=True)
    )
    cotangents = [body.cotangent_of(c.enter) for c in body.leaving]
    nonzero_cotangents = [value for value in cotangents if value is not None]
    stacked_builder = b.body()
    values_of_iterations, stacked = vectorize_iterations(
        stacked_builder, body_builder.ops, nonzero_cotangents, unit_cotangents, b.name("unit")
    )
    columns = []
    for leaving_cotangent, value in zip(leaving_cotangents, cotangents, strict=True):
        if value not in stacked:  # linear in the cotangents, so a constant value is 0
            columns.append(
                b.constant(np.zeros((size, _size(leaving_cotangent)), leaving_cotangent.dtype))
            )
        else:
            assert value is not None
            shape = ints(b, size, _size(leaving_cotangent))
            columns.append(
                stacked_builder.op("Reshape", values_of_iterations[value], shape, allowzero=1)
            )
    matrix = stacked_builder.op("Concat", *columns, axis=1)
    matrices, varying = vectorize_iterations(
        b,
        stacked_builder.ops,
        (matrix,),
        iteration_rows(outer_sweep, executed, body),
        executed.extent,
    )
    return (
        matrices[matrix] if matrix in varying else repeat_rows(b, matrices[matrix], executed.count)
    )


def _unit_cotangents(b: Builder, values: Sequence[Value], size: int) -> list[Value]:
    """Return the rows of an identity matrix as stacked cotangents of the values."""
    cotangents, offset = [], 0
    for change in values:
        columns = np.eye(size, dtype=change.dtype)[:, offset : offset + _size(change)]
        cotangents.append(b.constant(columns.reshape(size, *(change.shape or ()))))
        offset += _size(change)
    return cotangents


def _append_offsets(
    outer_sweep: Sweep, executed: ExecutedLoop, body: TransposedBody, changing: Iterable[Carried]
) -> Value:
    """Return `h[i]`: the part of the cotangents of entering carried numbers that recordings contribute."""
    b = outer_sweep.b
    row_builder = b.body()
    row_builder.ops += body.ops
    flat_cotangents = []
    for c in changing:
        value = body.cotangent_of(c.enter) or zeros(b, c.enter)
        flat_cotangents.append(
            row_builder.op("Reshape", value, ints(b, _size(c.enter)), allowzero=1)
        )
    offset_row = row_builder.op("Concat", *flat_cotangents, axis=0)
    offsets, varying = vectorize_iterations(
        b,
        row_builder.ops,
        (offset_row,),
        iteration_rows(outer_sweep, executed, body),
        executed.extent,
    )
    return (
        offsets[offset_row]
        if offset_row in varying
        else repeat_rows(b, offsets[offset_row], executed.count)
    )


def _append_recursion(
    outer_sweep: Sweep,
    executed: ExecutedLoop,
    body: TransposedBody,
    matrices: Value,
    offsets: Value | None,
) -> Mapping[Value, Value]:
    """Append the loop, and return the adjoints of all iterations in forward order."""
    b = outer_sweep.b
    leaving_cotangents = list(body.leaving.items())
    sizes = [_size(change) for _, change in leaving_cotangents]
    size, dtype = sum(sizes), matrices.dtype
    final_adjoint = _concatenate(
        b, [outer_sweep.cotangents.get(c.final) or zeros(b, c.enter) for c, _ in leaving_cotangents]
    )
    body_builder = b.body()
    adjoint, matrix = b.new(dtype, (size,), "adjoint"), b.new(dtype, (size, size), "J")
    scanned = [Scanned(matrices, matrix, 0, True)]
    next_adjoint = body_builder.op("MatMul", adjoint, matrix)
    if offsets is not None:
        row = b.new(dtype, (size,), "h")
        scanned.append(Scanned(offsets, row, 0, True))
        next_adjoint = body_builder.op("Add", next_adjoint, row)
    initial_adjoint = b.new(dtype, (size,), "first adjoint")
    stacked_adjoints = b.new(dtype, (executed.extent, size), "adjoints")
    carried = Carried(final_adjoint, adjoint, next_adjoint, initial_adjoint, "adjoint")
    executed.append_backward(
        b, (carried,), (Recorded(adjoint, stacked_adjoints),), body_builder.ops, scanned
    )
    initial_cotangents = _split_parts(b, initial_adjoint, sizes, 0)
    for (c, _), initial_cotangent in zip(leaving_cotangents, initial_cotangents, strict=True):
        carried_shape = ints(b, *_extents(c.enter))
        executed.add_initial_cotangent(
            outer_sweep, c, b.op("Reshape", initial_cotangent, carried_shape, allowzero=1)
        )
    rows = _split_parts(b, reverse_rows(b, stacked_adjoints), sizes, 1)
    return {
        change: _reshape_rows(b, initial_cotangent, change)
        for (_, change), initial_cotangent in zip(leaving_cotangents, rows, strict=True)
    }


def _reshape_rows(b: Builder, rows: Value, change: Value) -> Value:
    """Reshape the rows `[n, size]` to `[n, ...]` with the axes of `change`."""
    row_count = b.op("Shape", rows, start=0, end=1)
    shape = b.op("Concat", row_count, ints(b, *_extents(change)), axis=0)
    return b.op("Reshape", rows, shape, allowzero=1)


def _concatenate(b: Builder, parts: Sequence[Value]) -> Value:
    flat_parts = (b.op("Reshape", part, ints(b, _size(part)), allowzero=1) for part in parts)
    return b.op("Concat", *flat_parts, axis=0)


def _split_parts(b: Builder, value: Value, sizes: Sequence[int], axis: int) -> Sequence[Value]:
    if len(sizes) == 1:
        return (value,)
    return b.multi("Split", value, ints(b, *sizes), n_outputs=len(sizes), axis=axis)
