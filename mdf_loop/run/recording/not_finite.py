"""Search for the first nan or infinite value in results.

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
    """First nan or infinite value in the outputs or final states of a run.

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
        """Message with output, row and remedy: `'cell.v' became nan in row 12 (time 6 ms): ...`."""
        number_by_axis = {"member": self.member, "trial": self.trial}
        member_texts = [
            f"{axis_name} {number}"
            for axis_name, number in number_by_axis.items()
            if number is not None
        ]
        quoted_name = f"'{self.name}'" + (f" of {', '.join(member_texts)}" if member_texts else "")
        if self.is_state:
            return f"the state {quoted_name} is {self.word} after the last step: {_REMEDY}"
        if self.at:
            return f"{quoted_name} became {self.word} in row {self.row} ({self.at}): {_REMEDY}"
        row_text = "" if self.row is None else f" in row {self.row}"
        return f"{quoted_name} is {self.word}{row_text}: {_REMEDY}"


def earliest(candidates: Iterable[NotFinite | None]) -> NotFinite | None:
    """Return the earliest of several nan or infinite values, or None if there are none.

    The order is row, then output, then member.
    """
    findings = (finding for finding in candidates if finding is not None)
    return min(findings, key=_sort_key, default=None)


def _sort_key(finding: NotFinite) -> tuple[Any, ...]:
    has_time = finding.row is not None and bool(finding.at)
    row = finding.row if has_time else math.inf
    return finding.is_state, row, finding.order, finding.member or 0, finding.trial or 0


# --- checks of ends ---------------------------------------------------------------------------


def is_finite(data: Data) -> bool:
    """Return True if all numbers are finite.

    Of a large array, only both ends are checked.
    """
    if data is None or isinstance(data, list):
        return all(map(is_finite, data or ()))
    dtype_kind = data.dtype.kind
    if dtype_kind != "f":
        return not _is_inexact(data) or bool(np.isfinite(data).all())
    if data.ndim == 0:
        return math.isfinite(data)
    if data.size > CHECKED_ELEMENTS:
        flat_array = data.reshape(-1)
        return _all_finite(flat_array[:CHECKED_ELEMENTS]) and _all_finite(
            flat_array[-CHECKED_ELEMENTS:]
        )
    return _all_finite(data)


def _all_finite(array: Array) -> bool:
    """Return True if all elements of an array are finite.

    A search in bytes takes half the time of NumPy's `all`.
    """
    return b"\0" not in np.isfinite(array).tobytes()


def _is_inexact(array: Array) -> bool:
    """Return True if an array has a floating-point or complex dtype, also one of ml_dtypes."""
    dtype_kind = array.dtype.kind
    return dtype_kind in "fc" or (dtype_kind == "V" and kind_of(dtype_name(array)) in "fc")


class RowMonitor:
    """Monitor that checks the last recorded rows for nan, and counts rows before a node first ran.

    Attributes:
        are_finite: True if all last rows are finite, or None without any rows.
        unrun_counts: Number of rows of each member before the first run of an output's node.
    """

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self.are_finite: bool | None = None
        self.unrun_counts: dict[str, Array] = {}

    def check_rows(self, rows: Mapping[str, Array], flags: Mapping[str, Array]) -> None:
        """Check the last row of newly recorded rows for nan and infinity.

        `flags` has arrays by output that are True in rows in which the node ran.
        """
        for name, flag_rows in flags.items():
            if not flag_rows.all():
                self.unrun_counts[name] = self.unrun_counts.get(name, 0) + (~flag_rows).sum(
                    axis=self._axis
                )
        last_index = (slice(None),) * self._axis + (-1,)
        self.are_finite = all(
            is_finite(array[last_index])
            or self._is_unrun(array[last_index], flags.get(name), last_index)
            for name, array in rows.items()
        )

    def _is_unrun(self, row: Array, flags: Array | None, last_index: tuple[Any, ...]) -> bool:
        """Return True if a row has nan only for members whose node has not run."""
        if flags is None:
            return False
        has_run = flags[last_index]
        return is_finite(np.asarray(row)[has_run])


# --- search -----------------------------------------------------------------------------------


def find_in_outputs(results: Outputs, missing: Mapping[str, Array]) -> NotFinite | None:
    """Return the first nan or infinite value in all outputs, or None.

    Padding does not count.

    Args:
        results: Outputs, in memory or read lazily.
        missing: Number of first rows that the node of an output has not computed, for each member.
    """
    first_finding: NotFinite | None = None
    for output_index, name in enumerate(results):
        leading_axes = results.axes_of(name)
        if any(axis.name == "time" for axis in leading_axes):
            end_row = None if first_finding is None else first_finding.row
            finding = _search_rows(results, name, output_index, missing.get(name), end_row)
        elif name in missing:  # a reduction over rows that are partly missing
            finding = None
        else:
            finding = _search_whole(results, name, output_index)
        first_finding = earliest((first_finding, finding))
    return first_finding


def find_in_states(state: Mapping[str, Array]) -> NotFinite | None:
    """Return the first state that contains nan or infinity, or None."""
    for label, array in state.items():
        if not is_finite(array):
            nonfinite_word: Word = "nan" if np.isnan(array).any() else "infinite"
            return NotFinite(label.rpartition(" ")[2], nonfinite_word, is_state=True)
    return None


