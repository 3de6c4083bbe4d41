"""Record only every k-th iteration: what lies between is computed, but not kept.

    loop i < steps: scan u of us; x' = f(x, i, u); record x'
    ->
    loop k < steps:                                            # steps rows
      loop i < every after k*every: scan u of us[k*every : (k+1)*every]; x' = f(x, i, u)
      record x'                                                # that of the last of them

Keeps: the rows, bit for bit those of the full record with numbers every-1, 2*every-1, ...
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, InputRole, Loop, Program, Recorded, Scanned, Value
from mdf_loop.ops.words import ints


def subsample_recordings(program: Program) -> Program:
    """The program whose last loop records every `every`-th iteration, `every` being an input."""
    *before, loop = program.ops
    assert isinstance(loop, Loop)
    b = Builder.resume(program)
    every = b.new("int64", (), "every")
    block = b.body()
    number = block.new("int64", (), "row")
    first = block.op("Mul", number, every)
    steps, rows = _parts(b, block, loop)
    block.append(
        replace(
            loop,
            name=f"{loop.name}, between rows",
            trip_count=every,
            first=first,
            scanned=tuple(_of_row(block, scanned, first, every) for scanned in loop.scanned),
            carried=(*steps, *(carried for _, carried in rows)),
            recorded=(),
        )
    )
    outer = replace(
        loop,
        iteration=number,
        scanned=(),
        condition_in=block.new("bool", (), "go"),
        carried=tuple(
            replace(old, enter=new.initial, leave=new.final)
            for old, new in zip(loop.carried, steps, strict=True)
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


def _of_row(block: Builder, scanned: Scanned, first: Value, every: Value) -> Scanned:
    """What the iterations of one row scan."""
    axis = scanned.axis
    start = block.op("Reshape", first, ints(block, 1))
    end = block.op("Add", start, every)
    if scanned.backward:
        extent = block.op("Shape", scanned.rows, start=axis, end=axis + 1)
        start, end = block.op("Sub", extent, end), block.op("Sub", extent, start)
    return replace(scanned, rows=block.op("Slice", scanned.rows, start, end, ints(block, axis)))


def _parts(
    b: Builder, block: Builder, loop: Loop
) -> tuple[list[Carried], list[tuple[Recorded, Carried]]]:
    """What the inner loop carries: the old carried values, and the last row of each record."""
    steps = []
    for old in loop.carried:
        enter = block.new(old.enter.dtype, old.enter.shape, f"{old.enter.name}_at_row")
        final = block.new(old.final.dtype, old.final.shape, f"{old.enter.name}_after_row")
        steps.append(replace(old, initial=enter, final=final))
    rows = []
    for recorded in loop.recorded:
        row = recorded.row
        extents = tuple(extent if isinstance(extent, int) else 0 for extent in row.shape or ())
        nothing = b.constant(np.zeros(extents, object if row.dtype == "string" else row.dtype))
        enter = block.new(row.dtype, row.shape, f"{row.name}_before")
        final = block.new(row.dtype, row.shape, f"{row.name}_last")
        rows.append((recorded, Carried(nothing, enter, row, final, recorded.name)))
    return steps, rows
