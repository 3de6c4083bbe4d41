"""Arrangement of recorded loop outputs: rows in reverse order, padded, concatenated or on another axis.

    y: {axis: 1}                     # rows are stacked on a new axis 1, not on axis 0
    z: {axis: 1, concat: true}       # rows are joined along their axis 1
    w: {reverse: true}               # the last iteration is first
    l: {keep: last}                  # only the last row
    p: {length: 10, pad: 0}          # always 10 rows, missing rows are padded

Rows are reversed first, then padded, then stacked or joined.

Source: OpenVINO, Loop-5, port_map of outputs; MXNet, `while_loop`, max_iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ModelError, OperandError, RecordShapeError
from mdf_loop.ir import Value
from mdf_loop.lower import Scope, cast, lower_expression, tensor
from mdf_loop.lower.arrays import shape_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import check_value, one_element
from mdf_loop.lower.reductions import nonnegative_axis
from mdf_loop.name_suggestions import suggest
from mdf_loop.ops.build_helpers import extents, ints
from mdf_loop.reading.entries import NamedEntry, parse_entries

_RECORDING_KEYS = ("axis", "concat", "reverse", "keep", "length", "pad")


class RecordingForm(Struct, frozen=True):
    """Arguments of a recording (array of one value per iteration), as written in the document."""

    name: str
    axis: int = 0
    is_concatenated: bool = False
    is_reversed: bool = False
    keeps_last_row: bool = False
    length_expression: DocumentValue | None = None
    pad_expression: DocumentValue = 0
    where: str = ""


def parse_recordings(value: DocumentValue, where: str) -> dict[str, RecordingForm]:
    """Parse the loop argument `recordings`, and return each recording by the name of its output."""
    return {
        recording_entry.name: _parse_recording(recording_entry)
        for recording_entry in parse_entries(value, where, _RECORDING_KEYS)
    }


def _parse_recording(entry: NamedEntry) -> RecordingForm:
    """Parse the arguments of one recording, an entry of the loop argument `recordings`.

    Raise ModelError if a field is wrong.
    """
    kept_rows = entry.fields.get("keep", "all")
    if kept_rows not in ("all", "last"):
        raise ModelError(
            f"'keep' of the recording '{entry.name}' is {kept_rows!r}",
            entry.where,
            suggest(str(kept_rows), ("all", "last")),
        )
    other_fields = [field_name for field_name in entry.fields if field_name != "keep"]
    if kept_rows == "last" and other_fields:
        raise ModelError(
            f"the recording '{entry.name}' keeps the last row only, so '{other_fields[0]}' means nothing",
            entry.where,
            "leave one of them out",
        )
    if "pad" in entry.fields and "length" not in entry.fields:
        raise ModelError(
            f"the recording '{entry.name}' has a 'pad', but no 'length' to fill up to",
            entry.where,
            "write length: <number of rows>",
        )
    return RecordingForm(
        entry.name,
        axis=entry.integer("axis", 0),
        is_concatenated=entry.boolean("concat"),
        is_reversed=entry.boolean("reverse"),
        keeps_last_row=kept_rows == "last",
        length_expression=entry.expression("length") if "length" in entry.fields else None,
        pad_expression=entry.fields.get("pad", 0),
        where=entry.where,
    )


def refuse_unrecorded(
    forms: Mapping[str, RecordingForm], rows: tuple[str, ...], carried_names: tuple[str, ...]
) -> None:
    """Raise an error for an entry of `recordings` that is not a recorded output of the body.

    Raises:
        ModelError: If a name is not one of the rows.
    """
    for recording_form in forms.values():
        if recording_form.name in rows:
            continue
        if recording_form.name in carried_names:
            raise ModelError(
                f"'{recording_form.name}' is carried, not recorded",
                recording_form.where,
                "name it once more at the end of the body's metadata.outputs to record it too",
            )
        raise ModelError(
            f"'{recording_form.name}' is not one of the body's recorded outputs",
            recording_form.where,
            suggest(recording_form.name, rows) or "recorded outputs stand last in metadata.outputs",
        )


# --- arrangement of rows ------------------------------------------------------------------------


def select_last_row(b: ModelBuilder, form: RecordingForm, stack: Value, iterations: Value) -> Value:
    """Return the row that the last iteration of a loop recorded.

    A run fails if the loop has no iterations.
    """
    one = b.constant(np.array(1))
    last_position = check_value(
        b, b.op("Sub", iterations, one), b.op("LessOrEqual", one, iterations), no_row_error(form)
    )
    return b.op("Gather", stack, last_position, axis=0)


def no_row_error(form: RecordingForm) -> RecordShapeError:
    """Return the error for the last recorded row of a loop that had no iterations."""
    return RecordShapeError(
        f"the last row of '{form.name}' is asked for, but the loop had no iteration",
        form.where,
        "carry the value: a carried value has an initial one",
    )


def arrange_rows(b: ModelBuilder, form: RecordingForm, stack: Value, scope: Scope) -> Value:
    """Reverse, pad, move or concatenate stacked rows as specified for the recording."""
    with b.at(form.where):
        if form.is_reversed:
            stack = _reverse_rows(b, stack)
        if form.length_expression is not None:
            stack = _pad_rows(b, form, stack, scope)
        return (
            _concatenate_rows(b, form, stack)
            if form.is_concatenated
            else _move_row_axis(b, form, stack)
        )


def _reverse_rows(b: ModelBuilder, stack: Value) -> Value:
    """Reverse the order of stacked rows."""
    first_position, end_position = ints(b, -1), ints(b, np.iinfo(np.int64).min)
    reversed_stack = b.op("Slice", stack, first_position, end_position, ints(b, 0), ints(b, -1))
    return reversed_stack


def _move_row_axis(b: ModelBuilder, form: RecordingForm, stack: Value) -> Value:
    """Move the axis of stacked rows to the axis that the recording states."""
    axis = nonnegative_axis(stack, form.axis)
    if axis == 0:
        return stack
    row_axes = list(range(1, len(extents(stack))))
    return b.op("Transpose", stack, perm=[*row_axes[:axis], 0, *row_axes[axis:]])


def _concatenate_rows(b: ModelBuilder, form: RecordingForm, stack: Value) -> Value:
    """Concatenate recorded rows along one of their own axes instead of stacking the rows."""
    row_count, *row_extents = extents(stack)
    if not row_extents:
        raise OperandError(
            f"the rows of '{form.name}' are numbers: there is no axis to join them along",
            hint="leave out 'concat' to stack them",
        )
    if not -len(row_extents) <= form.axis < len(row_extents):
        raise OperandError(
            f"axis {form.axis} does not exist: the rows of '{form.name}' have {len(row_extents)} axes",
            hint=f"axes are numbered {-len(row_extents)} to {len(row_extents) - 1}",
        )
    axis = form.axis % len(row_extents)
    row_axes = list(range(1, 1 + len(row_extents)))
    moved_stack = (
        b.op("Transpose", stack, perm=[*row_axes[:axis], 0, *row_axes[axis:]]) if axis else stack
    )
    return b.op(
        "Reshape",
        moved_stack,
        _find_concatenated_shape(b, moved_stack, row_count, row_extents, axis),
        allowzero=1,
    )


def _find_concatenated_shape(
    b: ModelBuilder, moved: Value, count: int | str, row: Sequence[int | str], axis: int
) -> Value:
    """Return the shape of an array of concatenated rows.

    Extents are constants where possible.
    """
    other_extents = [*row[:axis], *row[axis + 1 :]]
    known_extents = [extent for extent in other_extents if isinstance(extent, int)]
    if len(known_extents) == len(other_extents):
        row_extent = row[axis]
        total_extent = (
            count * row_extent if isinstance(count, int) and isinstance(row_extent, int) else -1
        )
        if total_extent >= 0 or 0 not in known_extents:  # -1: Reshape infers the extent
            return ints(b, *known_extents[:axis], total_extent, *known_extents[axis:])
    stack_shape = shape_of(b, moved)
    total_extent_tensor = b.op(
        "ReduceProd", b.op("Gather", stack_shape, ints(b, axis, axis + 1), axis=0)
    )
    extents_before_axis = (
        [b.op("Gather", stack_shape, ints(b, *range(axis)), axis=0)] if axis else []
    )
    later_axes = range(axis + 2, 1 + len(row))
    extents_after_axis = (
        [b.op("Gather", stack_shape, ints(b, *later_axes), axis=0)] if later_axes else []
    )
    return b.op("Concat", *extents_before_axis, total_extent_tensor, *extents_after_axis, axis=0)


def _pad_rows(b: ModelBuilder, form: RecordingForm, stack: Value, scope: Scope) -> Value:
    """Pad stacked rows to the length that the recording states.

    A run fails if there are more rows than `length`.
    """
    row_extents = extents(stack)[1:]
    padded_length = one_element(
        b, tensor(b, lower_expression(b, form.length_expression, scope, f"{form.name}.length"))
    )
    pad_number = one_element(
        b, tensor(b, lower_expression(b, form.pad_expression, scope, f"{form.name}.pad"))
    )
    if padded_length is None or padded_length.dtype not in ("int64", "int32"):
        raise ModelError(f"the length of the recording '{form.name}' must be one whole number")
    if pad_number is None:
        raise ModelError(f"the pad of the recording '{form.name}' must be one number")
    padded_length = b.op("Reshape", cast(b, padded_length, "int64"), ints(b, 1))
    stack_shape = shape_of(b, stack)
    row_count = b.op("Gather", stack_shape, ints(b, 0), axis=0)
    too_many_rows_error = RecordShapeError(
        f"the recording '{form.name}' has more rows than its length",
        hint="make the length larger, or bound the loop by M",
    )
    missing_count = check_value(
        b,
        b.op("Sub", padded_length, row_count),
        b.op("LessOrEqual", row_count, padded_length),
        too_many_rows_error,
    )
    row_shape = (
        [b.op("Gather", stack_shape, ints(b, *range(1, 1 + len(row_extents))), axis=0)]
        if row_extents
        else []
    )
    padding = b.op(
        "Expand",
        _convert_padding(b, form, pad_number, stack.dtype),
        b.op("Concat", missing_count, *row_shape, axis=0),
    )
    padded_stack = b.op("Concat", stack, padding, axis=0)
    known_length = b.constant_of(padded_length)
    if (
        known_length is None
        or padded_stack.shape == (int(known_length[0]), *row_extents)
        or not all(isinstance(extent, int) for extent in row_extents)
    ):
        return padded_stack
    return b.op("Reshape", padded_stack, ints(b, int(known_length[0]), *row_extents), allowzero=1)  # type: ignore[arg-type]


def _convert_padding(b: ModelBuilder, form: RecordingForm, pad: Value, dtype: str) -> Value:
    """Convert the padding number to the dtype of the rows, or raise an error if it does not fit."""
    converted_pad = cast(b, pad, dtype)
    pad_constant, converted_constant = b.constant_of(pad), b.constant_of(converted_pad)
    if pad.dtype == dtype:
        return pad
    if (
        converted_constant is not None
        and b.is_weak(pad)
        and (converted_constant.dtype.kind == "f" or converted_constant == pad_constant)
    ):
        return converted_pad
    raise OperandError(
        f"the recording '{form.name}' is {dtype}, which does not hold its pad ({pad.type})",
        hint="give a pad that a row could hold",
    )
