"""Trip count of a loop: the argument `M`, or the length of the slices.

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


def trip_count(
    b: ModelBuilder, form: LoopForm, scope: Scope, slices: Sequence[Slice]
) -> Value | None:
    """Return the maximum number of iterations of the loop, or None without a limit."""
    shortest = _of_slices(b, form, slices)
    if form.trip_count is None:
        return shortest
    term = lower_expression(b, form.trip_count, scope, "M")
    value = None if isinstance(term, tuple) and len(term) != 1 else one_element(b, tensor(b, term))
    if value is None or value.dtype in ("string", "bool"):
        description = f"{len(term)} values" if isinstance(term, tuple) else f"{term.type}"
        raise TripCountError(
            f"the trip count of '{form.name}' must be one whole number, not {description}",
            hint="give M as one integer",
        )
    known = b.constant_of(value)
    if known is None:
        return _bounded(b, form, _run_time(b, form, value, shortest), slices)
    count = _known(form, float(known), int(known) if known.dtype.kind in "iu" else None)
    if count == -1 and not form.as_onnx:
        return shortest
    return _bounded(b, form, b.constant(np.array(count, np.int64)), slices)


def _of_slices(b: ModelBuilder, form: LoopForm, slices: Sequence[Slice]) -> Value | None:
    """Return the number of parts of the shortest slice."""
    if not slices:
        return None
    first, *others = slices
    parts = first.parts
    for other in others:
        if form.equal_slices:
            error = TripCountError(
                f"'{first.form.name}' and '{other.form.name}' have different lengths",
                form.where,
                "all scan inputs must have one length along their axes",
            )
            parts = check_value(b, parts, b.op("Equal", parts, other.parts), error)
        elif other.parts is not parts:
            parts = b.op("Min", parts, other.parts)
    return parts


def _bounded(b: ModelBuilder, form: LoopForm, count: Value, slices: Sequence[Slice]) -> Value:
    """Guard the trip count: a run fails if a slice is too short for the trip count."""
    for scan_slice in slices:
        known = b.constant_of(scan_slice.parts)
        has = f"has only {known}" if known is not None else "has fewer parts"
        error = TripCountError(
            f"the trip count of '{form.name}' is larger than the slice '{scan_slice.form.name}' of "
            f"'{scan_slice.form.of}' allows, which {has}",
            hint="leave M out to run as often as the shortest slice allows",
        )
        count = check_value(b, count, b.op("LessOrEqual", count, scan_slice.parts), error)
    return count


def _known(form: LoopForm, number: float, whole: int | None) -> int:
    """Return a constant trip count as an integer. Raise TripCountError if the number is not an integer."""
    if whole is None and (not np.isfinite(number) or number != int(number)):
        raise TripCountError(
            f"the trip count of '{form.name}' must be a whole number, not {number}",
            hint="round it, e.g. int(...)",
        )
    count = int(number) if whole is None else whole
    if abs(count) > np.iinfo(np.int64).max:
        raise TripCountError(
            f"the trip count of '{form.name}' is too large: {number:g}",
            hint="leave M out and give a condition, if the loop has no limit",
        )
    return count


def _run_time(b: ModelBuilder, form: LoopForm, value: Value, shortest: Value | None) -> Value:
    """Return a trip count that is known only at run time. A count of -1 means no trip count."""
    whole = cast(b, value, "int64")
    if value.dtype == "uint64":
        sentence = f"the trip count of '{form.name}' is too large"
        whole = guard_value(b, whole, greater_equal(b, whole, b.constant(np.array(0))), sentence)
    if np.dtype(value.dtype).kind == "f":
        back = cast(b, whole, value.dtype)
        sentence = f"the trip count of '{form.name}' must be a whole number"
        whole = guard_value(b, whole, equal(b, back, value), sentence)
    if form.as_onnx:
        return whole
    none = b.constant(np.array(-1))
    bound = b.options.max_iterations
    if shortest is None and form.condition is None and bound is None:
        sentence = (
            f"the loop '{form.name}' has a trip count of -1 (none) and no condition: "
            "it would never end"
        )
        return guard_value(b, whole, not_equal(b, whole, none), sentence)
    most = b.constant(np.array(np.iinfo(np.int64).max if bound is None else bound))
    return b.op("Where", equal(b, whole, none), most if shortest is None else shortest, whole)
