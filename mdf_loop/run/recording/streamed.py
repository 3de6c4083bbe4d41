"""A sink on disk that is made when the types of its rows are known.

The first evaluation can give rows of a narrower dtype or shape than the others; so the store is
made with the second block that has rows, or at the end. A checkpoint before that has the rows of
the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.files import checked_target
from mdf_loop.ir import Array, Data
from mdf_loop.run.recording.rows import deepened
from mdf_loop.run.recording.stream import Column, Stream
from mdf_loop.run.results import Axis

_Waiting: TypeAlias = tuple[Array, Mapping[str, Array]]
"""What stands along rows, and the rows."""

_ALONG = "along"
"""What stands along rows, in a snapshot: outputs have a point in their names."""


class Streamed:
    """Rows in a Zarr store at `path`; `axes` are those of the rows, time last.

    `about` gives device and precision, once the run has begun.
    """

    def __init__(
        self,
        path: Path,
        axes: tuple[Axis, ...],
        about: Callable[[], tuple[str, str]],
        units: Mapping[str, str],
    ) -> None:
        self._path = checked_target(path, (".zarr",), "rows while they are computed")
        self._axes = axes
        self._about = about
        self._units = units
        self._first: _Waiting | None = None
        self._stream: Stream | None = None

    @property
    def length(self) -> int:
        """How many rows were added."""
        waiting = 0 if self._first is None else len(self._first[0])
        return waiting if self._stream is None else self._stream.length

    def add(self, coordinate: Array, rows: Mapping[str, Array]) -> None:
        """Add rows."""
        if self._stream is not None:
            self._stream.add(coordinate, rows)
        elif self._first is None:
            self._first = (coordinate, rows)
        elif len(coordinate):
            self._opened(self._first, rows).add(coordinate, rows)
        else:  # it has types, too
            first = {name: self._widened(self._first[1][name], rows[name]) for name in rows}
            self._first = (self._first[0], first)

    def _widened(self, rows: Array, other: Array) -> Array:
        """The rows in the type that also holds for others."""
        column = self._column("", rows, other)
        front = len(self._axes)
        deep = deepened(rows, front + len(column.row_shape), front)
        shape = (*rows.shape[:front], *column.row_shape)
        return np.broadcast_to(deep, shape).astype(column.dtype, copy=False)

    def _opened(self, waiting: _Waiting, rows: Mapping[str, Array]) -> Stream:
        """The store, for the rows that wait and these."""
        if self._stream is None:
            coordinate, first = waiting
            columns = [self._column(name, first[name], rows[name]) for name in rows]
            self._stream = Stream.create(
                self._path, columns, self._axes, *self._about(), self._units
            )
            self._stream.add(coordinate, first)
            self._first = None
        return self._stream

    def _column(self, name: str, *parts: Array) -> Column:
        """The type that holds for all rows."""
        front = len(self._axes)
        shapes = (part.shape[front:] for part in parts)
        dtype = np.result_type(*(part.dtype for part in parts))
        return Column(name, dtype, np.broadcast_shapes(*shapes), self._units.get(name, ""))

    def flush(self) -> None:
        """Write what waits, if there is a store already."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Write what waits; nothing will be added any more."""
        if self._first is not None:
            self._opened(self._first, self._first[1])
        if self._stream is not None:
            self._stream.close()

    def arrays(self) -> Mapping[str, Data]:
        """What is in the store, read when it is looked at."""
        return {} if self._stream is None else self._stream.arrays()

    def snapshot(self) -> Mapping[str, Array]:
        """The rows for which there is no store yet."""
        if self._first is None:
            return {}
        coordinate, rows = self._first
        return {_ALONG: coordinate, **rows}

    def restore(self, parts: Mapping[str, Array], length: int) -> None:
        """Go on after so many rows of the store, or with those that wait for one."""
        if parts:
            rows = {name: part for name, part in parts.items() if name != _ALONG}
            self._first = (parts[_ALONG], rows)
            return
        if not self._path.exists():
            raise InputError(
                f"the run cannot go on: its rows were in '{self._path}', which is not there",
                hint="put it back, or begin anew",
            )
        self._stream = Stream.resume(self._path, length)
