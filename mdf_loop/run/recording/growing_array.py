"""Zarr array to which rows are appended along one dimension.

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
from mdf_loop.run.recording.metadata import CHECKSUM_CODEC, METADATA, has_varying_rows
from mdf_loop.run.recording.missing_rows import common_shape, pad_rows

if TYPE_CHECKING:
    import zarr

UNLIMITED_LENGTH = 1 << 62


class GrowingArray:
    """Zarr array in the folder `place`, to which rows are appended along the dimension `dim`.

    Writes go to a view of the array without a fixed length. The stored metadata keep the written length.
    """

    def __init__(self, place: Path, metadata: Mapping[str, Any], dim: str) -> None:
        self._stored_array = folder.open_array(place, "r+")
        self.name: str = metadata.get("attributes", {}).get("long_name", place.name)
        self.axis: int = metadata["dimension_names"].index(dim)
        self.path = place
        self._leading_shape = self._stored_array.shape[: self.axis]
        self.row_shape = self._stored_array.shape[self.axis + 1 :]
        self.chunk_rows = self._stored_array.chunks[self.axis]
        self.chunk_bytes = math.prod(self._stored_array.chunks) * self._stored_array.dtype.itemsize
        self._has_varying_rows = has_varying_rows(metadata)
        self._has_checksums = metadata["codecs"][-1]["name"] == CHECKSUM_CODEC
        self._unlimited_array = self._make_unlimited()
        self._queued_rows: list[Array] = []

    def _make_unlimited(self) -> zarr.Array[Any]:
        """Return a view of the Zarr array with a practically unlimited length."""
        import zarr

        shape = (*self._leading_shape, UNLIMITED_LENGTH, *self.row_shape)
        unlimited_metadata: Any = self._stored_array.metadata.update_shape(shape)
        array_config: Any = {"write_empty_chunks": True}
        return zarr.Array(
            zarr.AsyncArray(unlimited_metadata, self._stored_array.store_path, array_config)
        )

    def shape(self, length: int) -> list[int]:
        """Return the shape that the array has with `length` rows."""
        return [*self._leading_shape, length, *self.row_shape]

    # --- rows in memory -----------------------------------------------------------------------

    def can_store(self, rows: Array) -> bool:
        """Return True if rows of this shape can be appended to the array."""
        row_shape = rows.shape[self.axis + 1 :]
        return row_shape == self.row_shape or (
            self._has_varying_rows and len(row_shape) == len(self.row_shape)
        )

    def convert_rows(self, rows: Array, count: int) -> Array:
        """Cast rows to the array's dtype, and enlarge the array's row shape for longer rows.

        Raises:
            InputError: The stored dtype or shape cannot represent the rows exactly.
        """
        rows = folder.convert_texts(convert_to_storable(np.asarray(rows)))
        row_shape = rows.shape[self.axis + 1 :]
        if not self.can_store(rows):
            raise self._misfit_error(rows)
        if not (np.less_equal(row_shape, self.row_shape)).all():
            self.row_shape = common_shape(self.name, self.row_shape, row_shape)
            self._unlimited_array = self._make_unlimited()
        cast_rows = np.empty((*self._leading_shape, count, *row_shape), self._unlimited_array.dtype)
        try:
            np.copyto(cast_rows, rows, "same_kind")
        except (ValueError, TypeError):
            raise self._misfit_error(rows) from None
        if cast_rows.dtype != rows.dtype and not _are_equal_with_nan(
            cast_rows.astype(rows.dtype), rows
        ):
            raise self._misfit_error(rows)
        return cast_rows

    def _misfit_error(self, rows: Array) -> InputError:
        row_shape = list(rows.shape[self.axis + 1 :])
        return InputError(
            f"rows of '{self.name}' that are {dtype_name(rows)}{row_shape} cannot be kept exactly in a "
            f"store whose rows are {self._unlimited_array.dtype}{list(self.row_shape)}"
        )

    def enqueue(self, rows: Array) -> None:
        """Append rows to the queue of rows that are not written yet."""
        self._queued_rows.append(rows)

    def dequeue(self, count: int) -> int:
        """Remove the first `count` rows from the queue after they are written.

        Return the number of bytes of the remaining rows.
        """
        rows = self._joined_queue()[self.row_index(count, None)]
        self._queued_rows = [rows] if rows.shape[self.axis] else []
        return rows.nbytes

    def clear(self) -> None:
        """Discard all rows that are not written yet."""
        self._queued_rows = []

    def _joined_queue(self) -> Array:
        padded_rows = [
            pad_rows(self.name, rows, self._padded_shape(rows)) for rows in self._queued_rows
        ]
        self._queued_rows = [np.concatenate(padded_rows, self.axis)]
        return self._queued_rows[0]

    def padded_bytes(self, rows: Array) -> int:
        """Return the number of bytes of rows after padding to the array's row shape."""
        return math.prod(self._padded_shape(rows)) * rows.itemsize

    def _padded_shape(self, rows: Array) -> tuple[int, ...]:
        return (*rows.shape[: self.axis + 1], *self.row_shape)

    def row_index(self, start: int, stop: int | None) -> tuple[slice, ...]:
        """Return the array index (a tuple of slices) of rows `start` to `stop` - 1."""
        return (*(slice(None),) * self.axis, slice(start, stop))

    # --- the disk -----------------------------------------------------------------------------

    def write(self, start: int, count: int) -> None:
        """Write the first `count` queued rows to the array, from row `start` on."""
        self._write(self._joined_queue(), start, start + count)

    def _write(self, rows: Array, start: int, end: int) -> None:
        chunk_rows = self.chunk_rows
        chunk_edges = [start, *range(start - start % chunk_rows + chunk_rows, end, chunk_rows), end]
        for chunk_start, chunk_end in pairwise(chunk_edges):
            rows_of_chunk = rows[self.row_index(chunk_start - start, chunk_end - start)]
            self._unlimited_array[self.row_index(chunk_start, chunk_end)] = rows_of_chunk

    def tail(self, length: int) -> Array:
        """Return those of the first `length` rows that come after the last complete chunk."""
        tail_rows = np.asarray(
            self._unlimited_array[self.row_index(length - length % self.chunk_rows, length)]
        )
        return tail_rows.astype(object) if tail_rows.dtype.kind == "T" else tail_rows

    def rewrite_tail(self, length: int, tail: Array) -> None:
        """Overwrite the last rows of an array with `length` rows by the rows `tail`.

        Chunks that begin within these rows are written completely.
        """
        row_count = tail.shape[self.axis]
        if not row_count:
            return
        first_row, end_row = length - row_count, -(-length // self.chunk_rows) * self.chunk_rows
        padded_rows = np.full(
            (*self._leading_shape, end_row - first_row, *self.row_shape),
            self._stored_array.fill_value,
            self._unlimited_array.dtype,
        )
        padded_rows[(*self.row_index(0, row_count), *map(slice, tail.shape[self.axis + 1 :]))] = (
            self.convert_rows(tail, row_count)
        )
        self._write(padded_rows, first_row, end_row)

    def delete_chunks_after(self, length: int) -> None:
        """Delete the chunk files that only contain rows from row `length` on."""
        first_deleted_chunk = -(-length // self.chunk_rows)
        for file in (self.path / "c").rglob("*"):
            key_parts = file.relative_to(self.path / "c").parts
            if (
                file.is_file()
                and key_parts[self.axis].isdecimal()
                and int(key_parts[self.axis]) >= first_deleted_chunk
            ):
                file.unlink()

    def sync_rows(self, start: int, end: int) -> dict[str, int]:
        """Flush the files with rows `start` to `end` - 1 to the disk (fsync).

        Returns:
            The checksum of each completed chunk, by its path in the store.
        """
        folders = {self.path}
        checksums: dict[str, int] = {}
        for chunk_number in range(start // self.chunk_rows, -(-end // self.chunk_rows)):
            for file in self._chunk_files(chunk_number):
                sync(file)
                folders.update(file.parents[: len(self._stored_array.shape)])
                if self._has_checksums and (chunk_number + 1) * self.chunk_rows <= end:
                    chunk_path = file.relative_to(self.path.parent).as_posix()
                    checksums[chunk_path] = read_checksum(file)
        for path in (self.path / METADATA, *folders):
            sync(path)
        return checksums

    def _chunk_files(self, number: int) -> Iterator[Path]:
        """Yield the files of all chunks with index `number` along the growing dimension."""
        chunk_shape = self._unlimited_array.chunks
        chunk_counts = [
            -(-extent // size) for extent, size in zip(self.shape(1), chunk_shape, strict=True)
        ]
        for index in np.ndindex(*chunk_counts):
            chunk_index = (*index[: self.axis], number, *index[self.axis + 1 :])
            chunk_file = self.path / self._unlimited_array.metadata.encode_chunk_key(chunk_index)
            if chunk_file.exists():
                yield chunk_file


def _are_equal_with_nan(buffer: Array, rows: Array) -> bool:
    return bool(np.all((buffer == rows) | ((buffer != buffer) & (rows != rows))))
