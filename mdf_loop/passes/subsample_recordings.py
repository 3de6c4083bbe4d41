"""Recording of only every k-th iteration of a loop over time.

    loop i < steps: scan u of us; x' = f(x, i, u); record x'
    ->
    loop k < steps:                                            # steps rows
      loop i < every after k*every: scan u of us[k*every : (k+1)*every]; x' = f(x, i, u)
      record x'                                                # after the last inner iteration

Preserves: rows bit for bit. The new rows are rows every-1, 2*every-1, ... of the full recording.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, InputRole, Loop, Program, Recorded, Scanned, Value
from mdf_loop.ops.build_helpers import ints


def subsample_recordings(program: Program) -> Program:
    """Return a program whose last loop records only every k-th iteration.

    The new input `every` is k.
    """
    *ops_before_loop, loop = program.ops
    assert isinstance(loop, Loop)
    b = Builder.for_rewrite_of(program)
    row_stride = b.new("int64", (), "every")
    inner_builder = b.body()
    row_number = inner_builder.new("int64", (), "row")
    first_iteration = inner_builder.op("Mul", row_number, row_stride)
    inner_states, carried_recordings = _inner_carried(b, inner_builder, loop)
    inner_builder.append(
        replace(
            loop,
            name=f"{loop.name}, between rows",
            trip_count=row_stride,
            first_iteration=first_iteration,
            scanned=tuple(
                _slice_between_recordings(inner_builder, scanned, first_iteration, row_stride)
                for scanned in loop.scanned
            ),
            carried=(*inner_states, *(carried for _, carried in carried_recordings)),
            recorded=(),
        )
    )
    outer_loop = replace(
        loop,
        iteration=row_number,
        scanned=(),
        condition_in=inner_builder.new("bool", (), "go"),
        carried=tuple(
            replace(
                outer_carried, body_input=inner_carried.initial, body_output=inner_carried.final
            )
            for outer_carried, inner_carried in zip(loop.carried, inner_states, strict=True)
        ),
        recorded=tuple(
            replace(recording, row=carried.final) for recording, carried in carried_recordings
        ),
        ops=tuple(inner_builder.ops),
    )
    outer_ops = b.ops
    return replace(
        program,
        inputs=(*program.inputs, Input(row_stride, role=InputRole.CONTROL, owner_name="every")),
        ops=(*ops_before_loop, *outer_ops, outer_loop),
    )


def _slice_between_recordings(
    inner_builder: Builder, scanned: Scanned, first_iteration: Value, row_stride: Value
) -> Scanned:
    """Slice a scanned array to the rows that the iterations between two recordings read."""
    scan_axis = scanned.axis
    start_row = inner_builder.op("Reshape", first_iteration, ints(inner_builder, 1))
    end_row = inner_builder.op("Add", start_row, row_stride)
    if scanned.is_backward:
        row_count = inner_builder.op("Shape", scanned.rows, start=scan_axis, end=scan_axis + 1)
        start_row, end_row = (
            inner_builder.op("Sub", row_count, end_row),
            inner_builder.op("Sub", row_count, start_row),
        )
    return replace(
        scanned,
        rows=inner_builder.op(
            "Slice", scanned.rows, start_row, end_row, ints(inner_builder, scan_axis)
        ),
    )


def _inner_carried(
    b: Builder, inner_builder: Builder, loop: Loop
) -> tuple[list[Carried], list[tuple[Recorded, Carried]]]:
    """Return the carried states and recorded rows of the loop that runs between two recordings."""
    inner_states = []
    for carried in loop.carried:
        initial_value = inner_builder.new(
            carried.body_input.dtype, carried.body_input.shape, f"{carried.body_input.name}_at_row"
        )
        final_value = inner_builder.new(
            carried.final.dtype, carried.final.shape, f"{carried.body_input.name}_after_row"
        )
        inner_states.append(replace(carried, initial=initial_value, final=final_value))
    carried_recordings = []
    for recorded in loop.recorded:
        recorded_row = recorded.row
        known_extents = tuple(
            extent if isinstance(extent, int) else 0 for extent in recorded_row.shape or ()
        )
        zero_row = b.constant(
            np.zeros(
                known_extents, object if recorded_row.dtype == "string" else recorded_row.dtype
            )
        )
        incoming_row = inner_builder.new(
            recorded_row.dtype, recorded_row.shape, f"{recorded_row.name}_before"
        )
        last_row = inner_builder.new(
            recorded_row.dtype, recorded_row.shape, f"{recorded_row.name}_last"
        )
        carried_recordings.append(
            (recorded, Carried(zero_row, incoming_row, recorded_row, last_row, recorded.name))
        )
    return inner_states, carried_recordings
