"""Reverse-mode derivative of a loop, vectorized over iterations except the adjoint recursion.

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
    """Append the derivative of a loop, of which only the adjoint recursion is a sequential loop.

    All other values are computed for all iterations at once.

    Raises:
        UnsupportedError: An operation cannot be computed for all iterations at once.
    """
    forward_loop = executed_loop(reverse, outer_sweep, loop)
    transposed_body = transpose_body(reverse, outer_sweep, forward_loop.loop)
    split_body = SplitBody(outer_sweep, forward_loop, transposed_body)
    adjoints = _append_recursion(outer_sweep, forward_loop, transposed_body, split_body)
    split_body.add_cotangents(outer_sweep, adjoints)
    forward_loop.propagate_through_slices(reverse, outer_sweep)


class SplitBody:
    """Backward loop body, split into the sequential adjoint recursion and vectorized operations.

    The operations of the second part run for all iterations at once.

    Attributes:
        stacked_rows: Stacked values of all iterations, by the value of one iteration.
        invariant_values: Values outside of the loop that replace loop-invariant values of the body.
        recursion_ops: Operations of the recursion.
    """

    def __init__(
        self, outer_sweep: Sweep, forward_loop: ExecutedLoop, body: TransposedBody
    ) -> None:
        self.b = outer_sweep.b
        self.forward_loop = forward_loop
        self.transposed_body = body
        self.stacked_rows = iteration_rows(outer_sweep, forward_loop, body)
        adjoint_values = _dependent_values(body.ops, body.outgoing_cotangents.values())
        ops_before_recursion = [op for op in body.ops if adjoint_values.isdisjoint(results(op))]
        self._adjoint_ops = [op for op in body.ops if not adjoint_values.isdisjoint(results(op))]
        incoming_cotangents = [
            body.cotangent_of(carried.body_input) for carried in body.outgoing_cotangents
        ]
        outer_cotangents = [
            body.cotangent_of(value)
            for value in (
                *body.captured_values,
                *(scanned.row for scanned in forward_loop.loop.scanned),
            )
        ]
        self.recursion_ops = _producers_of(self._adjoint_ops, incoming_cotangents)
        self._ops_after_recursion = _producers_of(self._adjoint_ops, outer_cotangents)
        values_before_recursion = {value for op in ops_before_recursion for value in results(op)}
        values_to_vectorize = [
            value
            for op in (*self.recursion_ops, *self._ops_after_recursion)
            for value in reads(op)
            if value in values_before_recursion
        ]
        values_to_vectorize += [
            value
            for value in (*incoming_cotangents, *outer_cotangents)
            if value is not None and value in values_before_recursion
        ]
        vectorized_values, stacked_values = vectorize_iterations(
            self.b,
            ops_before_recursion,
            values_to_vectorize,
            self.stacked_rows,
            forward_loop.row_extent,
        )
        self.stacked_rows |= {value: vectorized_values[value] for value in stacked_values}
        self.invariant_values = {
            value: invariant_value
            for value, invariant_value in vectorized_values.items()
            if value not in stacked_values
        }
        self.recursion_ops = [substitute(op, self.invariant_values) for op in self.recursion_ops]
        self._ops_after_recursion = [
            substitute(op, self.invariant_values) for op in self._ops_after_recursion
        ]

    def add_cotangents(self, outer_sweep: Sweep, adjoints: Mapping[Value, Value]) -> None:
        """Add to `outer_sweep` the cotangents of values that the loop captures or scans.

        `adjoints` maps the cotangent of each carried value to the rows of all iterations.
        """
        rows_by_value, b = {**self.stacked_rows, **adjoints}, self.b
        captured_cotangents = {
            value: self._cotangent_of(value) for value in self.transposed_body.captured_values
        }
        iteration_count, row_extent = (
            self.forward_loop.iteration_count,
            self.forward_loop.row_extent,
        )
        sums_by_value = sum_over_iterations(
            b,
            self._ops_after_recursion,
            captured_cotangents.values(),
            rows_by_value,
            iteration_count,
            row_extent,
        )
        for value, cotangent in captured_cotangents.items():
            outer_sweep.add(value, sums_by_value[cotangent])
        active_scans = [
            scan
            for scan in self.forward_loop.loop.scanned
            if self.transposed_body.cotangent_of(scan.row) is not None
        ]
        row_cotangents = [self._cotangent_of(scan.row) for scan in active_scans]
        vectorized_values, stacked_values = vectorize_iterations(
            b, self._ops_after_recursion, row_cotangents, rows_by_value, row_extent
        )
        for scan, cotangent in zip(active_scans, row_cotangents, strict=True):
            stacked_cotangents = (
                vectorized_values[cotangent]
                if cotangent in stacked_values
                else repeat_rows(b, vectorized_values[cotangent], iteration_count)
            )
            outer_sweep.add(scan.rows, restore_scan_axis(b, stacked_cotangents, scan))

    def _cotangent_of(self, value: Value) -> Value:
        """Return the cotangent of a value that the loop body reads from outside of the loop."""
        cotangent = self.transposed_body.cotangent_of(value)
        assert cotangent is not None
        return self.invariant_values.get(cotangent, cotangent)


def iteration_rows(
    outer_sweep: Sweep, forward_loop: ExecutedLoop, body: TransposedBody
) -> dict[Value, Value]:
    """Return all values that iterations read, stacked along a new first axis."""
    b, loop, copies_by_value = outer_sweep.b, forward_loop.loop, body.copies_by_value
    zero, one = scalar(b, 0, "int64"), scalar(b, 1, "int64")
    iteration_numbers = b.op("Range", zero, forward_loop.iteration_count, one)
    if loop.first_iteration is not None:
        iteration_numbers = b.op("Add", iteration_numbers, loop.first_iteration)
    rows_by_value = {copies_by_value[loop.iteration]: iteration_numbers}
    rows_by_value |= {
        copies_by_value[carried.body_input]: forward_loop.tape[carried.body_input]
        for carried in loop.carried
    }
    rows_by_value |= {
        copies_by_value[scan.row]: rows_along_first_axis(b, scan) for scan in loop.scanned
    }
    return rows_by_value | {
        cotangent: forward_loop.recording_cotangents(outer_sweep, recording)
        for recording, cotangent in body.row_cotangents.items()
    }


def _append_recursion(
    outer_sweep: Sweep, forward_loop: ExecutedLoop, body: TransposedBody, split_body: SplitBody
) -> dict[Value, Value]:
    """Append the backward loop, and return the adjoints of all iterations in forward order."""
    b = outer_sweep.b
    read_values = {value for op in split_body.recursion_ops for value in reads(op)}
    carried_adjoints, adjoint_recordings = [], []
    for carried, outgoing_cotangent in body.outgoing_cotangents.items():
        incoming_cotangent = body.cotangent_of(carried.body_input)
        read_values.update({incoming_cotangent} if incoming_cotangent is not None else ())
        next_adjoint = (
            zeros(b, outgoing_cotangent)
            if incoming_cotangent is None
            else split_body.invariant_values.get(incoming_cotangent, incoming_cotangent)
        )
        final_cotangent = outer_sweep.cotangents.get(carried.final) or zeros(b, carried.final)
        initial_cotangent = b.new(
            outgoing_cotangent.dtype, carried.initial.shape, f"{carried.body_input.name} change"
        )
        carried_adjoints.append(
            Carried(
                final_cotangent,
                outgoing_cotangent,
                next_adjoint,
                initial_cotangent,
                outgoing_cotangent.name,
            )
        )
        adjoint_stack = b.new(
            outgoing_cotangent.dtype,
            (forward_loop.row_extent, *(outgoing_cotangent.shape or ())),
            f"{outgoing_cotangent.name} rows",
        )
        adjoint_recordings.append(Recorded(outgoing_cotangent, adjoint_stack))
    recursion_scans = [
        Scanned(rows, value, 0, True)
        for value, rows in split_body.stacked_rows.items()
        if value in read_values
    ]
    forward_loop.append_backward(
        b, carried_adjoints, adjoint_recordings, split_body.recursion_ops, recursion_scans
    )
    for carried, carried_adjoint in zip(body.outgoing_cotangents, carried_adjoints, strict=True):
        forward_loop.add_initial_cotangent(outer_sweep, carried, carried_adjoint.final)
    return {recording.row: reverse_rows(b, recording.stack) for recording in adjoint_recordings}


def _dependent_values(ops: Iterable[Operation], values: Iterable[Value]) -> set[Value]:
    """Return the set of given values and of all results that depend on these values."""
    dependent_values = set(values)
    for op in ops:
        if not dependent_values.isdisjoint(reads(op)):
            dependent_values.update(results(op))
    return dependent_values


def _producers_of(ops: Sequence[Operation], values: Iterable[Value | None]) -> list[Operation]:
    """Return all operations that given values depend on, in program order."""
    needed_values = {value for value in values if value is not None}
    producing_ops: list[Operation] = []
    for op in reversed(ops):
        if not isinstance(op, Constant) and not needed_values.isdisjoint(results(op)):
            producing_ops.append(op)
            needed_values.update(reads(op))
    return producing_ops[::-1]
