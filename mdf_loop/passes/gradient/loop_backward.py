"""Reverse-mode derivative of a loop as a single backward loop, which recomputes the loop body.

    loop %i < %n                                   loop %k < %count
      carry %x from %x0 to %y                        carry %gx from %g_final to %g_x
      %y = Mul(%x, %w)                     ->        carry %sum from 0 to %more
      record %x giving %tape                         scan %x of %tape backward
                                                     %g_x = Mul(%gx, %w)
                                                     %more = Add(%sum, Mul(%gx, %x))

`gx` is the derivative of the objective by the value carried into an iteration, and `sum` the derivative by
`w`.
"""

from __future__ import annotations

from mdf_loop.ir import Carried, Loop, Operation, Recorded, Scanned, Value
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.build_helpers import scalar
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.executed_loop import ExecutedLoop, executed_loop
from mdf_loop.passes.gradient.executed_rows import restore_scan_axis, reverse_rows
from mdf_loop.passes.gradient.reverse import Reverse
from mdf_loop.passes.gradient.transpose_body import TransposedBody, transpose_body


def loop_backward(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> None:
    """Append a loop that computes the cotangents of a loop from the last to the first iteration."""
    forward_loop = executed_loop(reverse, outer_sweep, loop)
    transposed_body = transpose_body(reverse, outer_sweep, forward_loop.loop)
    _BackwardLoop(outer_sweep, forward_loop, transposed_body).append()
    forward_loop.propagate_through_slices(reverse, outer_sweep)


class _BackwardLoop:
    """Builder of a loop that propagates cotangents from the last to the first iteration."""

    def __init__(
        self, outer_sweep: Sweep, forward_loop: ExecutedLoop, body: TransposedBody
    ) -> None:
        self.b = outer_sweep.b
        self.outer_sweep = outer_sweep
        self.forward_loop = forward_loop
        self.transposed_body = body

    def append(self) -> None:
        """Append the backward loop, and accumulate the cotangents that it computes."""
        b, transposed_body, loop = self.b, self.transposed_body, self.forward_loop.loop
        backward_iteration = b.new("int64", (), "iteration backward")
        carried_cotangents = [
            *map(self._carry_adjoint, transposed_body.outgoing_cotangents),
            *map(self._carry_sum, transposed_body.captured_values),
        ]
        optional_recordings = [self._record_row_cotangent(scanned) for scanned in loop.scanned]
        row_recordings = [recording for recording in optional_recordings if recording is not None]
        backward_ops = (*self._iteration_number(backward_iteration), *transposed_body.ops)
        self.forward_loop.append_backward(
            b,
            carried_cotangents,
            row_recordings,
            backward_ops,
            self._scan_backward(),
            backward_iteration,
        )
        for carried, carried_cotangent in zip(
            transposed_body.outgoing_cotangents, carried_cotangents, strict=False
        ):
            self.forward_loop.add_initial_cotangent(
                self.outer_sweep, carried, carried_cotangent.final
            )
        carried_sums = carried_cotangents[len(transposed_body.outgoing_cotangents) :]
        for value, carried_cotangent in zip(
            transposed_body.captured_values, carried_sums, strict=True
        ):
            self.outer_sweep.add(value, carried_cotangent.final)
        for scanned, row_recording in zip(loop.scanned, optional_recordings, strict=True):
            if row_recording is not None:
                self.outer_sweep.add(
                    scanned.rows,
                    restore_scan_axis(b, reverse_rows(b, row_recording.stack), scanned),
                )

    def _carry_adjoint(self, carried: Carried) -> Carried:
        """Return a carried value of the backward loop: the cotangent of a forward carried value."""
        outgoing_cotangent = self.transposed_body.outgoing_cotangents[carried]
        final_cotangent = self.outer_sweep.cotangents.get(carried.final) or zeros(
            self.b, carried.final
        )
        incoming_cotangent = self.transposed_body.cotangent_of(carried.body_input) or zeros(
            self.transposed_body.b, outgoing_cotangent
        )
        initial_cotangent = self.b.new(
            outgoing_cotangent.dtype, carried.initial.shape, f"{carried.body_input.name} change"
        )
        return Carried(
            final_cotangent,
            outgoing_cotangent,
            incoming_cotangent,
            initial_cotangent,
            outgoing_cotangent.name,
        )

    def _carry_sum(self, value: Value) -> Carried:
        """Return a carried value that sums the cotangents of a captured value over iterations."""
        b, cotangent = self.b, self.transposed_body.cotangent_of(value)
        assert cotangent is not None
        partial_sum = b.new(value.dtype, value.shape, f"{value.name} sum")
        next_sum = self.transposed_body.b.op("Add", partial_sum, cotangent)
        final_sum = b.new(value.dtype, value.shape, f"{value.name} change")
        return Carried(zeros(b, value), partial_sum, next_sum, final_sum, partial_sum.name)

    def _record_row_cotangent(self, scanned: Scanned) -> Recorded | None:
        """Record the cotangents of a scanned array's rows, or return None if no row has one."""
        cotangent = self.transposed_body.cotangent_of(scanned.row)
        if cotangent is None:
            return None
        stack_shape = (self.forward_loop.row_extent, *(scanned.row.shape or ()))
        stacked_cotangents = self.b.new(
            scanned.row.dtype, stack_shape, f"{scanned.row.name} change"
        )
        return Recorded(cotangent, stacked_cotangents)

    def _scan_backward(self) -> tuple[Scanned, ...]:
        """Return the arrays that the backward loop scans, beginning with the last iteration's row.

        They are the recorded carried values, the scanned rows, and the cotangents of recordings.
        """
        copies_by_value, loop = self.transposed_body.copies_by_value, self.forward_loop.loop
        backward_scans = [
            Scanned(
                self.forward_loop.tape[carried.body_input],
                copies_by_value[carried.body_input],
                0,
                True,
            )
            for carried in loop.carried
        ]
        backward_scans += [
            Scanned(
                scanned.rows, copies_by_value[scanned.row], scanned.axis, not scanned.is_backward
            )
            for scanned in loop.scanned
        ]
        recording_cotangents = self.transposed_body.row_cotangents.items()
        backward_scans += [
            Scanned(
                self.forward_loop.recording_cotangents(self.outer_sweep, recording),
                cotangent_row,
                0,
                True,
            )
            for recording, cotangent_row in recording_cotangents
        ]
        return tuple(backward_scans)

    def _iteration_number(self, backward_iteration: Value) -> list[Operation]:
        """Return operations that compute the forward iteration number in the backward loop."""
        body_builder, loop = self.b.body(), self.forward_loop.loop
        last_iteration = self.b.op(
            "Sub", self.forward_loop.iteration_count, scalar(self.b, 1, "int64")
        )
        if loop.first_iteration is not None:
            last_iteration = self.b.op("Add", last_iteration, loop.first_iteration)
        forward_iteration = body_builder.op("Sub", last_iteration, backward_iteration)
        return [
            substitute(
                op, {forward_iteration: self.transposed_body.copies_by_value[loop.iteration]}
            )
            for op in body_builder.ops
        ]
