"""Search for nan and infinite values at the end of a run, and for the first row with such a value.

Only last rows, final states and whole evaluations are checked, which costs almost nothing. If a checked
value is not finite, all rows are searched for the first such value. With `nan="stop"`, every step is
checked, which also finds values that are not finite in intermediate steps only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array, Data
from mdf_loop.ir.types import dtype_name, kind_of
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.lengths import padding_mask

CHECKED_ELEMENTS = 1 << 14
"""Maximum size of an array that is checked completely, and size of the checked ends of a larger array."""

_BLOCK_ELEMENTS = 1 << 18
"""Number of elements of a block of rows that is searched at once."""

_REMEDY = 'nan="stop" (--nan stop) ends a run at the first such value'

Word = Literal["nan", "infinite"]


class NotFinite(Struct, frozen=True):
    """First nan or infinite value in the recorded rows or final states of a run.

    Attributes:
        name: Name of the output or the state.
        word: `nan` or `infinite`.
        order: Position of the output among all outputs.
        row: Number of the row, or None for a single number, a reduction or a state.
        at: Time or step of the row as text, or "" without an axis of time.
        member: Number of the member of a sweep, or None.
        trial: Number of the trial, or None.
        is_state: True for a state that is not recorded as an output.
    """

    name: str
    word: Word
    order: int = 0
    row: int | None = None
    at: str = ""
    member: int | None = None
    trial: int | None = None
    is_state: bool = False

    @property
    def sentence(self) -> str:
        """Sentence with output, row and remedy: `'cell.v' became nan in row 12 (time 6 ms): ...`."""
        members = {"member": self.member, "trial": self.trial}
        whose = [f"{word} {number}" for word, number in members.items() if number is not None]
        name = f"'{self.name}'" + (f" of {', '.join(whose)}" if whose else "")
        if self.is_state:
            return f"the state {name} is {self.word} after the last step: {_REMEDY}"
        if self.at:
            return f"{name} became {self.word} in row {self.row} ({self.at}): {_REMEDY}"
        place = "" if self.row is None else f" in row {self.row}"
        return f"{name} is {self.word}{place}: {_REMEDY}"


def earliest(places: Iterable[NotFinite | None]) -> NotFinite | None:
    """Return the finding with the earliest row, then the first output and member, or None."""
    findings = (each for each in places if each is not None)
    return min(findings, key=_sort_key, default=None)


def _sort_key(place: NotFinite) -> tuple[Any, ...]:
    has_time = place.row is not None and bool(place.at)
    row = place.row if has_time else math.inf
    return place.is_state, row, place.order, place.member or 0, place.trial or 0


# --- checks of ends ---------------------------------------------------------------------------


def is_finite(data: Data) -> bool:
    """Return True if all numbers are finite. Of a large array, only both ends are checked."""
    if data is None or isinstance(data, list):
        return all(map(is_finite, data or ()))
    kind = data.dtype.kind
    if kind != "f":
        return not _is_inexact(data) or bool(np.isfinite(data).all())
    if data.ndim == 0:
        return math.isfinite(data)
    if data.size > CHECKED_ELEMENTS:
        flat = data.reshape(-1)
        return _all_finite(flat[:CHECKED_ELEMENTS]) and _all_finite(flat[-CHECKED_ELEMENTS:])
    return _all_finite(data)


def _all_finite(array: Array) -> bool:
    """Return True if all elements are finite. A search in bytes takes half the time of NumPy's `all`."""
    return b"\0" not in np.isfinite(array).tobytes()


def _is_inexact(array: Array) -> bool:
    """Return True if an array has a floating-point or complex dtype, including those of ml_dtypes."""
    kind = array.dtype.kind
    return kind in "fc" or (kind == "V" and kind_of(dtype_name(array)) in "fc")


class RowEnds:
    """Check of the last recorded rows, and numbers of rows in which nodes had not run.

    Attributes:
        are_finite: True if all last rows are finite, or None without any rows.
        unrun: Number of rows of each member before the first run of an output's node.
    """

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self.are_finite: bool | None = None
        self.unrun: dict[str, Array] = {}

    def check_rows(self, rows: Mapping[str, Array], flags: Mapping[str, Array]) -> None:
        """Check the last of further rows for nan and infinity.

        `flags` has arrays by output that are True in rows in which the node ran.
        """
        for name, flag_rows in flags.items():
            if not flag_rows.all():
                self.unrun[name] = self.unrun.get(name, 0) + (~flag_rows).sum(axis=self._axis)
        last = (slice(None),) * self._axis + (-1,)
        self.are_finite = all(
            is_finite(array[last]) or self._is_unrun(array[last], flags.get(name), last)
            for name, array in rows.items()
        )

    def _is_unrun(self, row: Array, flags: Array | None, last: tuple[Any, ...]) -> bool:
        """Return True if a row is only not finite for members whose node has not run."""
        if flags is None:
            return False
        has_run = flags[last]
        return is_finite(np.asarray(row)[has_run])


# --- search -----------------------------------------------------------------------------------


