"""A loop gone through backward, of which an iteration is a matrix: for few carried numbers.

    for all iterations at once     J[i]: how all numbers that leave change with those that enter
                                   h[i]: what enters gets from what is recorded
    in a loop, last to first       adjoint = adjoint @ J[i] + h[i]
    for all iterations at once     what captured values get, summed; what scanned rows get

The loop has five operations, whatever the model has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Recorded, Scanned, Value, is_fixed
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.registry import elements
from mdf_loop.ops.words import ints
from mdf_loop.passes.gradient.executed_loop import ExecutedLoop, executed_loop
from mdf_loop.passes.gradient.executed_rows import repeat_rows, reverse_rows
from mdf_loop.passes.gradient.reverse import Reverse
from mdf_loop.passes.gradient.split_backward import SplitBody, iteration_rows
from mdf_loop.passes.gradient.transpose_body import TransposedBody, transpose_body
from mdf_loop.passes.gradient.vectorize_iterations import vectorize_iterations

MAX_CARRIED_ELEMENTS = 32
"""Carried numbers up to which a matrix for each iteration pays."""


def has_small_state(reverse: Reverse, loop: Loop) -> bool:
    """Whether a loop carries few numbers that change, of one dtype."""
    active = [c.enter for c in loop.carried if reverse.changes(c.enter)]
    if not all(is_fixed(value.shape) for value in active):
        return False
    return (
        0 < elements(active) <= MAX_CARRIED_ELEMENTS and len({value.dtype for value in active}) == 1
    )


def _extents(value: Value) -> tuple[int, ...]:
    return tuple(e for e in value.shape or () if isinstance(e, int))


def _size(value: Value) -> int:
    return elements((value,))


def jacobian_backward(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """The recursion of adjoints by matrices, all else for all iterations at once.

    Raises:
        UnsupportedError: something cannot be computed for all iterations at once.
    """
    ran = executed_loop(reverse, outside, loop)
    matrices = _matrices(outside, ran, transpose_body(reverse, outside, ran.loop, rows=()))
    whole = transpose_body(reverse, outside, ran.loop)
    more = None
    if whole.rows:
        more = _more(
            outside, ran, transpose_body(reverse, outside, ran.loop, leaving=()), whole.leaving
        )
    adjoints = _recursion(outside, ran, whole, matrices, more)
    SplitBody(outside, ran, whole).give(outside, adjoints)
    ran.back(reverse, outside)


def _matrices(outside: Sweep, ran: ExecutedLoop, body: TransposedBody) -> Value:
    """`J[i]`: a row for each number that leaves, a column for each that enters; one for all where these are alike."""
    b, inside = outside.b, body.b
    changes = list(body.leaving.values())
    size = elements(changes)
    units = dict(zip(changes, _units(b, changes, size), strict=True))
    made = [body.of(c.enter) for c in body.leaving]
    wanted = [value for value in made if value is not None]
    rows = b.body()
    found, along = vectorize_iterations(rows, inside.ops, wanted, units, b.name("unit"))
    columns = []
    for change, value in zip(changes, made, strict=True):
        if value not in along:  # it is linear in changes, so 0 if it is the same for all
            columns.append(b.constant(np.zeros((size, _size(change)), change.dtype)))
        else:
            assert value is not None
            shape = ints(b, size, _size(change))
            columns.append(rows.op("Reshape", found[value], shape, allowzero=1))
    matrix = rows.op("Concat", *columns, axis=1)
    done, differs = vectorize_iterations(
        b, rows.ops, (matrix,), iteration_rows(outside, ran, body), ran.extent
    )
    return done[matrix] if matrix in differs else repeat_rows(b, done[matrix], ran.count)


def _units(b: Builder, changes: Sequence[Value], size: int) -> list[Value]:
    """Of each value as many changes as there are numbers in all, by one of them at a time."""
    made, at = [], 0
    for change in changes:
        part = np.eye(size, dtype=change.dtype)[:, at : at + _size(change)]
        made.append(b.constant(part.reshape(size, *(change.shape or ()))))
        at += _size(change)
    return made


def _more(
    outside: Sweep, ran: ExecutedLoop, body: TransposedBody, changing: Iterable[Carried]
) -> Value:
    """`h[i]`: what all that enters gets of what an iteration records."""
    b = outside.b
    row = b.body()
    row.ops += body.ops
    parts = []
    for c in changing:
        value = body.of(c.enter) or zeros(b, c.enter)
        parts.append(row.op("Reshape", value, ints(b, _size(c.enter)), allowzero=1))
    joined = row.op("Concat", *parts, axis=0)
    done, differs = vectorize_iterations(
        b, row.ops, (joined,), iteration_rows(outside, ran, body), ran.extent
    )
    return done[joined] if joined in differs else repeat_rows(b, done[joined], ran.count)


def _recursion(
    outside: Sweep, ran: ExecutedLoop, body: TransposedBody, matrices: Value, more: Value | None
) -> Mapping[Value, Value]:
    """Append the loop; the adjoints of all iterations, in their order."""
    b = outside.b
    changes = list(body.leaving.items())
    sizes = [_size(change) for _, change in changes]
    size, dtype = sum(sizes), matrices.dtype
    first = _joined(b, [outside.of.get(c.final) or zeros(b, c.enter) for c, _ in changes])
    inside = b.body()
    adjoint, matrix = b.new(dtype, (size,), "adjoint"), b.new(dtype, (size, size), "J")
    scanned = [Scanned(matrices, matrix, 0, True)]
    leave = inside.op("MatMul", adjoint, matrix)
    if more is not None:
        row = b.new(dtype, (size,), "h")
        scanned.append(Scanned(more, row, 0, True))
        leave = inside.op("Add", leave, row)
    final = b.new(dtype, (size,), "first adjoint")
    stack = b.new(dtype, (ran.extent, size), "adjoints")
    carried = Carried(first, adjoint, leave, final, "adjoint")
    ran.backward(b, (carried,), (Recorded(adjoint, stack),), inside.ops, scanned)
    finals = _apart(b, final, sizes, 0)
    for (c, _), part in zip(changes, finals, strict=True):
        own = ints(b, *_extents(c.enter))
        ran.give(outside, c, b.op("Reshape", part, own, allowzero=1))
    rows = _apart(b, reverse_rows(b, stack), sizes, 1)
    return {
        change: _in_shape_of(b, part, change)
        for (_, change), part in zip(changes, rows, strict=True)
    }


def _in_shape_of(b: Builder, rows: Value, change: Value) -> Value:
    """Reshape the rows `[n, size]` to `[n, ...]` with the axes of `change`."""
    count = b.op("Shape", rows, start=0, end=1)
    shape = b.op("Concat", count, ints(b, *_extents(change)), axis=0)
    return b.op("Reshape", rows, shape, allowzero=1)


def _joined(b: Builder, parts: Sequence[Value]) -> Value:
    flat = (b.op("Reshape", part, ints(b, _size(part)), allowzero=1) for part in parts)
    return b.op("Concat", *flat, axis=0)


def _apart(b: Builder, value: Value, sizes: Sequence[int], axis: int) -> Sequence[Value]:
    if len(sizes) == 1:
        return (value,)
    return b.multi("Split", value, ints(b, *sizes), n_outputs=len(sizes), axis=axis)
