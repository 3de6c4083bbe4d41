"""Join the first evaluation of a model and the loop over later evaluations into one program.

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
from mdf_loop.ops.build_helpers import cast, ints, scalar
from mdf_loop.ops.derivatives.shapes import shape_of, with_type_of
from mdf_loop.passes.copying import copy_operations

TIME_EXTENT = "time"
"""Extent name that the reader uses for the rows of all steps, and for the rows of all steps but the first."""

_MAX_INT64 = int(np.iinfo(np.int64).max)


def whole_run(
    first: Program, later: Program, recorded: Sequence[str], over_time: Collection[str]
) -> Program:
    """Join a model's first evaluation and the loop over later evaluations into one program.

    Each recorded output has one row per step.

    Args:
        first: The first evaluation.
        later: The loop over all later evaluations.
        recorded: Names of the outputs to keep.
        over_time: Inputs that have a row for each step.
    """
    b = Builder.for_rewrite_of(first)
    step_extent, later_step_extent = b.name("all"), b.name("further")
    substitutions: dict[Value, Value] = {}
    inputs = [
        _join_input(b, program_input, later, over_time, substitutions, step_extent)
        for program_input in first.inputs
    ]
    for operation in first.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
        else:
            b.ops.append(substitute(operation, substitutions))
    first_outputs = {
        output.name: replace(output, value=substitutions.get(output.value, output.value))
        for output in first.outputs
    }
    state_by_input = {output.owner_name: output.value for output in first_outputs.values()}
    values_by_name = {program_input.value.name: program_input.value for program_input in inputs}
    feeds: dict[Value, Value] = {}
    for later_input in later.inputs:
        if later_input.role is InputRole.STATE:
            feeds[later_input.value] = _cast_state(
                b, state_by_input[later_input.owner_name], later_input.value
            )
        elif later_input.value.name in over_time:
            feeds[later_input.value] = _rows_after_first(
                b, values_by_name[later_input.value.name], later_step_extent
            )
        elif later_input.value.name in values_by_name:
            feeds[later_input.value] = values_by_name[later_input.value.name]
        else:
            inputs.append(
                replace(
                    later_input, value=b.new(later_input.value.dtype, (), later_input.value.name)
                )
            )
            feeds[later_input.value] = inputs[-1].value
            if later_input.owner_name == "steps":
                feeds[later_input.value] = b.op("Sub", inputs[-1].value, scalar(b, 1, "int64"))
    ops, copies_by_value = copy_operations(b, later.ops, feeds, {TIME_EXTENT: later_step_extent})
    b.ops += ops
    outputs = []
    for output in later.outputs:
        if output.name in recorded:
            later_rows = copies_by_value.get(output.value, output.value)
            with b.at(later_rows.where, output.name):
                first_row = _convert_to_row(b, first_outputs[output.name].value, output.value)
                joined_rows = b.op("Concat", first_row, later_rows, axis=0)
            outputs.append(replace(output, value=_name_extent(b, joined_rows, step_extent)))
    return Program(first.name, tuple(inputs), tuple(b.ops), tuple(outputs), later.sites)


def control_inputs(steps: int | None, dt: float | None, precision: str) -> dict[str, Array]:
    """Return the arrays of the program inputs `steps` and `dt`, or {} without steps."""
    if steps is None:
        return {}
    control_arrays = {"steps": np.array(steps)}
    return control_arrays if dt is None else {**control_arrays, "dt": np.array(dt, precision)}


def _join_input(
    b: Builder,
    entry: Input,
    later: Program,
    over_time: Collection[str],
    substitutions: dict[Value, Value],
    steps: str,
) -> Input:
    """Convert an input of the first evaluation to an input of the joined program.

    If the input has a row per step, the first evaluation reads the first row.
    """
    if entry.value.name not in over_time:
        return entry
    (rows,) = (
        program_input.value
        for program_input in later.inputs
        if program_input.value.name == entry.value.name
    )
    rows = replace(rows, shape=(steps, *(rows.shape or (TIME_EXTENT,))[1:]))
    with b.at(entry.value.where, entry.value.name):
        substitutions[entry.value] = b.op("Gather", rows, scalar(b, 0, "int64"), axis=0)
    return replace(entry, value=rows)


def _rows_after_first(b: Builder, rows: Value, extent: str) -> Value:
    """Return all rows of an array except the first."""
    later_rows = b.op("Slice", rows, ints(b, 1), ints(b, _MAX_INT64), ints(b, 0))
    return _name_extent(b, later_rows, extent)


def _name_extent(b: Builder, rows: Value, extent: str) -> Value:
    """Set the extent name of the first axis of an array, and return the array."""
    return with_type_of(b, rows, replace(rows, shape=(extent, *(rows.shape or (TIME_EXTENT,))[1:])))


def _cast_state(b: Builder, state: Value, entry: Value) -> Value:
    """Convert the state after the first evaluation to the type that later evaluations read."""
    state = cast(b, state, entry.dtype)
    if entry.shape is None or state.shape == entry.shape:
        return state
    return b.op("Expand", state, shape_of(b, entry)) if is_fixed(entry.shape) else state


def first_evaluation_rows(first: Program, later: Program, recorded: Collection[str]) -> Program:
    """Return the first evaluation's program, with each recorded output as one row."""
    b = Builder.appending_to(first)
    rows = {output.name: output.value for output in later.outputs if output.name in recorded}
    outputs = []
    for output in first.outputs:
        if output.name in rows:
            with b.at(output.value.where, output.name):
                row = _convert_to_row(b, output.value, rows[output.name])
            output = replace(output, value=row)
        outputs.append(output)
    return replace(first, ops=tuple(b.ops), outputs=tuple(outputs))


def _convert_to_row(b: Builder, value: Value, rows: Value) -> Value:
    """Convert a first-evaluation output to one row with the type of later rows."""
    shape = (rows.shape or ("time",))[1:]
    value = cast(b, value, rows.dtype)
    if value.shape != shape and is_fixed(shape):
        value = b.op("Expand", value, ints(b, *shape))
    return b.op("Unsqueeze", value, ints(b, 0))
