"""A loop gone through backward, in which only the recursion of adjoints stays.

    for all iterations at once     what the body computes, and the local derivatives
    in a loop, last to first       adjoints of what is carried, from those of the next iteration
    for all iterations at once     what captured values get, summed; what scanned rows get

A sum of products over iterations is one product.

Keeps: the numbers of one backward loop, but for the last bits: sums are made in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mdf_loop.ir import Carried, Constant, Loop, Operation, Recorded, Scanned, Value, reads, results
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.words import scalar
from mdf_loop.passes.gradient.executed_loop import ExecutedLoop, executed_loop
from mdf_loop.passes.gradient.executed_rows import (
    repeat_rows,
    restore_scan_axis,
    reverse_rows,
    rows_along_first_axis,
)
from mdf_loop.passes.gradient.reverse import Reverse
from mdf_loop.passes.gradient.sum_over_iterations import sum_over_iterations
from mdf_loop.passes.gradient.transpose_body import TransposedBody, transpose_body
from mdf_loop.passes.gradient.vectorize_iterations import vectorize_iterations


def split_backward(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """The recursion of adjoints in a loop, all else for all iterations at once.

    Raises:
        UnsupportedError: something cannot be computed for all iterations at once.
    """
    ran = executed_loop(reverse, outside, loop)
    made = transpose_body(reverse, outside, ran.loop)
    parts = SplitBody(outside, ran, made)
    adjoints = _recursion(outside, ran, made, parts)
    parts.give(outside, adjoints)
    ran.back(reverse, outside)


class SplitBody:
    """An iteration backward, in parts: what needs no adjoint is computed for all iterations.

    Attributes:
        rows: of all iterations what is given to one, or was computed for all.
        same: what stands for values that are the same in all iterations.
        core: the operations of the recursion.
    """

    def __init__(self, outside: Sweep, ran: ExecutedLoop, body: TransposedBody) -> None:
        self.b = outside.b
        self.ran = ran
        self.body = body
        self.rows = iteration_rows(outside, ran, body)
        adjoints = _made_of(body.ops, body.leaving.values())
        known = [op for op in body.ops if adjoints.isdisjoint(results(op))]
        self._own = [op for op in body.ops if not adjoints.isdisjoint(results(op))]
        entering = [body.of(c.enter) for c in body.leaving]
        given = [body.of(value) for value in (*body.captured, *(s.row for s in ran.loop.scanned))]
        self.core = _needed(self._own, entering)
        self._after = _needed(self._own, given)
        made = {value for op in known for value in results(op)}
        wanted = [v for op in (*self.core, *self._after) for v in reads(op) if v in made]
        wanted += [v for v in (*entering, *given) if v is not None and v in made]
        found, along = vectorize_iterations(self.b, known, wanted, self.rows, ran.extent)
        self.rows |= {value: found[value] for value in along}
        self.same = {value: new for value, new in found.items() if value not in along}
        self.core = [substitute(op, self.same) for op in self.core]
        self._after = [substitute(op, self.same) for op in self._after]

    def give(self, outside: Sweep, adjoints: Mapping[Value, Value]) -> None:
        """Give captured values and scanned rows what they get; `adjoints` are those of all iterations."""
        rows, b = {**self.rows, **adjoints}, self.b
        captured = {value: self._made(value) for value in self.body.captured}
        count, extent = self.ran.count, self.ran.extent
        sums = sum_over_iterations(b, self._after, captured.values(), rows, count, extent)
        for value, made in captured.items():
            outside.add(value, sums[made])
        scanned = [s for s in self.ran.loop.scanned if self.body.of(s.row) is not None]
        wanted = [self._made(s.row) for s in scanned]
        found, along = vectorize_iterations(b, self._after, wanted, rows, extent)
        for each, made in zip(scanned, wanted, strict=True):
            stack = found[made] if made in along else repeat_rows(b, found[made], count)
            outside.add(each.rows, restore_scan_axis(b, stack, each))

    def _made(self, value: Value) -> Value:
        """What an iteration gives what it reads."""
        made = self.body.of(value)
        assert made is not None
        return self.same.get(made, made)


def iteration_rows(outside: Sweep, ran: ExecutedLoop, body: TransposedBody) -> dict[Value, Value]:
    """What an iteration is given, of all iterations, in their order and with their axis in front."""
    b, loop, inside = outside.b, ran.loop, body.inside
    zero, one = scalar(b, 0, "int64"), scalar(b, 1, "int64")
    numbers = b.op("Range", zero, ran.count, one)
    if loop.first is not None:
        numbers = b.op("Add", numbers, loop.first)
    rows = {inside[loop.iteration]: numbers}
    rows |= {inside[c.enter]: ran.tape[c.enter] for c in loop.carried}
    rows |= {inside[s.row]: rows_along_first_axis(b, s) for s in loop.scanned}
    return rows | {change: ran.changes(outside, r) for r, change in body.rows.items()}


def _recursion(
    outside: Sweep, ran: ExecutedLoop, body: TransposedBody, parts: SplitBody
) -> dict[Value, Value]:
    """Append the loop of adjoints; those of all iterations, in their order."""
    b = outside.b
    read = {value for op in parts.core for value in reads(op)}
    carried, recorded = [], []
    for c, change in body.leaving.items():
        made = body.of(c.enter)
        read.update({made} if made is not None else ())
        leave = zeros(b, change) if made is None else parts.same.get(made, made)
        first = outside.of.get(c.final) or zeros(b, c.final)
        final = b.new(change.dtype, c.initial.shape, f"{c.enter.name} change")
        carried.append(Carried(first, change, leave, final, change.name))
        stack = b.new(change.dtype, (ran.extent, *(change.shape or ())), f"{change.name} rows")
        recorded.append(Recorded(change, stack))
    scanned = [Scanned(rows, value, 0, True) for value, rows in parts.rows.items() if value in read]
    ran.backward(b, carried, recorded, parts.core, scanned)
    for c, backward in zip(body.leaving, carried, strict=True):
        ran.give(outside, c, backward.final)
    return {record.row: reverse_rows(b, record.stack) for record in recorded}


def _made_of(ops: Iterable[Operation], given: Iterable[Value]) -> set[Value]:
    """What is given, and all that operations make of it, shapes as well."""
    found = set(given)
    for op in ops:
        if not found.isdisjoint(reads(op)):
            found.update(results(op))
    return found


def _needed(ops: Sequence[Operation], wanted: Iterable[Value | None]) -> list[Operation]:
    """Those operations that make what is wanted."""
    read = {value for value in wanted if value is not None}
    kept: list[Operation] = []
    for op in reversed(ops):
        if not isinstance(op, Constant) and not read.isdisjoint(results(op)):
            kept.append(op)
            read.update(reads(op))
    return kept[::-1]
