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
    active = [c.enter for c in loop.carried if reverse.changes(c.enter)]
    if not all(is_fixed(value.shape) for value in active):
        return False
    return (
        0 < count_elements(active) <= MAX_CARRIED_ELEMENTS
        and len({value.dtype for value in active}) == 1
    )


def _extents(value: Value) -> tuple[int, ...]:
    return tuple(e for e in value.shape or () if isinstance(e, int))


def _size(value: Value) -> int:
    return count_elements((value,))


def jacobian_backward(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Append the backward form of a loop that multiplies an adjoint by one Jacobian per iteration.

    The Jacobians and all other values are computed for all iterations at once.

    Raises:
        UnsupportedError: An operation cannot be computed for all iterations at once.
    """
    executed = executed_loop(reverse, outside, loop)
    matrices = _append_jacobians(
        outside, executed, transpose_body(reverse, outside, executed.loop, rows=())
    )
    whole = transpose_body(reverse, outside, executed.loop)
    offsets = None
    if whole.rows:
        offsets = _append_offsets(
            outside,
            executed,
            transpose_body(reverse, outside, executed.loop, leaving=()),
            whole.leaving,
        )
    adjoints = _append_recursion(outside, executed, whole, matrices, offsets)
    SplitBody(outside, executed, whole).add_cotangents(outside, adjoints)
    executed.back_through_cuts(reverse, outside)


def _append_jacobians(outside: Sweep, executed: ExecutedLoop, body: TransposedBody) -> Value:
    """Return the Jacobian `J[i]` of the leaving by the entering carried numbers of each iteration."""
    b, inside = outside.b, body.b
    changes = list(body.leaving.values())
    size = count_elements(changes)
    units = dict(zip(changes, _unit_cotangents(b, changes, size), strict=True))
    cotangents = [body.of(c.enter) for c in body.leaving]
    nonzero_cotangents = [value for value in cotangents if value is not None]
    rows = b.body()
    computed, stacked = vectorize_iterations(
        rows, inside.ops, nonzero_cotangents, units, b.name("unit")
    )
    columns = []
    for change, value in zip(changes, cotangents, strict=True):
        if value not in stacked:  # linear in the cotangents, so a constant value is 0
            columns.append(b.constant(np.zeros((size, _size(change)), change.dtype)))
        else:
            assert value is not None
            shape = ints(b, size, _size(change))
            columns.append(rows.op("Reshape", computed[value], shape, allowzero=1))
    matrix = rows.op("Concat", *columns, axis=1)
    matrices, varying = vectorize_iterations(
        b, rows.ops, (matrix,), iteration_rows(outside, executed, body), executed.extent
    )
    return (
        matrices[matrix] if matrix in varying else repeat_rows(b, matrices[matrix], executed.count)
    )


def _unit_cotangents(b: Builder, changes: Sequence[Value], size: int) -> list[Value]:
    """Return the rows of an identity matrix as stacked cotangents of the values."""
    cotangents, offset = [], 0
    for change in changes:
        part = np.eye(size, dtype=change.dtype)[:, offset : offset + _size(change)]
        cotangents.append(b.constant(part.reshape(size, *(change.shape or ()))))
        offset += _size(change)
    return cotangents


def _append_offsets(
    outside: Sweep, executed: ExecutedLoop, body: TransposedBody, changing: Iterable[Carried]
) -> Value:
    """Return `h[i]`: the part of the cotangents of entering carried numbers that recordings contribute."""
    b = outside.b
    row = b.body()
    row.ops += body.ops
    parts = []
    for c in changing:
        value = body.of(c.enter) or zeros(b, c.enter)
        parts.append(row.op("Reshape", value, ints(b, _size(c.enter)), allowzero=1))
    joined = row.op("Concat", *parts, axis=0)
    offsets, varying = vectorize_iterations(
        b, row.ops, (joined,), iteration_rows(outside, executed, body), executed.extent
    )
    return offsets[joined] if joined in varying else repeat_rows(b, offsets[joined], executed.count)


def _append_recursion(
    outside: Sweep,
    executed: ExecutedLoop,
    body: TransposedBody,
    matrices: Value,
    offsets: Value | None,
) -> Mapping[Value, Value]:
    """Append the loop, and return the adjoints of all iterations in forward order."""
    b = outside.b
    changes = list(body.leaving.items())
    sizes = [_size(change) for _, change in changes]
    size, dtype = sum(sizes), matrices.dtype
    first = _concatenate(b, [outside.of.get(c.final) or zeros(b, c.enter) for c, _ in changes])
    inside = b.body()
    adjoint, matrix = b.new(dtype, (size,), "adjoint"), b.new(dtype, (size, size), "J")
    scanned = [Scanned(matrices, matrix, 0, True)]
    leave = inside.op("MatMul", adjoint, matrix)
    if offsets is not None:
        row = b.new(dtype, (size,), "h")
        scanned.append(Scanned(offsets, row, 0, True))
        leave = inside.op("Add", leave, row)
    final = b.new(dtype, (size,), "first adjoint")
    stack = b.new(dtype, (executed.extent, size), "adjoints")
    carried = Carried(first, adjoint, leave, final, "adjoint")
    executed.append_backward(b, (carried,), (Recorded(adjoint, stack),), inside.ops, scanned)
    finals = _split_parts(b, final, sizes, 0)
    for (c, _), part in zip(changes, finals, strict=True):
        own = ints(b, *_extents(c.enter))
        executed.add_initial_cotangent(outside, c, b.op("Reshape", part, own, allowzero=1))
    rows = _split_parts(b, reverse_rows(b, stack), sizes, 1)
    return {
        change: _reshape_rows(b, part, change)
        for (_, change), part in zip(changes, rows, strict=True)
    }


def _reshape_rows(b: Builder, rows: Value, change: Value) -> Value:
    """Reshape the rows `[n, size]` to `[n, ...]` with the axes of `change`."""
    count = b.op("Shape", rows, start=0, end=1)
    shape = b.op("Concat", count, ints(b, *_extents(change)), axis=0)
    return b.op("Reshape", rows, shape, allowzero=1)


def _concatenate(b: Builder, parts: Sequence[Value]) -> Value:
    flat = (b.op("Reshape", part, ints(b, _size(part)), allowzero=1) for part in parts)
    return b.op("Concat", *flat, axis=0)


def _split_parts(b: Builder, value: Value, sizes: Sequence[int], axis: int) -> Sequence[Value]:
    if len(sizes) == 1:
        return (value,)
    return b.multi("Split", value, ints(b, *sizes), n_outputs=len(sizes), axis=axis)
