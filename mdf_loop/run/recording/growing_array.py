"""One array of a Zarr store, to which rows are appended.

Rows of an array with a companion array of lengths may have any length. Their padding is not written, and
the array grows along the axes of a row if a row is longer than all earlier rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.files import sync
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.chunk_integrity import checksum_of_file
from mdf_loop.run.recording.labels import storable
from mdf_loop.run.recording.metadata import CHECKSUM, METADATA, is_open
from mdf_loop.run.recording.missing import common_shape, padded

if TYPE_CHECKING:
    import zarr

ENDLESS = 1 << 62


class GrowingArray:
    """Zarr array in the folder `place`, which grows along the dimension `dim`.

    Writes go to a view of the array without a fixed length. The stored metadata keep the written length.
    """

    def __init__(self, place: Path, metadata: Mapping[str, Any], dim: str) -> None:
        self._stored = folder.open_array(place, "r+")
        self.name: str = metadata.get("attributes", {}).get("long_name", place.name)
        self.axis: int = metadata["dimension_names"].index(dim)
        self.place = place
        self._front = self._stored.shape[: self.axis]
        self.row = self._stored.shape[self.axis + 1 :]
        self.chunk_rows = self._stored.chunks[self.axis]
        self.chunk_bytes = math.prod(self._stored.chunks) * self._stored.dtype.itemsize
        self._is_open = is_open(metadata)
        self._has_checksums = metadata["codecs"][-1]["name"] == CHECKSUM
        self._endless = self._without_end()
        self._waiting: list[Array] = []

    def _without_end(self) -> zarr.Array[Any]:
        """Return a view of the stored array with a practically unlimited length."""
        import zarr

        shape = (*self._front, ENDLESS, *self.row)
        endless: Any = self._stored.metadata.update_shape(shape)
        config: Any = {"write_empty_chunks": True}
        return zarr.Array(zarr.AsyncArray(endless, self._stored.store_path, config))

    def shape(self, length: int) -> list[int]:
        """Return the shape of the array if it has `length` rows."""
        return [*self._front, length, *self.row]

    # --- rows in memory -----------------------------------------------------------------------

    def takes(self, rows: Array) -> bool:
        """Return True if the array can store rows of this shape."""
        own = rows.shape[self.axis + 1 :]
        return own == self.row or (self._is_open and len(own) == len(self.row))

    def fitted(self, rows: Array, count: int) -> Array:
        """Copy rows to the stored dtype, and enlarge the stored row shape for longer rows.

        Raises:
            InputError: The stored dtype or shape cannot represent the rows exactly.
        """
        rows = folder.as_stored(storable(np.asarray(rows)))
        own = rows.shape[self.axis + 1 :]
        if not self.takes(rows):
            raise self._misfit(rows)
        if not (np.less_equal(own, self.row)).all():
            self.row = common_shape(self.name, self.row, own)
            self._endless = self._without_end()
        fitted_array = np.empty((*self._front, count, *own), self._endless.dtype)
        try:
            np.copyto(fitted_array, rows, "same_kind")
        except (ValueError, TypeError):
            raise self._misfit(rows) from None
        if fitted_array.dtype != rows.dtype and not _same(fitted_array.astype(rows.dtype), rows):
            raise self._misfit(rows)
        return fitted_array

    def _misfit(self, rows: Array) -> InputError:
        rest = list(rows.shape[self.axis + 1 :])
        return InputError(
            f"rows of '{self.name}' that are {dtype_name(rows)}{rest} cannot be kept exactly in a "
            f"store whose rows are {self._endless.dtype}{list(self.row)}"
        )

    def wait(self, rows: Array) -> None:
        """Append rows to the queue of unwritten rows."""
        self._waiting.append(rows)

    def forget(self, count: int) -> int:
        """Remove the first `count` rows, now written, from the queue. Return the bytes of the remaining rows."""
        rows = self._all()[self.at(count, None)]
        self._waiting = [rows] if rows.shape[self.axis] else []
        return rows.nbytes

    def clear(self) -> None:
        """Remove all rows from the queue of unwritten rows."""
        self._waiting = []

    def _all(self) -> Array:
        parts = [padded(self.name, part, self._padded(part)) for part in self._waiting]
        self._waiting = [np.concatenate(parts, self.axis)]
        return self._waiting[0]

    def room(self, part: Array) -> int:
        """Return the bytes that rows occupy after padding to the stored row shape."""
        return math.prod(self._padded(part)) * part.itemsize

    def _padded(self, part: Array) -> tuple[int, ...]:
        return (*part.shape[: self.axis + 1], *self.row)

    def at(self, start: int, stop: int | None) -> tuple[slice, ...]:
        """Return the index of a range of rows in the array."""
        return (*(slice(None),) * self.axis, slice(start, stop))

    # --- the disk -----------------------------------------------------------------------------

    def write(self, start: int, count: int) -> None:
        """Write the first `count` queued rows at row `start`, chunk by chunk."""
        self._write(self._all(), start, start + count)

    def _write(self, rows: Array, start: int, end: int) -> None:
        size = self.chunk_rows
        edges = [start, *range(start - start % size + size, end, size), end]
        for first, last in pairwise(edges):
            part = rows[self.at(first - start, last - start)]
            self._endless[self.at(first, last)] = part

    def tail(self, length: int) -> Array:
        """Return the rows of the last, incomplete chunk among the first `length` rows."""
        rows = np.asarray(self._endless[self.at(length - length % self.chunk_rows, length)])
        return rows.astype(object) if rows.dtype.kind == "T" else rows

    def mend(self, length: int, tail: Array) -> None:
        """Rewrite the last of `length` rows. Chunks that begin within these rows are written completely."""
        count = tail.shape[self.axis]
        if not count:
            return
        start, end = length - count, -(-length // self.chunk_rows) * self.chunk_rows
        rows = np.full(
            (*self._front, end - start, *self.row), self._stored.fill_value, self._endless.dtype
        )
        rows[(*self.at(0, count), *map(slice, tail.shape[self.axis + 1 :]))] = self.fitted(
            tail, count
        )
        self._write(rows, start, end)

    def cut(self, length: int) -> None:
        """Delete the chunk files whose rows all lie at or after row `length`."""
        number = -(-length // self.chunk_rows)
        for file in (self.place / "c").rglob("*"):
            index = file.relative_to(self.place / "c").parts
            if file.is_file() and index[self.axis].isdecimal() and int(index[self.axis]) >= number:
                file.unlink()

    def secure(self, start: int, end: int) -> dict[str, int]:
        """Flush rows `start` to `end - 1` to the disk.

        Returns:
            The checksum of each completed chunk, by its path in the store.
        """
        folders = {self.place}
        checksums: dict[str, int] = {}
        for number in range(start // self.chunk_rows, -(-end // self.chunk_rows)):
            for file in self._chunks(number):
                sync(file)
                folders.update(file.parents[: len(self._stored.shape)])
                if self._has_checksums and (number + 1) * self.chunk_rows <= end:
                    path = file.relative_to(self.place.parent).as_posix()
                    checksums[path] = checksum_of_file(file)
        for place in (self.place / METADATA, *folders):
            sync(place)
        return checksums

    def _chunks(self, number: int) -> Iterator[Path]:
        """Yield the files of the chunks with the chunk index `number` along the growing axis."""
        sizes = self._endless.chunks
        counts = [-(-extent // size) for extent, size in zip(self.shape(1), sizes, strict=True)]
        for place in np.ndindex(*counts):
            here = (*place[: self.axis], number, *place[self.axis + 1 :])
            file = self.place / self._endless.metadata.encode_chunk_key(here)
            if file.exists():
                yield file


def _same(buffer: Array, rows: Array) -> bool:
    return bool(np.all((buffer == rows) | ((buffer != buffer) & (rows != rows))))
