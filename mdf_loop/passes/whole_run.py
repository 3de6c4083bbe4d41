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
from mdf_loop.ops.derivatives.shapes import shape_of, with_shape_of
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
    step_extent_name, later_extent_name = b.name("all"), b.name("further")
    substitutions: dict[Value, Value] = {}
    joined_inputs = [
        _join_input(b, program_input, later, over_time, substitutions, step_extent_name)
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
    values_by_name = {
        program_input.value.name: program_input.value for program_input in joined_inputs
    }
    values_by_later_input: dict[Value, Value] = {}
    for later_input in later.inputs:
        if later_input.role is InputRole.STATE:
            values_by_later_input[later_input.value] = _cast_state(
                b, state_by_input[later_input.owner_name], later_input.value
            )
        elif later_input.value.name in over_time:
            values_by_later_input[later_input.value] = _rows_after_first(
                b, values_by_name[later_input.value.name], later_extent_name
            )
        elif later_input.value.name in values_by_name:
            values_by_later_input[later_input.value] = values_by_name[later_input.value.name]
        else:
            joined_inputs.append(
                replace(
                    later_input, value=b.new(later_input.value.dtype, (), later_input.value.name)
                )
            )
            values_by_later_input[later_input.value] = joined_inputs[-1].value
            if later_input.owner_name == "steps":
                values_by_later_input[later_input.value] = b.op(
                    "Sub", joined_inputs[-1].value, scalar(b, 1, "int64")
                )
    later_ops, copies_by_value = copy_operations(
        b, later.ops, values_by_later_input, {TIME_EXTENT: later_extent_name}
    )
    b.ops += later_ops
    joined_outputs = []
    for output in later.outputs:
        if output.name in recorded:
            later_rows = copies_by_value.get(output.value, output.value)
            with b.at(later_rows.where, output.name):
                first_row = _convert_to_row(b, first_outputs[output.name].value, output.value)
                joined_rows = b.op("Concat", first_row, later_rows, axis=0)
            joined_outputs.append(
                replace(output, value=_name_extent(b, joined_rows, step_extent_name))
            )
    return Program(
        first.name, tuple(joined_inputs), tuple(b.ops), tuple(joined_outputs), later.sites
    )


def control_inputs(steps: int | None, dt: float | None, precision: str) -> dict[str, Array]:
    """Return the arrays of the program inputs `steps` and `dt`, or {} without steps."""
    if steps is None:
        return {}
    control_arrays = {"steps": np.array(steps)}
    return control_arrays if dt is None else {**control_arrays, "dt": np.array(dt, precision)}


def _join_input(
    b: Builder,
    first_input: Input,
    later: Program,
    over_time: Collection[str],
    substitutions: dict[Value, Value],
    steps: str,
) -> Input:
    """Convert an input of the first evaluation to an input of the joined program.

    If the input has a row per step, the first evaluation reads the first row.
    """
    if first_input.value.name not in over_time:
        return first_input
    (joined_rows,) = (
        program_input.value
        for program_input in later.inputs
        if program_input.value.name == first_input.value.name
    )
    joined_rows = replace(joined_rows, shape=(steps, *(joined_rows.shape or (TIME_EXTENT,))[1:]))
    with b.at(first_input.value.where, first_input.value.name):
        substitutions[first_input.value] = b.op(
            "Gather", joined_rows, scalar(b, 0, "int64"), axis=0
        )
    return replace(first_input, value=joined_rows)


def _rows_after_first(b: Builder, rows: Value, extent: str) -> Value:
    """Return all rows of an array except the first."""
    later_rows = b.op("Slice", rows, ints(b, 1), ints(b, _MAX_INT64), ints(b, 0))
    return _name_extent(b, later_rows, extent)


def _name_extent(b: Builder, rows: Value, extent: str) -> Value:
    """Set the extent name of the first axis of an array, and return the array."""
    return with_shape_of(
        b, rows, replace(rows, shape=(extent, *(rows.shape or (TIME_EXTENT,))[1:]))
    )


def _cast_state(b: Builder, state_value: Value, later_input: Value) -> Value:
    """Convert the state after the first evaluation to the type that later evaluations read."""
    state_value = cast(b, state_value, later_input.dtype)
    if later_input.shape is None or state_value.shape == later_input.shape:
        return state_value
    return (
        b.op("Expand", state_value, shape_of(b, later_input))
        if is_fixed(later_input.shape)
        else state_value
    )


def first_evaluation_rows(first: Program, later: Program, recorded: Collection[str]) -> Program:
    """Return the first evaluation's program, with each recorded output as one row."""
    b = Builder.appending_to(first)
    rows_by_name = {
        output.name: output.value for output in later.outputs if output.name in recorded
    }
    row_outputs = []
    for output in first.outputs:
        if output.name in rows_by_name:
            with b.at(output.value.where, output.name):
                first_row = _convert_to_row(b, output.value, rows_by_name[output.name])
            output = replace(output, value=first_row)
        row_outputs.append(output)
    return replace(first, ops=tuple(b.ops), outputs=tuple(row_outputs))


def _convert_to_row(b: Builder, value: Value, rows: Value) -> Value:
    """Convert a first-evaluation output to one row with the type of later rows."""
    row_shape = (rows.shape or ("time",))[1:]
    value = cast(b, value, rows.dtype)
    if value.shape != row_shape and is_fixed(row_shape):
        value = b.op("Expand", value, ints(b, *row_shape))
    return b.op("Unsqueeze", value, ints(b, 0))
