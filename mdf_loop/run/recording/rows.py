"""Rows in memory: arrays that grow along the axis of time, block by block.

Rows are never stored twice. If the number of rows is known in advance, memory for all rows is allocated
at once. The operating system provides each page on its first write.

Rows that are shorter than other rows are padded with nan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized

import numpy as np

from mdf_loop import used_memory
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.memory_limit import check
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.recording.missing import common_shape, pad_rows
from mdf_loop.run.room import Room, shares_memory

_HINT = (
    "stream them to disk (output='run.zarr', --output run.zarr), keep fewer of them (every, when), "
    "or reduce them (reduce)"
)

MAX_GROWTH_BYTES = 1 << 26
"""Maximum bytes by which the memory grows beyond the required size."""


class Rows:
    """Rows of several outputs, `[time, ...]`, or `[members, time, ...]` with `axis=1`.

    A column has the common dtype of its rows, and the smallest shape that contains all of them.
    """

    def __init__(self, axis: int = 0, expected: int | None = None) -> None:
        self.axis = axis
        self.length = 0
        self._expected = expected
        self._columns: dict[str, Column] = {}

    def add(self, coordinate: Sized, rows: Mapping[str, Array]) -> None:
        """Append rows to the columns. Coordinates are not stored.

        Raises:
            MemoryLimitError: All expected rows would exceed the memory limit.
        """
        self._check_memory(rows)
        for name, part in rows.items():
            if name not in self._columns:
                self._columns[name] = Column(name, self._expected)
            self._columns[name].add(_move_axis(part, self.axis, 0))
        self.length += len(coordinate)

    def room(self, count: int) -> Room:
        """Return memory for the next `count` rows of each column."""
        rooms = {name: column.room(count) for name, column in self._columns.items()}
        return {
            name: _move_axis(room, 0, self.axis) for name, room in rooms.items() if room is not None
        }

    def _check_memory(self, rows: Mapping[str, Array]) -> None:
        """Raise at the first rows of a column if all expected rows would exceed the memory limit."""
        new_parts = [part for name, part in rows.items() if name not in self._columns]
        length = self._expected or 0
        size = sum(length * part.nbytes // max(part.shape[self.axis], 1) for part in new_parts)
        if size:
            check(size, f"{length} rows of {_describe_names(rows)}", hint=_HINT)

    def flush(self) -> None:
        """Do nothing, since rows are never buffered."""

    def close(self) -> None:
        """Free the memory beyond the last row."""
        for column in self._columns.values():
            column.trim()

    def arrays(self) -> dict[str, Array]:
        """Return all rows by name."""
        return {
            name: _move_axis(column.rows, 0, self.axis) for name, column in self._columns.items()
        }

    def snapshot(self) -> dict[str, Array]:
        """Return all rows by name, with time as first axis."""
        return {name: column.rows for name, column in self._columns.items()}

    def restore(self, parts: Snapshot, length: int, columns: Mapping[str, str]) -> None:
        """Restore the rows from a snapshot."""
        for name, dtype in columns.items():
            rows = parts.rows(name, length, 0, dtype)
            if rows.ndim <= self.axis:
                raise parts.wrong(name, f"{length} rows for each member of the sweep")
            self._columns[name] = Column(name, self._expected)
            self._columns[name].add(rows)
        self.length = length


class Column:
    """Array that grows along its first axis, to `expected` rows if the number is known.

    The other axes grow if a longer row is added.
    """

    def __init__(self, name: str, expected: int | None = None) -> None:
        self.name = name
        self._expected = expected
        self._length = 0
        self._row: tuple[int, ...] | None = None
        self._room = np.empty((0,))

    @property
    def rows(self) -> Array:
        """All added rows."""
        return self._room[(slice(self._length), *map(slice, self._row or ()))]

    def add(self, part: Array) -> None:
        """Append rows. An empty array only affects the dtype if the column has rows."""
        if not self._has_stored_type(part):
            part = self._widen_and_pad(part)
        if len(part):
            self._enlarge(self._length + len(part))
            place = self._room[self._length : self._length + len(part)]
            if not shares_memory(part, place):
                place[...] = part
            self._length += len(part)

    def _has_stored_type(self, part: Array) -> bool:
        """Return True if rows have the dtype and shape of the stored rows."""
        has_shape = self._row == part.shape[1:] == self._room.shape[1:]
        return has_shape and self._length > 0 and self._room.dtype == part.dtype

    def _widen_and_pad(self, part: Array) -> Array:
        """Widen the stored dtype and shape for new rows, and return the rows padded to the stored shape."""
        dtype = part.dtype if self._row is None else np.result_type(self._room.dtype, part.dtype)
        if not self._length:
            self._row = part.shape[1:]
            self._allocate(len(part), dtype, self._row)
        elif len(part):
            part = self._pad_to_stored(part)
            dtype = np.result_type(self._room.dtype, part.dtype)
        if self._room.dtype != dtype:
            self._reallocate(dtype, self._room.shape[1:])
        return part

    def room(self, count: int) -> Array | None:
        """Return memory for the next `count` rows, or None if it is not allocated."""
        end = self._length + count
        if not self._length or end > len(self._room) or self._room.shape[1:] != self._row:
            return None
        return self._room[self._length : end]

    def trim(self) -> None:
        """Free the memory beyond the last row."""
        if self._room.shape[1:] != (self._row or ()):
            self._room = self.rows.copy()
        elif len(self._room) > self._length:
            self._resize(self._length)

    def _pad_to_stored(self, part: Array) -> Array:
        """Pad rows to the stored row shape, which grows by at least an eighth for longer rows."""
        row = common_shape(self.name, self._row or (), part.shape[1:])
        stored_shape: tuple[int, ...] = self._room.shape[1:]
        extent_pairs = zip(stored_shape, row, strict=True)
        new_shape = tuple(
            old if new <= old else max(new, old + old // 8) for old, new in extent_pairs
        )
        self._row = row
        if new_shape != stored_shape:
            self._reallocate(self._room.dtype, new_shape)
        return pad_rows(self.name, part, (len(part), *new_shape))

    def _reallocate(self, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
        old_rows = pad_rows(self.name, self._room[: self._length], (self._length, *shape))
        self._allocate(self._length, np.result_type(dtype, old_rows.dtype), shape)
        self._room[: self._length] = old_rows

    def _allocate(self, least: int, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
        length = max(least, self._expected or 0)
        try:
            self._room = used_memory.pooled_array((length, *shape), dtype)
        except (MemoryError, ValueError):
            raise self._too_large_error(length, math.prod(shape) * dtype.itemsize) from None

    def _enlarge(self, length: int) -> None:
        """Enlarge the memory to at least `length` rows, and by an eighth to reduce the cost of copies.

        The growth is limited to `MAX_GROWTH_BYTES`, since new memory is zeroed without a check for stops.
        """
        if length <= len(self._room):
            return
        rows = max(1, MAX_GROWTH_BYTES // max(1, self._room[:1].nbytes))
        new_length = max(length, len(self._room) + min(len(self._room) // 8, rows))
        try:
            self._resize(new_length)
        except MemoryError:
            raise self._too_large_error(new_length, self._room[:1].nbytes) from None

    def _resize(self, length: int) -> None:
        """Change the number of allocated rows, in place if possible."""
        shape = (length, *self._room.shape[1:])
        if self._room.flags.owndata:
            self._room.resize(shape, refcheck=False)
            return
        old_rows, self._room = self._room[: self._length], np.empty(shape, self._room.dtype)
        self._room[: self._length] = old_rows

    def _too_large_error(self, length: int, row: int) -> InputError:
        return InputError(
            f"{length} rows of '{self.name}' do not fit into memory: {length * row / 1e9:.3g} GB",
            hint=_HINT,
        )


def _describe_names(rows: Mapping[str, Array]) -> str:
    first, *others = rows
    return f"'{first}'" + (f" and {len(others)} more" if others else "")


def _move_axis(rows: Array, source: int, target: int) -> Array:
    """Move an axis of rows like `numpy.moveaxis`, without its cost if no axis moves."""
    return rows if source == target else np.moveaxis(rows, source, target)
