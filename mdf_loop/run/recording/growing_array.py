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
from mdf_loop.run.recording.chunk_integrity import read_checksum
from mdf_loop.run.recording.labels import convert_to_storable
from mdf_loop.run.recording.metadata import CHECKSUM_CODEC, METADATA, has_open_rows
from mdf_loop.run.recording.missing import common_shape, pad_rows

if TYPE_CHECKING:
    import zarr

UNLIMITED_LENGTH = 1 << 62


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
        self._is_open = has_open_rows(metadata)
        self._has_checksums = metadata["codecs"][-1]["name"] == CHECKSUM_CODEC
        self._unlimited = self._make_unlimited()
        self._queued_parts: list[Array] = []

    def _make_unlimited(self) -> zarr.Array[Any]:
        """Return a view of the stored array with a practically unlimited length."""
        import zarr

        shape = (*self._front, UNLIMITED_LENGTH, *self.row)
        endless: Any = self._stored.metadata.update_shape(shape)
        config: Any = {"write_empty_chunks": True}
        return zarr.Array(zarr.AsyncArray(endless, self._stored.store_path, config))

    def shape(self, length: int) -> list[int]:
        """Return the shape of the array if it has `length` rows."""
        return [*self._front, length, *self.row]

    # --- rows in memory -----------------------------------------------------------------------

    def can_store(self, rows: Array) -> bool:
        """Return True if the array can store rows of this shape."""
        row_shape = rows.shape[self.axis + 1 :]
        return row_shape == self.row or (self._is_open and len(row_shape) == len(self.row))

    def convert_rows(self, rows: Array, count: int) -> Array:
        """Copy rows to the stored dtype, and enlarge the stored row shape for longer rows.

        Raises:
            InputError: The stored dtype or shape cannot represent the rows exactly.
        """
        rows = folder.convert_texts(convert_to_storable(np.asarray(rows)))
        row_shape = rows.shape[self.axis + 1 :]
        if not self.can_store(rows):
            raise self._misfit_error(rows)
        if not (np.less_equal(row_shape, self.row)).all():
            self.row = common_shape(self.name, self.row, row_shape)
            self._unlimited = self._make_unlimited()
        fitted_array = np.empty((*self._front, count, *row_shape), self._unlimited.dtype)
        try:
            np.copyto(fitted_array, rows, "same_kind")
        except (ValueError, TypeError):
            raise self._misfit_error(rows) from None
        if fitted_array.dtype != rows.dtype and not _are_equal_with_nan(
            fitted_array.astype(rows.dtype), rows
        ):
            raise self._misfit_error(rows)
        return fitted_array

    def _misfit_error(self, rows: Array) -> InputError:
        row_shape = list(rows.shape[self.axis + 1 :])
        return InputError(
            f"rows of '{self.name}' that are {dtype_name(rows)}{row_shape} cannot be kept exactly in a "
            f"store whose rows are {self._unlimited.dtype}{list(self.row)}"
        )

    def enqueue(self, rows: Array) -> None:
        """Append rows to the queue of unwritten rows."""
        self._queued_parts.append(rows)

    def dequeue(self, count: int) -> int:
        """Remove the first `count` rows, now written, from the queue. Return the bytes of the remaining rows."""
        rows = self._joined_queue()[self.row_index(count, None)]
        self._queued_parts = [rows] if rows.shape[self.axis] else []
        return rows.nbytes

    def clear(self) -> None:
        """Remove all rows from the queue of unwritten rows."""
        self._queued_parts = []

    def _joined_queue(self) -> Array:
        padded_parts = [
            pad_rows(self.name, part, self._padded_shape(part)) for part in self._queued_parts
        ]
        self._queued_parts = [np.concatenate(padded_parts, self.axis)]
        return self._queued_parts[0]

    def padded_bytes(self, part: Array) -> int:
        """Return the bytes that rows occupy after padding to the stored row shape."""
        return math.prod(self._padded_shape(part)) * part.itemsize

    def _padded_shape(self, part: Array) -> tuple[int, ...]:
        return (*part.shape[: self.axis + 1], *self.row)

    def row_index(self, start: int, stop: int | None) -> tuple[slice, ...]:
        """Return the index of a range of rows in the array."""
        return (*(slice(None),) * self.axis, slice(start, stop))

    # --- the disk -----------------------------------------------------------------------------

    def write(self, start: int, count: int) -> None:
        """Write the first `count` queued rows at row `start`, chunk by chunk."""
        self._write(self._joined_queue(), start, start + count)

    def _write(self, rows: Array, start: int, end: int) -> None:
        size = self.chunk_rows
        edges = [start, *range(start - start % size + size, end, size), end]
        for first, last in pairwise(edges):
            part = rows[self.row_index(first - start, last - start)]
            self._unlimited[self.row_index(first, last)] = part

    def tail(self, length: int) -> Array:
        """Return the rows of the last, incomplete chunk among the first `length` rows."""
        rows = np.asarray(
            self._unlimited[self.row_index(length - length % self.chunk_rows, length)]
        )
        return rows.astype(object) if rows.dtype.kind == "T" else rows

    def rewrite_tail(self, length: int, tail: Array) -> None:
        """Rewrite the last of `length` rows. Chunks that begin within these rows are written completely."""
        count = tail.shape[self.axis]
        if not count:
            return
        start, end = length - count, -(-length // self.chunk_rows) * self.chunk_rows
        rows = np.full(
            (*self._front, end - start, *self.row), self._stored.fill_value, self._unlimited.dtype
        )
        rows[(*self.row_index(0, count), *map(slice, tail.shape[self.axis + 1 :]))] = (
            self.convert_rows(tail, count)
        )
        self._write(rows, start, end)

    def delete_chunks_after(self, length: int) -> None:
        """Delete the chunk files whose rows all lie at or after row `length`."""
        first_deleted = -(-length // self.chunk_rows)
        for file in (self.place / "c").rglob("*"):
            index = file.relative_to(self.place / "c").parts
            if (
                file.is_file()
                and index[self.axis].isdecimal()
                and int(index[self.axis]) >= first_deleted
            ):
                file.unlink()

    def sync_rows(self, start: int, end: int) -> dict[str, int]:
        """Flush rows `start` to `end - 1` to the disk.

        Returns:
            The checksum of each completed chunk, by its path in the store.
        """
        folders = {self.place}
        checksums: dict[str, int] = {}
        for number in range(start // self.chunk_rows, -(-end // self.chunk_rows)):
            for file in self._chunk_files(number):
                sync(file)
                folders.update(file.parents[: len(self._stored.shape)])
                if self._has_checksums and (number + 1) * self.chunk_rows <= end:
                    path = file.relative_to(self.place.parent).as_posix()
                    checksums[path] = read_checksum(file)
        for place in (self.place / METADATA, *folders):
            sync(place)
        return checksums

    def _chunk_files(self, number: int) -> Iterator[Path]:
        """Yield the files of the chunks with the chunk index `number` along the growing axis."""
        sizes = self._unlimited.chunks
        counts = [-(-extent // size) for extent, size in zip(self.shape(1), sizes, strict=True)]
        for index in np.ndindex(*counts):
            chunk_index = (*index[: self.axis], number, *index[self.axis + 1 :])
            file = self.place / self._unlimited.metadata.encode_chunk_key(chunk_index)
            if file.exists():
                yield file


def _are_equal_with_nan(buffer: Array, rows: Array) -> bool:
    return bool(np.all((buffer == rows) | ((buffer != buffer) & (rows != rows))))
