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


def split_backward(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> None:
    """Append the backward form of a loop in which only the adjoint recursion stays in a loop.

    All other values are computed for all iterations at once.

    Raises:
        UnsupportedError: An operation cannot be computed for all iterations at once.
    """
    executed = executed_loop(reverse, outer_sweep, loop)
    body = transpose_body(reverse, outer_sweep, executed.loop)
    parts = SplitBody(outer_sweep, executed, body)
    adjoints = _append_recursion(outer_sweep, executed, body, parts)
    parts.add_cotangents(outer_sweep, adjoints)
    executed.propagate_through_cuts(reverse, outer_sweep)


class SplitBody:
    """Backward iteration in two parts: the recursion, and the operations that need no adjoint.

    The operations of the second part run for all iterations at once.

    Attributes:
        rows: Stacked values of all iterations, by the value of one iteration.
        invariant_values: Values outside of the loop that replace loop-invariant values of the body.
        recursion_ops: Operations of the recursion.
    """

    def __init__(self, outer_sweep: Sweep, executed: ExecutedLoop, body: TransposedBody) -> None:
        self.b = outer_sweep.b
        self.executed = executed
        self.body = body
        self.rows = iteration_rows(outer_sweep, executed, body)
        adjoint_values = _dependent_values(body.ops, body.leaving.values())
        ops_before_recursion = [op for op in body.ops if adjoint_values.isdisjoint(results(op))]
        self._adjoint_ops = [op for op in body.ops if not adjoint_values.isdisjoint(results(op))]
        entering_cotangents = [body.cotangent_of(c.enter) for c in body.leaving]
        cotangents = [
            body.cotangent_of(value)
            for value in (*body.captured, *(s.row for s in executed.loop.scanned))
        ]
        self.recursion_ops = _producers_of(self._adjoint_ops, entering_cotangents)
        self._ops_after_recursion = _producers_of(self._adjoint_ops, cotangents)
        values_before_recursion = {value for op in ops_before_recursion for value in results(op)}
        values = [
            v
            for op in (*self.recursion_ops, *self._ops_after_recursion)
            for v in reads(op)
            if v in values_before_recursion
        ]
        values += [
            v
            for v in (*entering_cotangents, *cotangents)
            if v is not None and v in values_before_recursion
        ]
        vectorized_values, stacked = vectorize_iterations(
            self.b, ops_before_recursion, values, self.rows, executed.extent
        )
        self.rows |= {value: vectorized_values[value] for value in stacked}
        self.invariant_values = {
            value: invariant
            for value, invariant in vectorized_values.items()
            if value not in stacked
        }
        self.recursion_ops = [substitute(op, self.invariant_values) for op in self.recursion_ops]
        self._ops_after_recursion = [
            substitute(op, self.invariant_values) for op in self._ops_after_recursion
        ]

    def add_cotangents(self, outer_sweep: Sweep, adjoints: Mapping[Value, Value]) -> None:
        """Add the cotangents of captured values and scanned rows, from the adjoints of all iterations."""
        rows, b = {**self.rows, **adjoints}, self.b
        captured_cotangents = {value: self._cotangent_of(value) for value in self.body.captured}
        count, extent = self.executed.count, self.executed.extent
        sums = sum_over_iterations(
            b, self._ops_after_recursion, captured_cotangents.values(), rows, count, extent
        )
        for value, cotangent in captured_cotangents.items():
            outer_sweep.add(value, sums[cotangent])
        scanned = [
            s for s in self.executed.loop.scanned if self.body.cotangent_of(s.row) is not None
        ]
        row_cotangents = [self._cotangent_of(s.row) for s in scanned]
        vectorized_values, stacked = vectorize_iterations(
            b, self._ops_after_recursion, row_cotangents, rows, extent
        )
        for scan, cotangent in zip(scanned, row_cotangents, strict=True):
            stack = (
                vectorized_values[cotangent]
                if cotangent in stacked
                else repeat_rows(b, vectorized_values[cotangent], count)
            )
            outer_sweep.add(scan.rows, restore_scan_axis(b, stack, scan))

    def _cotangent_of(self, value: Value) -> Value:
        """Return the cotangent of a value that an iteration reads."""
        cotangent = self.body.cotangent_of(value)
        assert cotangent is not None
        return self.invariant_values.get(cotangent, cotangent)


def iteration_rows(
    outer_sweep: Sweep, executed: ExecutedLoop, body: TransposedBody
) -> dict[Value, Value]:
    """Return the values that an iteration reads, stacked over all iterations along the first axis."""
    b, loop, copies_by_value = outer_sweep.b, executed.loop, body.inside
    zero, one = scalar(b, 0, "int64"), scalar(b, 1, "int64")
    iteration_numbers = b.op("Range", zero, executed.count, one)
    if loop.first is not None:
        iteration_numbers = b.op("Add", iteration_numbers, loop.first)
    rows = {copies_by_value[loop.iteration]: iteration_numbers}
    rows |= {copies_by_value[c.enter]: executed.tape[c.enter] for c in loop.carried}
    rows |= {copies_by_value[s.row]: rows_along_first_axis(b, s) for s in loop.scanned}
    return rows | {
        change: executed.recording_cotangents(outer_sweep, r) for r, change in body.rows.items()
    }


def _append_recursion(
    outer_sweep: Sweep, executed: ExecutedLoop, body: TransposedBody, parts: SplitBody
) -> dict[Value, Value]:
    """Append the loop of adjoints, and return the adjoints of all iterations in forward order."""
    b = outer_sweep.b
    read_values = {value for op in parts.recursion_ops for value in reads(op)}
    carried, recorded = [], []
    for c, change in body.leaving.items():
        cotangent = body.cotangent_of(c.enter)
        read_values.update({cotangent} if cotangent is not None else ())
        next_adjoint = (
            zeros(b, change)
            if cotangent is None
            else parts.invariant_values.get(cotangent, cotangent)
        )
        final_cotangent = outer_sweep.cotangents.get(c.final) or zeros(b, c.final)
        initial_cotangent = b.new(change.dtype, c.initial.shape, f"{c.enter.name} change")
        carried.append(
            Carried(final_cotangent, change, next_adjoint, initial_cotangent, change.name)
        )
        stack = b.new(change.dtype, (executed.extent, *(change.shape or ())), f"{change.name} rows")
        recorded.append(Recorded(change, stack))
    scanned = [
        Scanned(rows, value, 0, True) for value, rows in parts.rows.items() if value in read_values
    ]
    executed.append_backward(b, carried, recorded, parts.recursion_ops, scanned)
    for c, carried_adjoint in zip(body.leaving, carried, strict=True):
        executed.add_initial_cotangent(outer_sweep, c, carried_adjoint.final)
    return {record.row: reverse_rows(b, record.stack) for record in recorded}


def _dependent_values(ops: Iterable[Operation], values: Iterable[Value]) -> set[Value]:
    """Return the given values and all values that depend on them, also through shapes."""
    dependent_values = set(values)
    for op in ops:
        if not dependent_values.isdisjoint(reads(op)):
            dependent_values.update(results(op))
    return dependent_values


def _producers_of(ops: Sequence[Operation], values: Iterable[Value | None]) -> list[Operation]:
    """Return the operations that the given values depend on, in program order."""
    needed_values = {value for value in values if value is not None}
    producers: list[Operation] = []
    for op in reversed(ops):
        if not isinstance(op, Constant) and not needed_values.isdisjoint(results(op)):
            producers.append(op)
            needed_values.update(reads(op))
    return producers[::-1]
