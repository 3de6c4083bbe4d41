"""Backward pass of a loop body: a copy of the body, followed by operations for cotangents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Operation, Recorded, Value, captures
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.reverse import Reverse


class TransposedBody(Struct, frozen=True):
    """Loop body for the backward pass, with the cotangents of its values.

    Attributes:
        copies_by_value: Copies of the values of the body.
        outgoing_cotangents: Cotangents of the carried values that leave the iteration.
        row_cotangents: Cotangents of the rows that the iteration records.
        captured_values: Values from outside that the iteration adds cotangents to.
        sweep: Cotangents that the iteration computes, with the builder of their operations.
    """

    copies_by_value: Mapping[Value, Value]
    outgoing_cotangents: Mapping[Carried, Value]
    row_cotangents: Mapping[Recorded, Value]
    captured_values: tuple[Value, ...]
    sweep: Sweep

    @property
    def b(self) -> Builder:
        """Builder that appends operations to the body of the backward loop."""
        return self.sweep.b

    @property
    def ops(self) -> list[Operation]:
        """Operations of the copied body, followed by operations that compute cotangents."""
        return self.sweep.b.ops

    def cotangent_of(self, value: Value) -> Value | None:
        """Return the cotangent of a value of the original loop body, or None if it is zero."""
        return self.sweep.cotangents.get(self.copies_by_value.get(value, value))


def transpose_body(
    reverse: Reverse,
    outer_sweep: Sweep,
    loop: Loop,
    *,
    carried_values: Iterable[Carried] | None = None,
    recordings: Iterable[Recorded] | None = None,
) -> TransposedBody:
    """Return the backward body of a loop, which computes the cotangents of the body's inputs.

    Args:
        reverse: The state of the differentiation.
        outer_sweep: The cotangents of the results of the loop.
        loop: The executed loop.
        carried_values: Carried values with a cotangent at the end of an iteration; by default, all active
            carried values.
        recordings: Recordings with cotangents; by default, the recordings that have a cotangent outside of the
            loop.
    """
    b = outer_sweep.b
    body_builder = b.body()
    replacements = {loop.condition_in: b.constant(np.array(True))}
    for value in (
        loop.iteration,
        *(carried.body_input for carried in loop.carried),
        *(scanned.row for scanned in loop.scanned),
    ):
        replacements[value] = replace(value, name=b.name(value.name))
    body_ops, copies_by_value = reverse.copy_operations(b, loop.ops, replacements)
    body_ops = reverse.append_forward(body_builder, body_ops)
    if carried_values is None:
        carried_values = (
            carried for carried in loop.carried if reverse.is_active_float(carried.body_input)
        )
    if recordings is None:
        recordings = (
            recorded for recorded in loop.recorded if recorded.stack in outer_sweep.cotangents
        )
    outgoing_cotangents = {
        carried: _new_cotangent(b, carried.body_input) for carried in carried_values
    }
    row_cotangents = {recorded: _new_cotangent(b, recorded.row) for recorded in recordings}
    body_sweep = reverse.start_sweep(body_builder, {})
    for carried, cotangent in outgoing_cotangents.items():
        body_sweep.add(copies_by_value.get(carried.body_output, carried.body_output), cotangent)
    for recorded, cotangent in row_cotangents.items():
        body_sweep.add(copies_by_value.get(recorded.row, recorded.row), cotangent)
    reverse.propagate_backward(body_sweep, body_ops)
    captured_values = tuple(value for value in captures(loop) if value in body_sweep.cotangents)
    return TransposedBody(
        copies_by_value, outgoing_cotangents, row_cotangents, captured_values, body_sweep
    )


def _new_cotangent(b: Builder, value: Value) -> Value:
    return b.new(value.dtype, value.shape, f"{value.name} change")
