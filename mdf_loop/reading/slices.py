"""Slices of loops: arrays of which each iteration of the loop reads one part.

    x_t: x                                                        # x[i]
    z_t: {of: z, axis: 1, start: -1, end: 0, stride: -1, part_size: 2}

If the axis has the extent `dim`, a negative start or end is counted from `dim + 1` (so -1 is `dim`). Without
`part_size`, a part is one element and the axis is dropped.

    length = |end - start|;   parts = floor((length - part_size) / |stride|) + 1
    part i begins at start + i * stride              (stride > 0)
                     start - part_size + i * stride  (stride < 0)

Source: OpenVINO, Loop-5 and TensorIterator-1, port_map of inputs.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ModelError, Poisoned, TripCountError
from mdf_loop.ir import Scanned, Value
from mdf_loop.lower import Scope, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import check_value
from mdf_loop.lower.reductions import count_reduced_elements, nonnegative_axis
from mdf_loop.ops.build_helpers import extents, ints
from mdf_loop.reading.entries import NamedEntry, parse_entries

MAX_PART_SIZE = 10_000_000
"""Maximum number of elements of one part along the slice's axis."""

_SLICE_KEYS = ("of", "axis", "start", "end", "stride", "part_size")


class SliceForm(Struct, frozen=True):
    """Arguments of a slice (array that a loop reads part by part), as written in the document.

    Without `part_size`, a part is one element and the axis is dropped.
    """

    name: str
    source_expression: DocumentValue
    axis: int = 0
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int | None = None
    where: str = ""


def parse_slices(value: DocumentValue, where: str) -> tuple[SliceForm, ...]:
    """Parse the loop argument `slices`, which names arrays to read part by part."""
    return tuple(
        _parse_slice(slice_entry)
        for slice_entry in parse_entries(value, where, _SLICE_KEYS, short_key="of")
    )


def _parse_slice(entry: NamedEntry) -> SliceForm:
    """Parse the arguments of one slice, an entry of the loop argument `slices`.

    Raise ModelError if a field is wrong.
    """
    stride = entry.integer("stride", 1)
    is_downward = stride < 0
    part_size = entry.integer("part_size", 0)
    slice_form = SliceForm(
        name=entry.name,
        source_expression=entry.expression("of"),
        axis=entry.integer("axis", 0),
        start=entry.integer("start", -1 if is_downward else 0),
        end=entry.integer("end", 0 if is_downward else -1),
        stride=stride,
        part_size=part_size if "part_size" in entry.fields else None,
        where=entry.where,
    )
    if stride == 0:
        raise ModelError(
            f"the stride of the slice '{slice_form.name}' is 0", entry.where, "use 1 or -1"
        )
    if slice_form.part_size is not None and part_size < 1:
        raise ModelError(
            f"the part_size of the slice '{slice_form.name}' is {part_size}",
            entry.where,
            "leave it out for one element without the axis, or give 1 or more",
        )
    if part_size > MAX_PART_SIZE:
        raise ModelError(
            f"the part_size of the slice '{slice_form.name}' is {part_size}, more than {MAX_PART_SIZE}",
            entry.where,
            "capture the whole array, and slice it in the body",
        )
    is_reversed = (
        slice_form.start < slice_form.end if is_downward else slice_form.start > slice_form.end
    )
    if slice_form.start >= 0 and slice_form.end >= 0 and is_reversed:
        direction = "down" if is_downward else "up"
        raise ModelError(
            f"the slice '{slice_form.name}' goes {direction} by {abs(stride)}, but from {slice_form.start} to "
            f"{slice_form.end}",
            entry.where,
            "a negative stride goes down: start: -1, end: 0",
        )
    return slice_form


class SlicedRows(Struct, frozen=True, eq=False):
    """Array that a `Loop` operation scans along `axis`, one row per iteration."""

    array: Value
    axis: int
    is_backward: bool = False

    def create_scanned(self, b: ModelBuilder, name: str) -> Scanned:
        """Build the scanned input of a `Loop` operation.

        `b` builds the body.
        """
        array_extents = extents(self.array)
        scanned_row = b.new(
            self.array.dtype, (*array_extents[: self.axis], *array_extents[self.axis + 1 :]), name
        )
        return Scanned(self.array, scanned_row, self.axis, self.is_backward)


