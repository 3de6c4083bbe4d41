"""Zarr store to which a run appends rows, readable at any time.

Readers see complete rows at any time, even after a crash. New rows are first written beyond the current
length of the arrays. Then the shapes of the outputs are updated, then those of the coordinates, and then
the metadata of the whole store, which xarray and zarr open.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from mdf_loop.errors import DiskFullError
from mdf_loop.files import NO_SPACE_ERROR_CODES, checked_target, real_place, sync
from mdf_loop.ir import Array
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.chunk_integrity import read_checksum
from mdf_loop.run.recording.disk_reserve import DiskReserve
from mdf_loop.run.recording.growing_array import GrowingArray
from mdf_loop.run.recording.labels import coordinates, variables
from mdf_loop.run.recording.metadata import METADATA, STREAMED_ATTRIBUTE, ArrayMetadata
from mdf_loop.run.recording.resuming import StoreCheckpoint, check_and_resume_metadata
from mdf_loop.run.recording.store_files import chunk_keys

if TYPE_CHECKING:
    import zarr

BUFFER_BYTES = 16 << 20
"""Maximum bytes of rows that are buffered in memory."""

BUFFER_SECONDS = 1.0
"""Maximum seconds that rows are buffered while further rows arrive."""

ARRAY_RESERVE_BYTES = 1 << 15
"""Disk space in bytes that each array may need beyond its rows during a write."""


class Column(Struct, frozen=True):
    """Description of one output of a Zarr store: name, dtype and shape of a row, unit.

    If the column has the lengths of rows, `length_of` is their output, whose rows may become longer.
    """

    name: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    unit: str = ""
    length_of: str | None = None


class Stream:
    """Zarr store to which a run appends rows.

    Attributes:
        length: Number of rows.
        checksums: Checksum of each complete chunk on the disk, by its path in the store.
    """

    def __init__(self, path: Path) -> None:
        real_path = real_place(path)  # independent of the working directory
        root_metadata = folder.read_json(real_path)
        metadata_by_array = root_metadata["consolidated_metadata"]["metadata"]
        coordinate_name = root_metadata["attributes"][STREAMED_ATTRIBUTE]
        dim = metadata_by_array[coordinate_name]["dimension_names"][0]
        growing_names = [
            name
            for name, metadata in metadata_by_array.items()
            if dim in metadata.get("dimension_names", ())
        ]
        ordered_names = sorted(growing_names, key=lambda name: name == coordinate_name)
        self._path, self._real_path = path, real_path
        self._metadata = [
            *((real_path / name, metadata_by_array[name]) for name in ordered_names),
            (real_path, root_metadata),
        ]
        self._growing_arrays = [
            GrowingArray(*path_and_metadata, dim) for path_and_metadata in self._metadata[:-1]
        ]
        self._stored_count = self._synced_count = self.length = int(
            metadata_by_array[coordinate_name]["shape"][0]
        )
        self.checksums = _read_static_checksums(real_path, metadata_by_array, growing_names)
        self._buffered_bytes = 0
        self._write_time = time.monotonic()
        self._rows_per_chunk = min(array.chunk_rows for array in self._growing_arrays)
        self._extra_bytes = ARRAY_RESERVE_BYTES * len(self._metadata) + max(
            array.chunk_bytes for array in self._growing_arrays
        )
        with folder.convert_os_errors(path):
            self._reserve = DiskReserve(real_path, BUFFER_BYTES + self._extra_bytes)
            self._try_reserve()

    @classmethod
    def create(
        cls,
        path: str | Path,
        columns: Sequence[Column],
        axes: tuple[Axis, ...],
        device: str,
        precision: str,
        units: Mapping[str, str] | None = None,
        run: str | None = None,
        seed: int | None = None,
        dims: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Stream:
        """Create a Zarr store without rows, which replaces an earlier store at the path.

        Args:
            path: Path of the store, such as `x.zarr`.
            columns: Outputs.
            axes: Axes of the results. The store grows along the last axis, whose coordinate has a dtype.
            device: Device of the run.
            precision: Dtype of floating-point numbers.
            units: Units of coordinates and outputs.
            run: Id of the run, or None for a new id.
            seed: Seed of the random numbers, or None without a single seed.
            dims: Names of the trailing axes of outputs.

        Raises:
            InputError: The store cannot be written, or the path has other content.
        """
        store_path = checked_target(path, (".zarr",), "rows while they are computed")
        *member_axes, time_axis = axes
        ((coordinate_name, ticks),) = time_axis.coordinates.items()
        leading_shape = (*(axis.length for axis in member_axes), 0)
        arrays = {
            column.name: np.empty((*leading_shape, *column.row_shape), column.dtype)
            for column in columns
        }
        row_lengths = {
            column.length_of: arrays.pop(column.name)
            for column in columns
            if column.length_of is not None
        }
        outputs_template = Outputs(
            arrays,
            {},
            device,
            precision,
            axes=(*member_axes, Axis(time_axis.name, {coordinate_name: ticks[:0]})),
            lengths=row_lengths,
            seed=seed,
            draws=seed is not None,
            dims=dims,
            units={
                **(units or {}),
                **{column.name: column.unit for column in columns if column.unit},
            },
        )
        attributes = {STREAMED_ATTRIBUTE: coordinate_name, **folder.UNFINISHED_ATTRIBUTES}
        folder.create_store(
            store_path, outputs_template, attributes, _chunk_rows(outputs_template), run
        )
        return cls(store_path)

    @classmethod
    def resume(
        cls, path: str | Path, length: int, recorded: StoreCheckpoint, outputs: Collection[str]
    ) -> Stream:
        """Open the Zarr store of an interrupted run, to append rows after the first `length` rows.

        Args:
            path: Path of the store.
            length: Number of rows at the time of the checkpoint.
            recorded: Content of the checkpoint about the store.
            outputs: Names of the outputs to append.

        Raises:
            InputError: The store does not exist or is incomplete. It is unchanged.
        """
        real_path = real_place(path)
        store_metadata = check_and_resume_metadata(real_path, recorded, length, outputs)
        with folder.convert_os_errors(real_path):
            for partial_path in real_path.rglob("*.partial"):  # left by a killed run
                if partial_path.is_file():  # not an output with such a name
                    partial_path.unlink()
            store_metadata["attributes"] = {
                **store_metadata["attributes"],
                **folder.UNFINISHED_ATTRIBUTES,
            }
            folder.write_json(real_path, store_metadata)
            for name, array_metadata in store_metadata["consolidated_metadata"]["metadata"].items():
                folder.write_json(real_path / name, array_metadata)
            stream = cls(real_path)
            for array in stream._growing_arrays:
                array.rewrite_tail(length, recorded.tails[array.name])
                array.delete_chunks_after(length)
            stream.checksums |= recorded.checksums
        return stream

    # --- rows ---------------------------------------------------------------------------------

    def add(self, coordinate: Array, rows: Mapping[str, Array]) -> None:
        """Append rows to the store, with the time or step number of each row.

        Raises:
            DiskFullError: The disk is full. Earlier rows are written, and these rows if they fit.
            InputError: The dtype or shape of a row does not fit the store.
        """
        row_count = len(coordinate)
        *row_arrays, coordinate_array = self._growing_arrays
        new_rows = [
            *(array.convert_rows(rows[array.name], row_count) for array in row_arrays),
            coordinate_array.convert_rows(coordinate, row_count),
        ]
        padded_bytes = sum(
            array.padded_bytes(array_rows)
            for array, array_rows in zip(self._growing_arrays, new_rows, strict=True)
        )
        with folder.convert_os_errors(self._path):
            is_disk_full = not self._try_reserve(padded_bytes) and not self._try_write()
            if row_count:
                self._enqueue(new_rows, row_count, padded_bytes)
            if is_disk_full:
                self._write_fitting_rows()
                raise self._disk_full_error()
            self._write_due_rows()

    def can_store(self, rows: Mapping[str, Array]) -> bool:
        """Return True if rows of these shapes can be appended to the store."""
        return all(array.can_store(rows[array.name]) for array in self._growing_arrays[:-1])

    def flush(self) -> None:
        """Write all buffered rows to the store.

        Raises:
            DiskFullError: The disk is full. The buffered rows are written in the reserved space.
        """
        with folder.convert_os_errors(self._path):
            if not self._try_write():
                raise self._disk_full_error()

    def sync_files(self) -> None:
        """Flush the store's written files from the operating system to the disk (fsync)."""
        if self._synced_count == self._stored_count:
            return
        with folder.convert_os_errors(self._path):
            for array in self._growing_arrays:
                self.checksums |= array.sync_rows(self._synced_count, self._stored_count)
            for path in (self._real_path / METADATA, self._real_path):
                sync(path)
        self._synced_count = self._stored_count

    def checkpoint(self) -> StoreCheckpoint:
        """Return the checkpoint from which a run can resume after the written rows."""
        tails = {array.name: array.tail(self._stored_count) for array in self._growing_arrays}
        return StoreCheckpoint(self._metadata[-1][1], tails, self.checksums)

    def close(self) -> None:
        """Write all buffered rows, and release the reserved disk space."""
        try:
            self.flush()
            self.sync_files()
        finally:
            self._reserve.release()

    def arrays(self) -> dict[str, zarr.Array[Any]]:
        """Return the stored outputs as Zarr arrays, which are read on access."""
        from mdf_loop.run.recording.rows_of_run import open_rows

        return {
            array.name: open_rows(array.path, self._path) for array in self._growing_arrays[:-1]
        }

    def iterate_chunks(self) -> Iterator[tuple[Array, Mapping[str, Array]]]:
        """Yield the coordinates and rows of the store, one chunk of rows at a time."""
        *row_arrays, coordinate_array = self._growing_arrays
        open_arrays = {array: folder.open_array(array.path) for array in self._growing_arrays}
        for first_row in range(0, self._stored_count, self._rows_per_chunk):
            end_row = min(first_row + self._rows_per_chunk, self._stored_count)
            rows = {
                array.name: np.asarray(open_arrays[array][array.row_index(first_row, end_row)])
                for array in row_arrays
            }
            yield np.asarray(open_arrays[coordinate_array][first_row:end_row]), rows

    # --- the disk -----------------------------------------------------------------------------

    def _try_reserve(self, size: int = 0) -> bool:
        """Reserve disk space to write all buffered rows and `size` bytes, and return True on success."""
        return self._reserve.try_reserve(self._buffered_bytes + size + self._extra_bytes)

    def _write_due_rows(self) -> None:
        """Write complete chunks of buffered rows, or all rows if the buffer is full or old."""
        last_chunk_end = self.length - self.length % self._rows_per_chunk
        is_late = time.monotonic() > self._write_time + BUFFER_SECONDS
        if is_late or self._buffered_bytes >= BUFFER_BYTES or not self._try_reserve():
            self.flush()
        elif last_chunk_end > self._stored_count and not self._try_write(last_chunk_end):
            raise self._disk_full_error()

    def _enqueue(self, new_rows: Sequence[Array], count: int, size: int) -> None:
        for array, rows in zip(self._growing_arrays, new_rows, strict=True):
            array.enqueue(rows)
        self.length += count
        self._buffered_bytes += size

    def _try_write(self, end: int | None = None) -> bool:
        """Write buffered rows up to row `end`, and return False if the disk is full.

        On a full disk, all buffered rows are written in the reserved space.
        """
        row_count = (self.length if end is None else end) - self._stored_count
        try:
            if row_count:
                self._write(row_count)
        except OSError as error:
            if error.errno not in NO_SPACE_ERROR_CODES:
                raise
            self._reserve.release()
            self._write_fitting_rows()
            return False
        return True

    def _write_fitting_rows(self) -> None:
        """Write as many buffered rows as fit on the disk."""
        row_count = self.length - self._stored_count
        while row_count:
            try:
                self._write(row_count)
                row_count = min(row_count, self.length - self._stored_count)
            except OSError as error:
                if error.errno not in NO_SPACE_ERROR_CODES:
                    raise
                row_count //= 2
        self.length, self._buffered_bytes = self._stored_count, 0
        for array in self._growing_arrays:
            array.clear()

    def _write(self, count: int) -> None:
        """Write the first `count` buffered rows, and then the new length of the arrays."""
        for array in self._growing_arrays:
            array.write(self._stored_count, count)
        self._publish(self._stored_count + count)
        self._stored_count += count
        self._buffered_bytes = sum(array.dequeue(count) for array in self._growing_arrays)
        self._write_time = time.monotonic()

    def _publish(self, length: int) -> None:
        """Write the new length of all arrays to the metadata of the store.

        Coordinates follow after outputs, so they are never longer.
        """
        for (_, metadata), array in zip(self._metadata, self._growing_arrays, strict=False):
            metadata["shape"] = array.shape(length)
        for path, metadata in self._metadata:
            folder.write_json(path, metadata)

    def _disk_full_error(self) -> DiskFullError:
        return DiskFullError(
            f"the disk is full; '{self._path}' has the first {self._stored_count} rows",
            hint="make room, and go on from a checkpoint if there is one",
        )


