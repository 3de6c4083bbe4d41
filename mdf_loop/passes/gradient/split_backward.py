"""Backward form of a loop in which only the adjoint recursion stays in the loop.

    for all iterations at once     the values of the body, and the local derivatives
    in a loop, last to first       adjoints of carried values, from those of the next iteration
    for all iterations at once     cotangents of captured values, summed, and of scanned rows

A sum of products over iterations is one product.

Preserves: the numbers of `loop_backward`, except for the last bits, since sums have another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mdf_loop.ir import Carried, Constant, Loop, Operation, Recorded, Scanned, Value, reads, results
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.build_helpers import scalar
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
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
    """Append the backward form of a loop in which only the adjoint recursion stays in a loop.

    All other values are computed for all iterations at once.

    Raises:
        UnsupportedError: An operation cannot be computed for all iterations at once.
    """
    executed = executed_loop(reverse, outside, loop)
    body = transpose_body(reverse, outside, executed.loop)
    parts = SplitBody(outside, executed, body)
    adjoints = _append_recursion(outside, executed, body, parts)
    parts.add_cotangents(outside, adjoints)
    executed.back_through_cuts(reverse, outside)


class SplitBody:
    """Backward iteration in two parts: the recursion, and the operations that need no adjoint.

    The operations of the second part run for all iterations at once.

    Attributes:
        rows: Stacked values of all iterations, by the value of one iteration.
        same: Values outside of the loop that replace loop-invariant values of the body.
        core: Operations of the recursion.
    """

    def __init__(self, outside: Sweep, executed: ExecutedLoop, body: TransposedBody) -> None:
        self.b = outside.b
        self.executed = executed
        self.body = body
        self.rows = iteration_rows(outside, executed, body)
        adjoints = _dependent_values(body.ops, body.leaving.values())
        known = [op for op in body.ops if adjoints.isdisjoint(results(op))]
        self._adjoint_ops = [op for op in body.ops if not adjoints.isdisjoint(results(op))]
        entering = [body.of(c.enter) for c in body.leaving]
        cotangents = [
            body.of(value) for value in (*body.captured, *(s.row for s in executed.loop.scanned))
        ]
        self.core = _producers_of(self._adjoint_ops, entering)
        self._ops_after_recursion = _producers_of(self._adjoint_ops, cotangents)
        known_values = {value for op in known for value in results(op)}
        values = [
            v
            for op in (*self.core, *self._ops_after_recursion)
            for v in reads(op)
            if v in known_values
        ]
        values += [v for v in (*entering, *cotangents) if v is not None and v in known_values]
        computed, stacked = vectorize_iterations(self.b, known, values, self.rows, executed.extent)
        self.rows |= {value: computed[value] for value in stacked}
        self.same = {value: new for value, new in computed.items() if value not in stacked}
        self.core = [substitute(op, self.same) for op in self.core]
        self._ops_after_recursion = [substitute(op, self.same) for op in self._ops_after_recursion]

    def add_cotangents(self, outside: Sweep, adjoints: Mapping[Value, Value]) -> None:
        """Add the cotangents of captured values and scanned rows, from the adjoints of all iterations."""
        rows, b = {**self.rows, **adjoints}, self.b
        captured = {value: self._cotangent_of(value) for value in self.body.captured}
        count, extent = self.executed.count, self.executed.extent
        sums = sum_over_iterations(
            b, self._ops_after_recursion, captured.values(), rows, count, extent
        )
        for value, cotangent in captured.items():
            outside.add(value, sums[cotangent])
        scanned = [s for s in self.executed.loop.scanned if self.body.of(s.row) is not None]
        row_cotangents = [self._cotangent_of(s.row) for s in scanned]
        computed, stacked = vectorize_iterations(
            b, self._ops_after_recursion, row_cotangents, rows, extent
        )
        for each, cotangent in zip(scanned, row_cotangents, strict=True):
            stack = (
                computed[cotangent]
                if cotangent in stacked
                else repeat_rows(b, computed[cotangent], count)
            )
            outside.add(each.rows, restore_scan_axis(b, stack, each))

    def _cotangent_of(self, value: Value) -> Value:
        """Return the cotangent of a value that an iteration reads."""
        cotangent = self.body.of(value)
        assert cotangent is not None
        return self.same.get(cotangent, cotangent)


def iteration_rows(
    outside: Sweep, executed: ExecutedLoop, body: TransposedBody
) -> dict[Value, Value]:
    """Return the values that an iteration reads, stacked over all iterations along the first axis."""
    b, loop, inside = outside.b, executed.loop, body.inside
    zero, one = scalar(b, 0, "int64"), scalar(b, 1, "int64")
    numbers = b.op("Range", zero, executed.count, one)
    if loop.first is not None:
        numbers = b.op("Add", numbers, loop.first)
    rows = {inside[loop.iteration]: numbers}
    rows |= {inside[c.enter]: executed.tape[c.enter] for c in loop.carried}
    rows |= {inside[s.row]: rows_along_first_axis(b, s) for s in loop.scanned}
    return rows | {
        change: executed.recording_cotangents(outside, r) for r, change in body.rows.items()
    }


def _append_recursion(
    outside: Sweep, executed: ExecutedLoop, body: TransposedBody, parts: SplitBody
) -> dict[Value, Value]:
    """Append the loop of adjoints, and return the adjoints of all iterations in forward order."""
    b = outside.b
    read = {value for op in parts.core for value in reads(op)}
    carried, recorded = [], []
    for c, change in body.leaving.items():
        cotangent = body.of(c.enter)
        read.update({cotangent} if cotangent is not None else ())
        leave = zeros(b, change) if cotangent is None else parts.same.get(cotangent, cotangent)
        first = outside.of.get(c.final) or zeros(b, c.final)
        final = b.new(change.dtype, c.initial.shape, f"{c.enter.name} change")
        carried.append(Carried(first, change, leave, final, change.name))
        stack = b.new(change.dtype, (executed.extent, *(change.shape or ())), f"{change.name} rows")
        recorded.append(Recorded(change, stack))
    scanned = [Scanned(rows, value, 0, True) for value, rows in parts.rows.items() if value in read]
    executed.append_backward(b, carried, recorded, parts.core, scanned)
    for c, backward in zip(body.leaving, carried, strict=True):
        executed.add_initial_cotangent(outside, c, backward.final)
    return {record.row: reverse_rows(b, record.stack) for record in recorded}


def _dependent_values(ops: Iterable[Operation], values: Iterable[Value]) -> set[Value]:
    """Return the given values and all values that depend on them, also through shapes."""
    dependent = set(values)
    for op in ops:
        if not dependent.isdisjoint(reads(op)):
            dependent.update(results(op))
    return dependent


def _producers_of(ops: Sequence[Operation], values: Iterable[Value | None]) -> list[Operation]:
    """Return the operations that the given values depend on, in program order."""
    read = {value for value in values if value is not None}
    producers: list[Operation] = []
    for op in reversed(ops):
        if not isinstance(op, Constant) and not read.isdisjoint(results(op)):
            producers.append(op)
            read.update(reads(op))
    return producers[::-1]