class Slice(Struct, frozen=True, eq=False):
    """Array that a loop reads in parts, as program values: array, first position, part count.

    A loop scans the parts of one element as rows. The body of the loop indexes longer parts by the iteration
    number. So do the iterations of an unrolled loop.

    Attributes:
        slice_form: Arguments of the slice.
        source: Array.
        axis: Axis of the parts.
        first_position: Position of the first part.
        part_count: Number of parts.
    """

    slice_form: SliceForm
    source: Value
    axis: int
    first_position: Value
    part_count: Value

    def create_rows(self, b: ModelBuilder) -> SlicedRows | None:
        """Return the sliced array as rows that a `Loop` scans, or None if a part has several rows.

        A part has several rows if the slice has a `part_size`.

        The array is cut before the loop unless its rows begin at an end of the axis.
        """
        slice_form = self.slice_form
        if slice_form.part_size is not None:
            return None
        known_position = b.constant_of(self.first_position)
        if slice_form.stride == 1 and known_position is not None and known_position == 0:
            return SlicedRows(self.source, self.axis)
        extent = extents(self.source)[self.axis]
        starts_at_end = (
            known_position is not None and isinstance(extent, int) and known_position == extent - 1
        )
        if slice_form.stride == -1 and (slice_form.start == -1 or starts_at_end):
            return SlicedRows(self.source, self.axis, is_backward=True)
        with b.at(slice_form.where, slice_form.name):
            start_position = b.op("Reshape", self.first_position, ints(b, 1))
            int64_range = np.iinfo(np.int64)
            end_position = ints(b, int64_range.max if slice_form.stride > 0 else int64_range.min)
            selected_rows = b.op(
                "Slice",
                self.source,
                start_position,
                end_position,
                ints(b, self.axis),
                ints(b, slice_form.stride),
            )
        return SlicedRows(selected_rows, self.axis)

    def select_part(self, b: ModelBuilder, iteration: Value) -> Value:
        """Append operations to the body that select the part of the array for one iteration."""
        part_position = iteration
        if self.slice_form.stride != 1:
            part_position = b.op("Mul", part_position, b.constant(np.array(self.slice_form.stride)))
        known_offset = b.constant_of(self.first_position)
        if known_offset is None or known_offset != 0:
            part_position = b.op("Add", part_position, self.first_position)
        if self.slice_form.part_size is None:
            return b.op("Gather", self.source, part_position, axis=self.axis)
        part_offsets = b.constant(np.arange(self.slice_form.part_size))
        return b.op("Gather", self.source, b.op("Add", part_position, part_offsets), axis=self.axis)


def read_slices(b: ModelBuilder, forms: tuple[SliceForm, ...], scope: Scope) -> tuple[Slice, ...]:
    """Append the operations for the loop argument `slices`, which names arrays to read in parts.

    Errors in several slices are raised together.
    """
    slices: list[Slice] = []
    for slice_form in forms:
        with b.findings.catch(), b.at(slice_form.where, slice_form.name):
            slices.append(_lower_slice(b, slice_form, scope))
    if len(slices) < len(forms):
        raise Poisoned
    return tuple(slices)


def _lower_slice(b: ModelBuilder, form: SliceForm, scope: Scope) -> Slice:
    """Convert one slice (array that a loop reads in parts) to operations, and count its parts.

    A run fails if a position is out of range.
    """
    sliced_array = tensor(
        b, lower_expression(b, form.source_expression, scope, f"slices.{form.name}")
    )
    if not extents(sliced_array):
        raise TripCountError(
            f"the slice '{form.name}' is taken of one number ({sliced_array.type})",
            hint="a value that is the same in every iteration is captured: name it as an input "
            "port of the loop's node, and read it in the body",
        )
    axis = nonnegative_axis(sliced_array, form.axis)
    extent = _to_int64(b, count_reduced_elements(b, sliced_array, axis))
    start, end = (
        _find_position(b, stated_position, extent) for stated_position in (form.start, form.end)
    )
    lower_end, upper_end = (end, start) if form.stride < 0 else (start, end)
    zero, part_size = _to_int64(b, 0), _to_int64(b, form.part_size or 1)
    is_start_valid = (
        _is_at_most(b, start, extent) if form.stride < 0 else _is_at_most(b, zero, start)
    )
    is_end_valid = b.op("And", _is_at_most(b, zero, end), _is_at_most(b, end, extent))
    is_inside = b.op(
        "And", is_start_valid, is_end_valid
    )  # a slice whose start is beyond its end has no parts
    message = f"the slice '{form.name}' from {form.start} to {form.end} leaves axis {axis} of {sliced_array.type}"
    out_of_range_error = TripCountError(
        message, hint="positions are 0 to the extent; -1 is the extent itself"
    )
    step_size = _to_int64(b, abs(form.stride))
    slice_length = b.op("Add", b.op("Sub", b.op("Sub", upper_end, lower_end), part_size), step_size)
    part_count = b.op("Div", b.op("Max", slice_length, zero), step_size)
    first_position = b.op("Sub", start, part_size) if form.stride < 0 else start
    return Slice(
        form,
        sliced_array,
        axis,
        first_position,
        check_value(b, part_count, is_inside, out_of_range_error),
    )


def _to_int64(b: ModelBuilder, number: int | Value) -> Value:
    """Return a number as an int64 value."""
    return b.constant(np.array(number, np.int64)) if isinstance(number, int) else number


def _find_position(b: ModelBuilder, number: int, extent: Value) -> Value:
    """Return the start or end of a slice as an index counted from 0."""
    if number >= 0:
        return _to_int64(b, number)
    return b.op("Add", extent, _to_int64(b, number + 1))


def _is_at_most(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return the truth value of `left <= right`."""
    return b.op("LessOrEqual", left, right)