def _chunk_rows(results: Outputs) -> int:
    """Choose the number of rows in a chunk, which is the same for all arrays.

    A chunk of every array takes at most half of the buffer in total.
    """
    labelled_arrays = [*variables(results), *coordinates(results)[-1:]]
    shapes = [
        (labelled_array.array.dtype.itemsize, *folder.enlarge_shape(labelled_array, results))
        for labelled_array in labelled_arrays
    ]
    row_bytes = [math.prod(extent for extent in shape if extent) for shape in shapes]
    chunk_rows: int = min(BUFFER_BYTES // 2 // sum(row_bytes), folder.CHUNK_BYTES // max(row_bytes))
    return max(1, chunk_rows)


def _read_static_checksums(
    place: Path, metadata_by_array: Mapping[str, Any], growing: Collection[str]
) -> dict[str, int]:
    """Read the checksums of all chunks of arrays to which no rows are appended, by path."""
    checksums = {}
    for name in metadata_by_array.keys() - set(growing):
        array_metadata = ArrayMetadata.parse(name, metadata_by_array[name])
        for chunk_key in (
            chunk_keys(array_metadata.shape, array_metadata.chunks)
            if array_metadata.has_checksums
            else ()
        ):
            checksums[f"{name}/{chunk_key}"] = read_checksum(place / name / chunk_key)
    return checksums
