"""Rows in memory: arrays that grow along the axis of time, block by block.

They are never there twice. Where it is known how many rows there will be, the room for all of them
is taken at once; the system gives it when it is written to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array


class Rows:
    """Rows of several outputs, `[time, ...]`, or `[members, time, ...]` with `axis=1`.

    A column has the dtype and the shape of rows that hold for all of them.
    """

    def __init__(self, axis: int = 0, expected: int | None = None) -> None:
        self.axis = axis
        self.length = 0
        self._expected = expected
        self._columns: dict[str, Column] = {}

    def add(self, coordinate: Array, rows: Mapping[str, Array]) -> None:
        """Add rows; what stands along them is not kept."""
        for name, part in rows.items():
            if name not in self._columns:
                self._columns[name] = Column(name, self._expected, 1 + self.axis)
            self._columns[name].add(_axis_moved(part, self.axis, 0))
        self.length += len(coordinate)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Give back the room that was not needed."""
        for column in self._columns.values():
            column.trim()

    def arrays(self) -> dict[str, Array]:
        """All rows, by name."""
        return {
            name: _axis_moved(column.rows, 0, self.axis) for name, column in self._columns.items()
        }

    def snapshot(self) -> dict[str, Array]:
        """All rows, time in front."""
        return {name: column.rows for name, column in self._columns.items()}

    def restore(self, parts: Mapping[str, Array], length: int) -> None:
        """Take rows that a snapshot had."""
        for name, rows in parts.items():
            self._columns[name] = Column(name, self._expected, 1 + self.axis)
            self._columns[name].add(rows)
        self.length = length


class Column:
    """One array that grows in front; `expected` is how long it will be, if that is known.

    The first `front` axes are those of the rows and of the members of a sweep.
    """

    def __init__(self, name: str, expected: int | None = None, front: int = 1) -> None:
        self.name = name
        self._expected = expected
        self._front = front
        self._length = 0
        self._typed = False
        self._room = np.empty((0,))

    @property
    def rows(self) -> Array:
        """Everything that was added."""
        return self._room[: self._length]

    def add(self, part: Array) -> None:
        """Add rows."""
        if not self._typed:
            self._typed = True
            self._take_room(len(part), part.dtype, part.shape[1:])
        elif self._room.shape[1:] != part.shape[1:] or self._room.dtype != part.dtype:
            part = self._widened(part)
        self._make_room(self._length + len(part))
        self._room[self._length : self._length + len(part)] = part
        self._length += len(part)

    def trim(self) -> None:
        """Give back the room that was not needed."""
        if len(self._room) > self._length:
            self._room.resize((self._length, *self._room.shape[1:]), refcheck=False)

    def _widened(self, part: Array) -> Array:
        """The rows, with as many axes as all have; there is room for their dtype and shape, too."""
        rank = max(part.ndim, self._room.ndim)
        old, new = (deepened(rows, rank, self._front) for rows in (self.rows, part))
        dtype = np.result_type(old.dtype, new.dtype)
        shape = np.broadcast_shapes(old.shape[1:], new.shape[1:])
        if (dtype, shape) != (self._room.dtype, self._room.shape[1:]):
            self._take_room(self._length, dtype, shape)
            self._room[: self._length] = old
        return new

    def _take_room(self, least: int, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
        length = max(least, self._expected or 0)
        try:
            self._room = np.empty((length, *shape), dtype)
        except (MemoryError, ValueError):
            raise self._too_large(length, math.prod(shape) * dtype.itemsize) from None

    def _make_room(self, length: int) -> None:
        """Room for more: an eighth more than there was, so that moving it costs little."""
        if length <= len(self._room):
            return
        more = max(length, len(self._room) + len(self._room) // 8)
        try:
            self._room.resize((more, *self._room.shape[1:]), refcheck=False)
        except MemoryError:
            raise self._too_large(more, self._room[:1].nbytes) from None

    def _too_large(self, length: int, row: int) -> InputError:
        return InputError(
            f"{length} rows of '{self.name}' do not fit into memory: {length * row / 1e9:.3g} GB",
            hint="stream them to disk (output='run.zarr', --output run.zarr), keep fewer of them "
            "(every, when), or reduce them (reduce)",
        )


def _axis_moved(rows: Array, source: int, target: int) -> Array:
    """As numpy's moveaxis, which takes its time even where nothing is to be moved."""
    return rows if source == target else np.moveaxis(rows, source, target)


def deepened(rows: Array, rank: int, front: int = 1) -> Array:
    """The rows with as many axes as others have, behind the `front` axes that they share."""
    return rows.reshape(*rows.shape[:front], *(1,) * (rank - rows.ndim), *rows.shape[front:])
