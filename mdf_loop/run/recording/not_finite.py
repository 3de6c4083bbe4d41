"""Values that are nan or infinite when a run has ended, and the first row that holds one.

Only last rows, final states and whole evaluations are looked at, which costs next to nothing. Where
one of them is not finite, all rows are searched for the first one: `nan="stop"` does that in every
step, and finds values that are not finite in some steps only, too.
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
from mdf_loop.run.recording.lengths import is_padding

WHOLE = 1 << 14
"""Elements up to which all of an array is looked at; of a larger one so many at each end."""

_AT_ONCE = 1 << 18
"""Elements of a block of rows that are searched at once."""

_REMEDY = 'nan="stop" (--nan stop) ends a run at the first such value'

Word = Literal["nan", "infinite"]


class NotFinite(Struct, frozen=True):
    """The first value of a run that is not finite, as far as rows show it.

    Attributes:
        name: the output, or the state.
        word: `nan` or `infinite`.
        order: the place of the output among all of them.
        row: the number of the row; None for a single number, a reduction and a state.
        at: the time or the step of the row, as text; empty where there is no axis of time.
        member: the number of the member of a sweep.
        trial: the number of the trial.
        is_state: True for a state that no output shows.
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
        """The output, the row and the remedy: `'cell.v' became nan in row 12 (time 6 ms): ...`."""
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
    """Return the first of some values: of the earliest row, then of the first output and member."""
    there = (each for each in places if each is not None)
    return min(there, key=_rank, default=None)


def _rank(place: NotFinite) -> tuple[Any, ...]:
    timed = place.row is not None and bool(place.at)
    row = place.row if timed else math.inf
    return place.is_state, row, place.order, place.member or 0, place.trial or 0


# --- looking --------------------------------------------------------------------------------------


def is_finite(data: Data) -> bool:
    """Return True if numbers are finite; of a large array only both ends are looked at."""
    if data is None or isinstance(data, list):
        return all(map(is_finite, data or ()))
    kind = data.dtype.kind
    if kind != "f":
        return not _has_point(data) or bool(np.isfinite(data).all())
    if data.ndim == 0:
        return math.isfinite(data)
    if data.size > WHOLE:
        flat = data.reshape(-1)
        return _all_finite(flat[:WHOLE]) and _all_finite(flat[-WHOLE:])
    return _all_finite(data)


def _all_finite(array: Array) -> bool:
    """Return True if all are finite; to search bytes takes half the time of numpy's `all`."""
    return b"\0" not in np.isfinite(array).tobytes()


def _has_point(array: Array) -> bool:
    """Return True for floats and complex numbers, those of ml_dtypes included."""
    kind = array.dtype.kind
    return kind in "fc" or (kind == "V" and kind_of(dtype_name(array)) in "fc")


class RowEnds:
    """The ends of rows that are kept: the last row of each output, and rows before its node has run.

    Attributes:
        are_finite: True if all last rows are; None as long as there are no rows.
        unrun: the number of rows, of each member, that come before the first run of an output's node.
    """

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self.are_finite: bool | None = None
        self.unrun: dict[str, Array] = {}

    def take(self, rows: Mapping[str, Array], flags: Mapping[str, Array]) -> None:
        """Look at further rows; `flags` say of some of them, by name, whether the node has run."""
        for name, flag_rows in flags.items():
            if not flag_rows.all():
                self.unrun[name] = self.unrun.get(name, 0) + (~flag_rows).sum(axis=self._axis)
        last = (slice(None),) * self._axis + (-1,)
        self.are_finite = all(
            is_finite(array[last]) or self._is_unrun(array[last], flags.get(name), last)
            for name, array in rows.items()
        )

    def _is_unrun(self, row: Array, flags: Array | None, last: tuple[Any, ...]) -> bool:
        """Return True if what is not finite is only missing: its node has not run."""
        if flags is None:
            return False
        has_run = flags[last]
        return is_finite(np.asarray(row)[has_run])


# --- searching ------------------------------------------------------------------------------------


def find_in_outputs(results: Outputs, missing: Mapping[str, Array]) -> NotFinite | None:
    """Return the first value of all outputs that is not finite, padding apart.

    Args:
        results: the outputs, in memory or read where they are looked at.
        missing: by output, for each member, the number of first rows that its node has not computed.
    """
    first_place: NotFinite | None = None
    for order, name in enumerate(results):
        front = results.axes_of(name)
        if any(axis.name == "time" for axis in front):
            before = None if first_place is None else first_place.row
            here = _in_rows(results, name, order, missing.get(name), before)
        elif name in missing:  # a reduction of rows that are missing in part
            here = None
        else:
            here = _in_whole(results, name, order)
        first_place = earliest((first_place, here))
    return first_place


