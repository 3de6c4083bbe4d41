"""Trip count of a loop: the argument `M`, or the smallest number of parts of a sliced array.

With slices and no M (or an M of -1), the number of iterations is the number of parts of the shortest slice. A
larger M is an error, a smaller M gives fewer iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.errors import TripCountError
from mdf_loop.ir import Value
from mdf_loop.lower import Scope, cast, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import (
    check_value,
    equal,
    greater_equal,
    guard_value,
    not_equal,
    one_element,
)
from mdf_loop.reading.loop_forms import LoopForm
from mdf_loop.reading.slices import Slice


def lower_trip_count(
    b: ModelBuilder, form: LoopForm, scope: Scope, slices: Sequence[Slice]
) -> Value | None:
    """Append operations that compute the trip count of a loop, or return None if the loop has no limit."""
    smallest_part_count = _find_smallest_part_count(b, form, slices)
    if form.trip_count is None:
        return smallest_part_count
    trip_count_term = lower_expression(b, form.trip_count, scope, "M")
    trip_count = (
        None
        if isinstance(trip_count_term, tuple) and len(trip_count_term) != 1
        else one_element(b, tensor(b, trip_count_term))
    )
    if trip_count is None or trip_count.dtype in ("string", "bool"):
        argument_text = (
            f"{len(trip_count_term)} values"
            if isinstance(trip_count_term, tuple)
            else f"{trip_count_term.type}"
        )
        raise TripCountError(
            f"the trip count of '{form.name}' must be one whole number, not {argument_text}",
            hint="give M as one integer",
        )
    known_trip_count = b.constant_of(trip_count)
    if known_trip_count is None:
        return _guard_trip_count(
            b, form, _check_at_run_time(b, form, trip_count, smallest_part_count), slices
        )
    checked_count = _check_constant(
        form,
        float(known_trip_count),
        int(known_trip_count) if known_trip_count.dtype.kind in "iu" else None,
    )
    if checked_count == -1 and not form.has_onnx_semantics:
        return smallest_part_count
    return _guard_trip_count(b, form, b.constant(np.array(checked_count, np.int64)), slices)


def _find_smallest_part_count(
    b: ModelBuilder, form: LoopForm, slices: Sequence[Slice]
) -> Value | None:
    """Return the smallest number of parts that any sliced array of the loop has."""
    if not slices:
        return None
    first_slice, *other_slices = slices
    part_count = first_slice.part_count
    for other_slice in other_slices:
        if form.needs_equal_slices:
            unequal_lengths_error = TripCountError(
                f"'{first_slice.slice_form.name}' and '{other_slice.slice_form.name}' have different lengths",
                form.where,
                "all scan inputs must have one length along their axes",
            )
            part_count = check_value(
                b,
                part_count,
                b.op("Equal", part_count, other_slice.part_count),
                unequal_lengths_error,
            )
        elif other_slice.part_count is not part_count:
            part_count = b.op("Min", part_count, other_slice.part_count)
    return part_count


def _guard_trip_count(
    b: ModelBuilder, form: LoopForm, trip_count: Value, slices: Sequence[Slice]
) -> Value:
    """Return the trip count, checked so that a run fails if a sliced array has too few parts."""
    for scan_slice in slices:
        part_count = b.constant_of(scan_slice.part_count)
        part_text = f"has only {part_count}" if part_count is not None else "has fewer parts"
        too_few_parts_error = TripCountError(
            f"the trip count of '{form.name}' is larger than the slice '{scan_slice.slice_form.name}' of "
            f"'{scan_slice.slice_form.source_expression}' allows, which {part_text}",
            hint="leave M out to run as often as the shortest slice allows",
        )
        trip_count = check_value(
            b,
            trip_count,
            b.op("LessOrEqual", trip_count, scan_slice.part_count),
            too_few_parts_error,
        )
    return trip_count


def _check_constant(form: LoopForm, number: float, integer: int | None) -> int:
    """Return a constant trip count as an integer, or raise TripCountError if it is not an integer."""
    if integer is None and (not np.isfinite(number) or number != int(number)):
        raise TripCountError(
            f"the trip count of '{form.name}' must be a whole number, not {number}",
            hint="round it, e.g. int(...)",
        )
    trip_count = int(number) if integer is None else integer
    if abs(trip_count) > np.iinfo(np.int64).max:
        raise TripCountError(
            f"the trip count of '{form.name}' is too large: {number:g}",
            hint="leave M out and give a condition, if the loop has no limit",
        )
    return trip_count


def _check_at_run_time(
    b: ModelBuilder, form: LoopForm, value: Value, smallest_part_count: Value | None
) -> Value:
    """Convert a trip count computed at run time to int64, and add run-time checks.

    A count of -1 means that there is no trip count.
    """
    integer_count = cast(b, value, "int64")
    if value.dtype == "uint64":
        message = f"the trip count of '{form.name}' is too large"
        integer_count = guard_value(
            b, integer_count, greater_equal(b, integer_count, b.constant(np.array(0))), message
        )
    if np.dtype(value.dtype).kind == "f":
        float_count = cast(b, integer_count, value.dtype)
        message = f"the trip count of '{form.name}' must be a whole number"
        integer_count = guard_value(b, integer_count, equal(b, float_count, value), message)
    if form.has_onnx_semantics:
        return integer_count
    minus_one = b.constant(np.array(-1))
    max_iterations = b.options.max_iterations
    if smallest_part_count is None and form.condition is None and max_iterations is None:
        message = (
            f"the loop '{form.name}' has a trip count of -1 (none) and no condition: "
            "it would never end"
        )
        return guard_value(b, integer_count, not_equal(b, integer_count, minus_one), message)
    iteration_limit = b.constant(
        np.array(np.iinfo(np.int64).max if max_iterations is None else max_iterations)
    )
    return b.op(
        "Where",
        equal(b, integer_count, minus_one),
        iteration_limit if smallest_part_count is None else smallest_part_count,
        integer_count,
    )
