"""Recorded rows in memory: arrays that grow along the axis of time.

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
from mdf_loop.run.output_buffers import OutputBuffers, shares_memory
from mdf_loop.run.recording.missing_rows import common_shape, pad_rows

_HINT = (
    "stream them to disk (output='run.zarr', --output run.zarr), keep fewer of them (every, when), "
    "or reduce them (reduce)"
)

MAX_GROWTH_BYTES = 1 << 26
"""Maximum bytes by which the memory grows beyond the required size."""


class Rows:
    """Recorded rows of several outputs in memory: `[time, ...]`, or `[members, time, ...]`.

    A column has the common dtype of its rows, and the smallest shape that contains all of them.
    """

    def __init__(self, axis: int = 0, expected: int | None = None) -> None:
        self.axis = axis
        self.length = 0
        self._expected_rows = expected
        self._columns: dict[str, Column] = {}

    def add(self, coordinate: Sized, rows: Mapping[str, Array]) -> None:
        """Append rows to the array of each output.

        Coordinates are not stored.

        Raises:
            MemoryLimitError: All expected rows would exceed the memory limit.
        """
        self._check_memory(rows)
        for name, array in rows.items():
            if name not in self._columns:
                self._columns[name] = Column(name, self._expected_rows)
            self._columns[name].add(_move_axis(array, self.axis, 0))
        self.length += len(coordinate)

    def next_buffers(self, count: int) -> OutputBuffers:
        """Return views of the memory allocated for the next `count` rows, by output name."""
        buffer_by_column = {
            name: column.next_buffer(count) for name, column in self._columns.items()
        }
        return {
            name: _move_axis(buffer, 0, self.axis)
            for name, buffer in buffer_by_column.items()
            if buffer is not None
        }

    def _check_memory(self, rows: Mapping[str, Array]) -> None:
        """Raise an error if all expected rows of new outputs would exceed the memory limit."""
        new_arrays = [array for name, array in rows.items() if name not in self._columns]
        row_count = self._expected_rows or 0
        expected_bytes = sum(
            row_count * array.nbytes // max(array.shape[self.axis], 1) for array in new_arrays
        )
        if expected_bytes:
            check(expected_bytes, f"{row_count} rows of {_describe_names(rows)}", hint=_HINT)

    def flush(self) -> None:
        """Do nothing, since rows are never buffered."""

    def close(self) -> None:
        """Finish recording, and free the memory beyond the last row."""
        for column in self._columns.values():
            column.trim()

    def arrays(self) -> dict[str, Array]:
        """Return the recorded rows of all outputs by name."""
        return {
            name: _move_axis(column.rows, 0, self.axis) for name, column in self._columns.items()
        }

    def snapshot(self) -> dict[str, Array]:
        """Return the recorded rows by name for a checkpoint, with time as first axis."""
        return {name: column.rows for name, column in self._columns.items()}

    def restore(self, snapshot: Snapshot, length: int, columns: Mapping[str, str]) -> None:
        """Restore the recorded rows from a checkpoint."""
        for name, dtype in columns.items():
            rows = snapshot.rows(name, length, 0, dtype)
            if rows.ndim <= self.axis:
                raise snapshot.invalid_part_error(
                    name, f"{length} rows for each member of the sweep"
                )
            self._columns[name] = Column(name, self._expected_rows)
            self._columns[name].add(rows)
        self.length = length


class Column:
    """Array of one output's rows, which grows along its first axis.

    The other axes grow if a longer row is added.
    """

    def __init__(self, name: str, expected: int | None = None) -> None:
        self.name = name
        self._expected_rows = expected
        self._length = 0
        self._row_shape: tuple[int, ...] | None = None
        self._buffer = np.empty((0,))

    @property
    def rows(self) -> Array:
        """All rows that were added to the array."""
        return self._buffer[(slice(self._length), *map(slice, self._row_shape or ()))]

    def add(self, rows: Array) -> None:
        """Append rows to the array.

        An empty array only affects the dtype if the array has rows.
        """
        if not self._has_stored_type(rows):
            rows = self._widen_and_pad(rows)
        if len(rows):
            self._enlarge(self._length + len(rows))
            target_rows = self._buffer[self._length : self._length + len(rows)]
            if not shares_memory(rows, target_rows):
                target_rows[...] = rows
            self._length += len(rows)

    def _has_stored_type(self, rows: Array) -> bool:
        """Return True if new rows have the dtype and shape of the stored rows."""
        has_stored_shape = self._row_shape == rows.shape[1:] == self._buffer.shape[1:]
        return has_stored_shape and self._length > 0 and self._buffer.dtype == rows.dtype

    def _widen_and_pad(self, rows: Array) -> Array:
        """Promote the array's dtype and shape for new rows, and return the rows padded to fit."""
        dtype = (
            rows.dtype
            if self._row_shape is None
            else np.result_type(self._buffer.dtype, rows.dtype)
        )
        if not self._length:
            self._row_shape = rows.shape[1:]
            self._allocate(len(rows), dtype, self._row_shape)
        elif len(rows):
            rows = self._pad_to_stored(rows)
            dtype = np.result_type(self._buffer.dtype, rows.dtype)
        if self._buffer.dtype != dtype:
            self._reallocate(dtype, self._buffer.shape[1:])
        return rows

    def next_buffer(self, count: int) -> Array | None:
        """Return the memory of the next `count` rows, or None if it is not allocated."""
        end_row = self._length + count
        if (
            not self._length
            or end_row > len(self._buffer)
            or self._buffer.shape[1:] != self._row_shape
        ):
            return None
        return self._buffer[self._length : end_row]

    def trim(self) -> None:
        """Free the memory beyond the last row of the array."""
        if self._buffer.shape[1:] != (self._row_shape or ()):
            self._buffer = self.rows.copy()
        elif len(self._buffer) > self._length:
            self._resize(self._length)

    def _pad_to_stored(self, rows: Array) -> Array:
        """Pad new rows to the array's row shape, which grows if a row is longer.

        The row shape grows by at least an eighth.
        """
        row_shape = common_shape(self.name, self._row_shape or (), rows.shape[1:])
        stored_shape: tuple[int, ...] = self._buffer.shape[1:]
        extent_pairs = zip(stored_shape, row_shape, strict=True)
        new_shape = tuple(
            old_extent
            if new_extent <= old_extent
            else max(new_extent, old_extent + old_extent // 8)
            for old_extent, new_extent in extent_pairs
        )
        self._row_shape = row_shape
        if new_shape != stored_shape:
            self._reallocate(self._buffer.dtype, new_shape)
        return pad_rows(self.name, rows, (len(rows), *new_shape))

    def _reallocate(self, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
        old_rows = pad_rows(self.name, self._buffer[: self._length], (self._length, *shape))
        self._allocate(self._length, np.result_type(dtype, old_rows.dtype), shape)
        self._buffer[: self._length] = old_rows

    def _allocate(
        self, min_length: int, dtype: np.dtype[np.generic], shape: tuple[int, ...]
    ) -> None:
        row_capacity = max(min_length, self._expected_rows or 0)
        try:
            self._buffer = used_memory.pooled_array((row_capacity, *shape), dtype)
        except (MemoryError, ValueError):
            raise self._too_large_error(row_capacity, math.prod(shape) * dtype.itemsize) from None

    def _enlarge(self, length: int) -> None:
        """Enlarge the array's memory to at least `length` rows.

        It grows by an eighth or more, to reduce the cost of copies.

        The growth is limited to `MAX_GROWTH_BYTES`, since new memory is zeroed without a check for stops.
        """
        if length <= len(self._buffer):
            return
        max_growth_rows = max(1, MAX_GROWTH_BYTES // max(1, self._buffer[:1].nbytes))
        new_length = max(length, len(self._buffer) + min(len(self._buffer) // 8, max_growth_rows))
        try:
            self._resize(new_length)
        except MemoryError:
            raise self._too_large_error(new_length, self._buffer[:1].nbytes) from None

    def _resize(self, length: int) -> None:
        """Reallocate the array's memory for `length` rows, in place if possible."""
        buffer_shape = (length, *self._buffer.shape[1:])
        if self._buffer.flags.owndata:
            self._buffer.resize(buffer_shape, refcheck=False)
            return
        old_rows, self._buffer = (
            self._buffer[: self._length],
            np.empty(buffer_shape, self._buffer.dtype),
        )
        self._buffer[: self._length] = old_rows

    def _too_large_error(self, length: int, row: int) -> InputError:
        return InputError(
            f"{length} rows of '{self.name}' do not fit into memory: {length * row / 1e9:.3g} GB",
            hint=_HINT,
        )


def _describe_names(rows: Mapping[str, Array]) -> str:
    first_name, *other_names = rows
    return f"'{first_name}'" + (f" and {len(other_names)} more" if other_names else "")


def _move_axis(rows: Array, source: int, target: int) -> Array:
    """Move an axis of an array like `numpy.moveaxis`, but faster if source equals target."""
    return rows if source == target else np.moveaxis(rows, source, target)
