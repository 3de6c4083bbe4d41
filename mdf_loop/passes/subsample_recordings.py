"""Record only every k-th iteration of a loop over time. The other iterations are computed, but not recorded.

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
    """Return the program whose last loop records only every `every`-th iteration; `every` is a new input."""
    *before, loop = program.ops
    assert isinstance(loop, Loop)
    b = Builder.resume(program)
    every = b.new("int64", (), "every")
    block = b.body()
    row_number = block.new("int64", (), "row")
    first = block.op("Mul", row_number, every)
    states, rows = _inner_carried(b, block, loop)
    block.append(
        replace(
            loop,
            name=f"{loop.name}, between rows",
            trip_count=every,
            first=first,
            scanned=tuple(
                _slice_of_block(block, scanned, first, every) for scanned in loop.scanned
            ),
            carried=(*states, *(carried for _, carried in rows)),
            recorded=(),
        )
    )
    outer = replace(
        loop,
        iteration=row_number,
        scanned=(),
        condition_in=block.new("bool", (), "go"),
        carried=tuple(
            replace(old, enter=new.initial, leave=new.final)
            for old, new in zip(loop.carried, states, strict=True)
        ),
        recorded=tuple(replace(old, row=carried.final) for old, carried in rows),
        ops=tuple(block.ops),
    )
    constants = b.ops
    return replace(
        program,
        inputs=(*program.inputs, Input(every, role=InputRole.CONTROL, of="every")),
        ops=(*before, *constants, outer),
    )


def _slice_of_block(block: Builder, scanned: Scanned, first: Value, every: Value) -> Scanned:
    """Return the scan of the rows that belong to one recorded iteration."""
    axis = scanned.axis
    start = block.op("Reshape", first, ints(block, 1))
    end = block.op("Add", start, every)
    if scanned.backward:
        extent = block.op("Shape", scanned.rows, start=axis, end=axis + 1)
        start, end = block.op("Sub", extent, end), block.op("Sub", extent, start)
    return replace(scanned, rows=block.op("Slice", scanned.rows, start, end, ints(block, axis)))


def _inner_carried(
    b: Builder, block: Builder, loop: Loop
) -> tuple[list[Carried], list[tuple[Recorded, Carried]]]:
    """Return the carried values of the inner loop: the original ones, and the last row of each recording."""
    states = []
    for old in loop.carried:
        enter = block.new(old.enter.dtype, old.enter.shape, f"{old.enter.name}_at_row")
        final = block.new(old.final.dtype, old.final.shape, f"{old.enter.name}_after_row")
        states.append(replace(old, initial=enter, final=final))
    rows = []
    for recorded in loop.recorded:
        row = recorded.row
        extents = tuple(extent if isinstance(extent, int) else 0 for extent in row.shape or ())
        zeros = b.constant(np.zeros(extents, object if row.dtype == "string" else row.dtype))
        enter = block.new(row.dtype, row.shape, f"{row.name}_before")
        final = block.new(row.dtype, row.shape, f"{row.name}_last")
        rows.append((recorded, Carried(zeros, enter, row, final, recorded.name)))
    return states, rows