def find_in_states(state: Mapping[str, Array]) -> NotFinite | None:
    """Return the first state that is not finite."""
    for label, array in state.items():
        if not is_finite(array):
            word: Word = "nan" if np.isnan(array).any() else "infinite"
            return NotFinite(label.rpartition(" ")[2], word, is_state=True)
    return None


def _in_whole(results: Outputs, name: str, order: int) -> NotFinite | None:
    """Return the first value of one output without an axis of time."""
    data, front = results[name], results.axes_of(name)
    for array in data if isinstance(data, list) else [data]:
        if array is None or not _has_point(array) or is_finite(array):
            continue
        wrong = _not_finite(np.asarray(array), results.lengths.get(name), len(front))
        if wrong.any():
            place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            number = np.asarray(array)[place]
            row = int(place[len(front)]) if len(place) > len(front) else None
            return _found(name, number, order, row, "", _members(front, place))
    return None


def _in_rows(
    results: Outputs, name: str, order: int, missing: Array | None, before: int | None
) -> NotFinite | None:
    """Return the first value of an output over time, if it is in a row `before` another one."""
    data: Any = results[name]
    if isinstance(data, list) or data is None or not _has_point(data):
        return None
    front = results.axes_of(name)
    time = next(k for k, axis in enumerate(front) if axis.name == "time")
    lengths = results.lengths.get(name)
    for first, rows, own in _blocks(data, lengths, time, before):
        wrong = np.moveaxis(_not_finite(rows, own, len(front)), time, 0)
        if missing is not None:
            members = wrong.shape[1 : len(front)]
            numbers = np.arange(first, first + len(wrong)).reshape(-1, *(1,) * len(members))
            is_run = numbers >= np.broadcast_to(missing, math.prod(members)).reshape(members)
            wrong &= is_run.reshape(*is_run.shape, *(1,) * (wrong.ndim - is_run.ndim))
        if wrong.any():
            row, *place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            others = (*front[:time], *front[time + 1 :])
            values = np.moveaxis(rows, time, 0)[(row, *place[: len(others)])]
            text = _at(front[time], first + int(row), results.units)
            return _found(name, values, order, first + int(row), text, _members(others, place))
    return None


def _blocks(
    data: Any, lengths: Any, time: int, before: int | None
) -> Iterator[tuple[int, Array, Array | None]]:
    """Yield rows block by block along the axis of time, with the number of the first one and lengths."""
    size = math.prod(data.shape) // max(data.shape[time], 1)
    chunk = getattr(data, "chunks", None)
    step = max(1, _AT_ONCE // max(size, 1)) if chunk is None else chunk[time]
    end = data.shape[time] if before is None else min(before, data.shape[time])
    for first in range(0, end, step):
        place = (*(slice(None),) * time, slice(first, min(first + step, end)))
        yield (
            first,
            np.asarray(data[place]),
            None if lengths is None else np.asarray(lengths[place]),
        )


def _not_finite(rows: Array, lengths: Array | None, front: int) -> Array:
    """Return where numbers are not finite, except behind the ends of shorter rows."""
    wrong: Array = ~np.isfinite(rows)
    return wrong if lengths is None else wrong & ~is_padding(lengths, rows.shape, front)


def _found(
    name: str, values: Any, order: int, row: int | None, at: str, members: Mapping[str, int]
) -> NotFinite:
    word: Word = "nan" if np.isnan(values).any() else "infinite"
    return NotFinite(name, word, order, row, at, members.get("member"), members.get("trial"))


def _members(front: tuple[Axis, ...], place: Iterable[Any]) -> dict[str, int]:
    """Return the numbers of the member of a sweep, and of the trial, at a place."""
    numbers: dict[str, int] = {}
    for axis, index in zip(front, place, strict=False):
        if axis.name == "trial":
            numbers["trial"] = int(np.asarray(axis.coordinates["trial"])[index])
        elif axis.is_swept:
            numbers["member"] = numbers.get("member", 0) * axis.length + int(index)
    return numbers


def _at(axis: Axis, row: int, units: Mapping[str, str]) -> str:
    """Return the time of a row with its unit, or the number of its step."""
    ((word, along),) = axis.coordinates.items()
    value = np.asarray(along[row : row + 1])[0]
    return f"step {int(value)}" if word == "step" else f"time {float(value):.6g} {units['time']}"
