"""Zarr store on disk that grows row by row during a run.

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
from mdf_loop.files import NO_SPACE, checked_target, real_place, sync
from mdf_loop.ir import Array
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.chunk_integrity import read_checksum
from mdf_loop.run.recording.growing_array import GrowingArray
from mdf_loop.run.recording.labels import coordinates, variables
from mdf_loop.run.recording.metadata import METADATA, STREAMED_ATTRIBUTE, Entry
from mdf_loop.run.recording.resuming import StoreCheckpoint, check_and_resume_metadata
from mdf_loop.run.recording.store_files import chunk_keys
from mdf_loop.run.recording.write_buffer import WriteBuffer

if TYPE_CHECKING:
    import zarr

BUFFER_BYTES = 16 << 20
"""Maximum bytes of rows that are buffered in memory."""

BUFFER_SECONDS = 1.0
"""Maximum seconds that rows are buffered while further rows arrive."""

ARRAY_RESERVE_BYTES = 1 << 15
"""Disk space in bytes that each array may need beyond its rows during a write."""


class Column(Struct, frozen=True):
    """Output of a store: name, common dtype and shape of its rows, and unit or "".

    If the column has the lengths of rows, `length_of` is their output, whose rows may become longer.
    """

    name: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    unit: str = ""
    length_of: str | None = None


class Stream:
    """Zarr store to which rows are appended.

    Attributes:
        length: Number of rows.
        checksums: Checksum of each complete chunk on the disk, by its path in the store.
    """

    def __init__(self, path: Path) -> None:
        place = real_place(path)  # independent of the working directory
        root = folder.read_json(place)
        metadata = root["consolidated_metadata"]["metadata"]
        along = root["attributes"][STREAMED_ATTRIBUTE]
        dim = metadata[along]["dimension_names"][0]
        growing = [
            name for name, entry in metadata.items() if dim in entry.get("dimension_names", ())
        ]
        order = sorted(growing, key=lambda name: name == along)
        self._path, self._place = path, place
        self._metadata = [*((place / name, metadata[name]) for name in order), (place, root)]
        self._growing = [GrowingArray(*entry, dim) for entry in self._metadata[:-1]]
        self._stored = self._synced = self.length = int(metadata[along]["shape"][0])
        self.checksums = _read_static_checksums(place, metadata, growing)
        self._buffered_bytes = 0
        self._written_at = time.monotonic()
        self._rows_per_chunk = min(growing.chunk_rows for growing in self._growing)
        self._extra_bytes = ARRAY_RESERVE_BYTES * len(self._metadata) + max(
            g.chunk_bytes for g in self._growing
        )
        with folder.convert_os_errors(path):
            self._reserve = WriteBuffer(place, BUFFER_BYTES + self._extra_bytes)
            self._can_buffer()

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
        """Create a store without rows, which replaces an earlier store of this package.

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
        target = checked_target(path, (".zarr",), "rows while they are computed")
        *members, last = axes
        ((along, ticks),) = last.coordinates.items()
        front = (*(axis.length for axis in members), 0)
        arrays = {c.name: np.empty((*front, *c.row_shape), c.dtype) for c in columns}
        lengths = {c.length_of: arrays.pop(c.name) for c in columns if c.length_of is not None}
        template = Outputs(
            arrays,
            {},
            device,
            precision,
            axes=(*members, Axis(last.name, {along: ticks[:0]})),
            lengths=lengths,
            seed=seed,
            draws=seed is not None,
            dims=dims,
            units={**(units or {}), **{c.name: c.unit for c in columns if c.unit}},
        )
        attributes = {STREAMED_ATTRIBUTE: along, **folder.UNFINISHED_ATTRIBUTES}
        folder.create_store(target, template, attributes, _chunk_rows(template), run)
        return cls(target)

    @classmethod
    def resume(
        cls, path: str | Path, length: int, recorded: StoreCheckpoint, outputs: Collection[str]
    ) -> Stream:
        """Open the store of an earlier run to append after its first `length` rows.

        Args:
            path: Path of the store.
            length: Number of rows at the time of the checkpoint.
            recorded: Content of the checkpoint about the store.
            outputs: Names of the outputs to append.

        Raises:
            InputError: The store does not exist or is incomplete. It is unchanged.
        """
        place = real_place(path)
        document = check_and_resume_metadata(place, recorded, length, outputs)
        with folder.convert_os_errors(place):
            for part in place.rglob("*.partial"):  # left by a killed run
                if part.is_file():  # not an output with such a name
                    part.unlink()
            document["attributes"] = {**document["attributes"], **folder.UNFINISHED_ATTRIBUTES}
            folder.write_json(place, document)
            for name, entry in document["consolidated_metadata"]["metadata"].items():
                folder.write_json(place / name, entry)
            stream = cls(place)
            for growing in stream._growing:
                growing.rewrite_tail(length, recorded.tails[growing.name])
                growing.delete_chunks_after(length)
            stream.checksums |= recorded.checksums
        return stream

    # --- rows ---------------------------------------------------------------------------------

    def add(self, coordinate: Array, rows: Mapping[str, Array]) -> None:
        """Append rows, with the time or the step number of each row.

        Raises:
            DiskFullError: The disk is full. Earlier rows are written, and these rows if they fit.
            InputError: The dtype or shape of a row does not fit the store.
        """
        count = len(coordinate)
        *others, along = self._growing
        parts = [
            *(g.convert_rows(rows[g.name], count) for g in others),
            along.convert_rows(coordinate, count),
        ]
        size = sum(g.padded_bytes(part) for g, part in zip(self._growing, parts, strict=True))
        with folder.convert_os_errors(self._path):
            is_full = not self._can_buffer(size) and not self._try_write()
            if count:
                self._enqueue(parts, count, size)
            if is_full:
                self._write_what_fits()
                raise self._disk_full_error()
            self._write_what_is_due()

    def can_store(self, rows: Mapping[str, Array]) -> bool:
        """Return True if the store can append rows of these shapes."""
        return all(growing.can_store(rows[growing.name]) for growing in self._growing[:-1])

    def flush(self) -> None:
        """Write the buffered rows to the store.

        Raises:
            DiskFullError: The disk is full. The buffered rows are written in the reserved space.
        """
        with folder.convert_os_errors(self._path):
            if not self._try_write():
                raise self._disk_full_error()

    def secure(self) -> None:
        """Flush the files with written rows from the operating system to the disk."""
        if self._synced == self._stored:
            return
        with folder.convert_os_errors(self._path):
            for growing in self._growing:
                self.checksums |= growing.sync_rows(self._synced, self._stored)
            for place in (self._place / METADATA, self._place):
                sync(place)
        self._synced = self._stored

    def kept(self) -> StoreCheckpoint:
        """Return the checkpoint content for a resume after the written rows."""
        tails = {growing.name: growing.tail(self._stored) for growing in self._growing}
        return StoreCheckpoint(self._metadata[-1][1], tails, self.checksums)

    def close(self) -> None:
        """Write the buffered rows, and release the reserved disk space."""
        try:
            self.flush()
            self.secure()
        finally:
            self._reserve.give_up()

    def arrays(self) -> dict[str, zarr.Array[Any]]:
        """Return the stored outputs, read from the disk on access."""
        from mdf_loop.run.recording.rows_of_run import open_rows

        return {g.name: open_rows(g.place, self._path) for g in self._growing[:-1]}

    def parts(self) -> Iterator[tuple[Array, Mapping[str, Array]]]:
        """Yield the stored rows in blocks, with their coordinates."""
        *others, along = self._growing
        arrays = {growing: folder.open_array(growing.place) for growing in self._growing}
        for start in range(0, self._stored, self._rows_per_chunk):
            end = min(start + self._rows_per_chunk, self._stored)
            rows = {g.name: np.asarray(arrays[g][g.row_index(start, end)]) for g in others}
            yield np.asarray(arrays[along][start:end]), rows

    # --- the disk -----------------------------------------------------------------------------

    def _can_buffer(self, size: int = 0) -> bool:
        """Return True if the buffered rows and `size` further bytes can be written even to a full disk."""
        return self._reserve.try_reserve(self._buffered_bytes + size + self._extra_bytes)

    def _write_what_is_due(self) -> None:
        """Write complete chunks of the buffered rows, or all rows if the buffer is full or old."""
        last_chunk_end = self.length - self.length % self._rows_per_chunk
        is_late = time.monotonic() > self._written_at + BUFFER_SECONDS
        if is_late or self._buffered_bytes >= BUFFER_BYTES or not self._can_buffer():
            self.flush()
        elif last_chunk_end > self._stored and not self._try_write(last_chunk_end):
            raise self._disk_full_error()

    def _enqueue(self, parts: Sequence[Array], count: int, size: int) -> None:
        for growing, part in zip(self._growing, parts, strict=True):
            growing.enqueue(part)
        self.length += count
        self._buffered_bytes += size

    def _try_write(self, end: int | None = None) -> bool:
        """Write buffered rows up to row `end`. Return False if the disk is full.

        On a full disk, all buffered rows are written in the reserved space.
        """
        count = (self.length if end is None else end) - self._stored
        try:
            if count:
                self._write(count)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._reserve.give_up()
            self._write_what_fits()
            return False
        return True

    def _write_what_fits(self) -> None:
        """Write all buffered rows, or as many rows as fit on the disk."""
        count = self.length - self._stored
        while count:
            try:
                self._write(count)
                count = min(count, self.length - self._stored)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                count //= 2
        self.length, self._buffered_bytes = self._stored, 0
        for growing in self._growing:
            growing.clear()

    def _write(self, count: int) -> None:
        """Write the first `count` buffered rows, and then the new length of the arrays."""
        for growing in self._growing:
            growing.write(self._stored, count)
        self._publish(self._stored + count)
        self._stored += count
        self._buffered_bytes = sum(growing.dequeue(count) for growing in self._growing)
        self._written_at = time.monotonic()

    def _publish(self, length: int) -> None:
        """Update the length of all arrays. Coordinates follow after outputs, so they are never longer."""
        for (_, document), growing in zip(self._metadata, self._growing, strict=False):
            document["shape"] = growing.shape(length)
        for place, document in self._metadata:
            folder.write_json(place, document)

    def _disk_full_error(self) -> DiskFullError:
        return DiskFullError(
            f"the disk is full; '{self._path}' has the first {self._stored} rows",
            hint="make room, and go on from a checkpoint if there is one",
        )


def _chunk_rows(results: Outputs) -> int:
    """Return the number of rows of one chunk of every array, at most half of the buffer in total."""
    items = [*variables(results), *coordinates(results)[-1:]]
    shapes = [(item.array.dtype.itemsize, *folder.enlarge_shape(item, results)) for item in items]
    sizes = [math.prod(extent for extent in shape if extent) for shape in shapes]
    rows: int = min(BUFFER_BYTES // 2 // sum(sizes), folder.CHUNK_BYTES // max(sizes))
    return max(1, rows)


def _read_static_checksums(
    place: Path, metadata: Mapping[str, Any], growing: Collection[str]
) -> dict[str, int]:
    """Return the checksums of the chunks of arrays that do not grow, by their paths in the store."""
    checksums = {}
    for name in metadata.keys() - set(growing):
        entry = Entry.of(name, metadata[name])
        for key in chunk_keys(entry.shape, entry.chunks) if entry.has_checksums else ():
            checksums[f"{name}/{key}"] = read_checksum(place / name / key)
    return checksums