def _search_whole(results: Outputs, name: str, order: int) -> NotFinite | None:
    """Return the first nan or infinite value in an output without time axis, or None."""
    output_data, leading_axes = results[name], results.axes_of(name)
    for array in output_data if isinstance(output_data, list) else [output_data]:
        if array is None or not _is_inexact(array) or is_finite(array):
            continue
        mask = _not_finite_mask(np.asarray(array), results.lengths.get(name), len(leading_axes))
        if mask.any():
            element_index = np.unravel_index(int(np.argmax(mask)), mask.shape)
            element = np.asarray(array)[element_index]
            row = (
                int(element_index[len(leading_axes)])
                if len(element_index) > len(leading_axes)
                else None
            )
            return _make_finding(
                name, element, order, row, "", _member_numbers(leading_axes, element_index)
            )
    return None


def _search_rows(
    results: Outputs, name: str, order: int, missing: Array | None, end_row: int | None
) -> NotFinite | None:
    """Return the first nan or infinite value in an output over time, or None.

    Only rows before `end_row` are searched.
    """
    output_data: Any = results[name]
    if isinstance(output_data, list) or output_data is None or not _is_inexact(output_data):
        return None
    leading_axes = results.axes_of(name)
    time_axis = next(position for position, axis in enumerate(leading_axes) if axis.name == "time")
    row_lengths = results.lengths.get(name)
    for first_row, rows, block_lengths in _iterate_blocks(
        output_data, row_lengths, time_axis, end_row
    ):
        mask = np.moveaxis(_not_finite_mask(rows, block_lengths, len(leading_axes)), time_axis, 0)
        if missing is not None:
            members_shape = mask.shape[1 : len(leading_axes)]
            row_numbers = np.arange(first_row, first_row + len(mask)).reshape(
                -1, *(1,) * len(members_shape)
            )
            has_run = row_numbers >= np.broadcast_to(missing, math.prod(members_shape)).reshape(
                members_shape
            )
            mask &= has_run.reshape(*has_run.shape, *(1,) * (mask.ndim - has_run.ndim))
        if mask.any():
            row, *member_index = np.unravel_index(int(np.argmax(mask)), mask.shape)
            member_axes = (*leading_axes[:time_axis], *leading_axes[time_axis + 1 :])
            row_values = np.moveaxis(rows, time_axis, 0)[(row, *member_index[: len(member_axes)])]
            time_text = _format_time(leading_axes[time_axis], first_row + int(row), results.units)
            return _make_finding(
                name,
                row_values,
                order,
                first_row + int(row),
                time_text,
                _member_numbers(member_axes, member_index),
            )
    return None


def _iterate_blocks(
    data: Any, lengths: Any, time_axis: int, end_row: int | None
) -> Iterator[tuple[int, Array, Array | None]]:
    """Yield an array in blocks of rows: the first row's number, the rows, and their lengths."""
    row_size = math.prod(data.shape) // max(data.shape[time_axis], 1)
    chunk_shape = getattr(data, "chunks", None)
    block_rows = (
        max(1, _BLOCK_ELEMENTS // max(row_size, 1))
        if chunk_shape is None
        else chunk_shape[time_axis]
    )
    block_end = data.shape[time_axis] if end_row is None else min(end_row, data.shape[time_axis])
    for first_row in range(0, block_end, block_rows):
        block_index = (
            *(slice(None),) * time_axis,
            slice(first_row, min(first_row + block_rows, block_end)),
        )
        yield (
            first_row,
            np.asarray(data[block_index]),
            None if lengths is None else np.asarray(lengths[block_index]),
        )


def _not_finite_mask(rows: Array, lengths: Array | None, leading_ndim: int) -> Array:
    """Return a mask of nan and infinite elements, without the padding of shorter rows."""
    mask: Array = ~np.isfinite(rows)
    return mask if lengths is None else mask & ~padding_mask(lengths, rows.shape, leading_ndim)


def _make_finding(
    name: str, values: Any, order: int, row: int | None, at: str, members: Mapping[str, int]
) -> NotFinite:
    nonfinite_word: Word = "nan" if np.isnan(values).any() else "infinite"
    return NotFinite(
        name, nonfinite_word, order, row, at, members.get("member"), members.get("trial")
    )


def _member_numbers(leading_axes: tuple[Axis, ...], array_index: Iterable[Any]) -> dict[str, int]:
    """Return the numbers of the sweep member and of the trial at an array index."""
    number_by_axis: dict[str, int] = {}
    for axis, index in zip(leading_axes, array_index, strict=False):
        if axis.name == "trial":
            number_by_axis["trial"] = int(np.asarray(axis.coordinates["trial"])[index])
        elif axis.is_swept:
            number_by_axis["member"] = number_by_axis.get("member", 0) * axis.length + int(index)
    return number_by_axis


def _format_time(axis: Axis, row: int, units: Mapping[str, str]) -> str:
    """Return the time of a row with its unit, or its step number, as text."""
    ((coordinate_name, coordinates),) = axis.coordinates.items()
    coordinate = np.asarray(coordinates[row : row + 1])[0]
    return (
        f"step {int(coordinate)}"
        if coordinate_name == "step"
        else f"time {float(coordinate):.6g} {units['time']}"
    )