def find_in_outputs(results: Outputs, missing: Mapping[str, Array]) -> NotFinite | None:
    """Return the first value of all outputs that is not finite, padding excluded.

    Args:
        results: Outputs, in memory or read lazily.
        missing: Number of first rows that the node of an output has not computed, for each member.
    """
    first_finding: NotFinite | None = None
    for order, name in enumerate(results):
        front = results.axes_of(name)
        if any(axis.name == "time" for axis in front):
            end_row = None if first_finding is None else first_finding.row
            finding = _search_rows(results, name, order, missing.get(name), end_row)
        elif name in missing:  # a reduction over rows that are partly missing
            finding = None
        else:
            finding = _search_whole(results, name, order)
        first_finding = earliest((first_finding, finding))
    return first_finding


def find_in_states(state: Mapping[str, Array]) -> NotFinite | None:
    """Return the first state that is not finite, or None."""
    for label, array in state.items():
        if not is_finite(array):
            word: Word = "nan" if np.isnan(array).any() else "infinite"
            return NotFinite(label.rpartition(" ")[2], word, is_state=True)
    return None


def _search_whole(results: Outputs, name: str, order: int) -> NotFinite | None:
    """Return the first value of one output without time axis that is not finite, or None."""
    data, front = results[name], results.axes_of(name)
    for array in data if isinstance(data, list) else [data]:
        if array is None or not _is_inexact(array) or is_finite(array):
            continue
        mask = _not_finite_mask(np.asarray(array), results.lengths.get(name), len(front))
        if mask.any():
            place = np.unravel_index(int(np.argmax(mask)), mask.shape)
            number = np.asarray(array)[place]
            row = int(place[len(front)]) if len(place) > len(front) else None
            return _make_finding(name, number, order, row, "", _member_numbers(front, place))
    return None


def _search_rows(
    results: Outputs, name: str, order: int, missing: Array | None, end_row: int | None
) -> NotFinite | None:
    """Return the first value of an output over time that is not finite, searched in rows before `end_row`."""
    data: Any = results[name]
    if isinstance(data, list) or data is None or not _is_inexact(data):
        return None
    front = results.axes_of(name)
    time = next(k for k, axis in enumerate(front) if axis.name == "time")
    lengths = results.lengths.get(name)
    for first, rows, block_lengths in _iterate_blocks(data, lengths, time, end_row):
        mask = np.moveaxis(_not_finite_mask(rows, block_lengths, len(front)), time, 0)
        if missing is not None:
            members = mask.shape[1 : len(front)]
            numbers = np.arange(first, first + len(mask)).reshape(-1, *(1,) * len(members))
            is_run = numbers >= np.broadcast_to(missing, math.prod(members)).reshape(members)
            mask &= is_run.reshape(*is_run.shape, *(1,) * (mask.ndim - is_run.ndim))
        if mask.any():
            row, *place = np.unravel_index(int(np.argmax(mask)), mask.shape)
            member_axes = (*front[:time], *front[time + 1 :])
            values = np.moveaxis(rows, time, 0)[(row, *place[: len(member_axes)])]
            time_text = _format_time(front[time], first + int(row), results.units)
            return _make_finding(
                name,
                values,
                order,
                first + int(row),
                time_text,
                _member_numbers(member_axes, place),
            )
    return None


def _iterate_blocks(
    data: Any, lengths: Any, time: int, end_row: int | None
) -> Iterator[tuple[int, Array, Array | None]]:
    """Yield blocks of rows along the time axis: the number of the first row, the rows, and their lengths."""
    size = math.prod(data.shape) // max(data.shape[time], 1)
    chunk = getattr(data, "chunks", None)
    step = max(1, _BLOCK_ELEMENTS // max(size, 1)) if chunk is None else chunk[time]
    end = data.shape[time] if end_row is None else min(end_row, data.shape[time])
    for first in range(0, end, step):
        place = (*(slice(None),) * time, slice(first, min(first + step, end)))
        yield (
            first,
            np.asarray(data[place]),
            None if lengths is None else np.asarray(lengths[place]),
        )


def _not_finite_mask(rows: Array, lengths: Array | None, front: int) -> Array:
    """Return a mask of the numbers that are not finite, padding of shorter rows excluded."""
    mask: Array = ~np.isfinite(rows)
    return mask if lengths is None else mask & ~padding_mask(lengths, rows.shape, front)


def _make_finding(
    name: str, values: Any, order: int, row: int | None, at: str, members: Mapping[str, int]
) -> NotFinite:
    word: Word = "nan" if np.isnan(values).any() else "infinite"
    return NotFinite(name, word, order, row, at, members.get("member"), members.get("trial"))


def _member_numbers(front: tuple[Axis, ...], place: Iterable[Any]) -> dict[str, int]:
    """Return the number of the member of a sweep, and of the trial, at an index."""
    numbers: dict[str, int] = {}
    for axis, index in zip(front, place, strict=False):
        if axis.name == "trial":
            numbers["trial"] = int(np.asarray(axis.coordinates["trial"])[index])
        elif axis.is_swept:
            numbers["member"] = numbers.get("member", 0) * axis.length + int(index)
    return numbers


def _format_time(axis: Axis, row: int, units: Mapping[str, str]) -> str:
    """Return the time of a row with its unit, or its step number, as text."""
    ((word, along),) = axis.coordinates.items()
    value = np.asarray(along[row : row + 1])[0]
    return f"step {int(value)}" if word == "step" else f"time {float(value):.6g} {units['time']}"
