"""A model over time as one program: its first evaluation, then the loop over all others.

first:  y, s = evaluate(x)                          whole:  y0, s = evaluate(x[0])
later:  ys, s = loop(steps, s, xs)            ->            ys, s = loop(steps - 1, s, x[1:])
                                                            y = concat(y0, ys)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Array, Constant, Input, InputRole, Program, Value, is_fixed
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.derivatives.shapes import shape_of, typed
from mdf_loop.ops.words import cast, ints, scalar
from mdf_loop.passes.copying import copy_operations

TIME_EXTENT = "time"
"""What reading calls the extent of rows, be it of all steps or of all but the first."""

_ALL = int(np.iinfo(np.int64).max)


def whole_run(
    first: Program, later: Program, recorded: Sequence[str], over_time: Collection[str]
) -> Program:
    """Both programs as one, which gives what is `recorded` of all steps.

    Args:
        first: one evaluation, the first.
        later: the loop over further ones.
        recorded: the outputs that are wanted.
        over_time: inputs that have a row for each step.
    """
    b = Builder.resume(first)
    steps, further = b.name("all"), b.name("further")
    swaps: dict[Value, Value] = {}
    inputs = [_input(b, entry, later, over_time, swaps, steps) for entry in first.inputs]
    for operation in first.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
        else:
            b.ops.append(substitute(operation, swaps))
    begun = {o.name: replace(o, value=swaps.get(o.value, o.value)) for o in first.outputs}
    held = {o.of: o.value for o in begun.values()}
    given = {entry.value.name: entry.value for entry in inputs}
    feeds: dict[Value, Value] = {}
    for entry in later.inputs:
        if entry.role is InputRole.STATE:
            feeds[entry.value] = _in_type(b, held[entry.of], entry.value)
        elif entry.value.name in over_time:
            feeds[entry.value] = _others(b, given[entry.value.name], further)
        elif entry.value.name in given:
            feeds[entry.value] = given[entry.value.name]
        else:
            inputs.append(replace(entry, value=b.new(entry.value.dtype, (), entry.value.name)))
            feeds[entry.value] = inputs[-1].value
            if entry.of == "steps":
                feeds[entry.value] = b.op("Sub", inputs[-1].value, scalar(b, 1, "int64"))
    ops, new = copy_operations(b, later.ops, feeds, {TIME_EXTENT: further})
    b.ops += ops
    outputs = []
    for output in later.outputs:
        if output.name in recorded:
            rows = new.get(output.value, output.value)
            with b.at(rows.where, output.name):
                row = _as_row(b, begun[output.name].value, output.value)
                joined = b.op("Concat", row, rows, axis=0)
            outputs.append(replace(output, value=_along(b, joined, steps)))
    return Program(first.name, tuple(inputs), tuple(b.ops), tuple(outputs), later.sites)


def control_inputs(steps: int | None, dt: float | None, precision: str) -> dict[str, Array]:
    """How far a whole run goes: what its inputs `steps` and `dt` are given; nothing for one evaluation."""
    if steps is None:
        return {}
    given = {"steps": np.array(steps)}
    return given if dt is None else {**given, "dt": np.array(dt, precision)}


def _input(
    b: Builder,
    entry: Input,
    later: Program,
    over_time: Collection[str],
    swaps: dict[Value, Value],
    steps: str,
) -> Input:
    """An input of the first evaluation; of one over time that is the first row."""
    if entry.value.name not in over_time:
        return entry
    (rows,) = (e.value for e in later.inputs if e.value.name == entry.value.name)
    rows = replace(rows, shape=(steps, *(rows.shape or (TIME_EXTENT,))[1:]))
    with b.at(entry.value.where, entry.value.name):
        swaps[entry.value] = b.op("Gather", rows, scalar(b, 0, "int64"), axis=0)
    return replace(entry, value=rows)


def _others(b: Builder, rows: Value, further: str) -> Value:
    """All rows but the first."""
    made = b.op("Slice", rows, ints(b, 1), ints(b, _ALL), ints(b, 0))
    return _along(b, made, further)


def _along(b: Builder, rows: Value, extent: str) -> Value:
    """Rows that were made last, with a name for how many there are."""
    return typed(b, rows, replace(rows, shape=(extent, *(rows.shape or (TIME_EXTENT,))[1:])))


def _in_type(b: Builder, held: Value, wanted: Value) -> Value:
    """What is held after the first evaluation, in the type that holds for all."""
    held = cast(b, held, wanted.dtype)
    if wanted.shape is None or held.shape == wanted.shape:
        return held
    return b.op("Expand", held, shape_of(b, wanted)) if is_fixed(wanted.shape) else held


def first_evaluation_rows(first: Program, later: Program, recorded: Collection[str]) -> Program:
    """The first evaluation, which gives what is recorded as one row of all."""
    b = Builder.continued(first)
    rows = {output.name: output.value for output in later.outputs if output.name in recorded}
    outputs = []
    for output in first.outputs:
        if output.name in rows:
            with b.at(output.value.where, output.name):
                row = _as_row(b, output.value, rows[output.name])
            output = replace(output, value=row)
        outputs.append(output)
    return replace(first, ops=tuple(b.ops), outputs=tuple(outputs))


def _as_row(b: Builder, made: Value, rows: Value) -> Value:
    """What the first evaluation gives as a row of what all others give."""
    own = (rows.shape or ("time",))[1:]
    made = cast(b, made, rows.dtype)
    if made.shape != own and is_fixed(own):
        made = b.op("Expand", made, ints(b, *own))
    return b.op("Unsqueeze", made, ints(b, 0))
