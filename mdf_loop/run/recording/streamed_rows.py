"""Recorded rows on disk, in a Zarr store that is created when the dtypes are known.

The first evaluation can return rows of a narrower dtype than later evaluations. The store is therefore
created with the second block of rows, or at the end. A checkpoint before that contains the rows of the
first block. The store is created again if a later row does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.files import checked_target, temporary_path
from mdf_loop.ir import Array, Data
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Coordinates
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers
from mdf_loop.run.outputs import Axis, split_first_axis
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.missing_rows import common_shape
from mdf_loop.run.recording.resuming import StoreCheckpoint
from mdf_loop.run.recording.store_lease import StoreLease
from mdf_loop.run.recording.stream import Column, Stream

_FirstBlock: TypeAlias = tuple[Array, Mapping[str, Array]]
"""Coordinates of rows, and the rows."""

_COORDINATES_KEY = "along"
"""Key of the coordinates in a snapshot, distinct from output names, which contain a dot."""


class StreamedRows:
    """Recorded rows in the Zarr store at `path`, as arrays `[members..., time, ...]`.

    `about` returns device and precision after the start of the run. `columns` are the names of the outputs.
    `lengths` has the names of the arrays of lengths by output. `seed` is the single seed of the random
    numbers, or None. `dims` has the names of trailing axes. Each write requires the lease `lease`.
    """

    def __init__(
        self,
        path: Path,
        axes: tuple[Axis, ...],
        about: Callable[[], tuple[str, str]],
        units: Mapping[str, str],
        columns: Collection[str],
        lengths: Mapping[str, str],
        lease: StoreLease,
        seed: int | None = None,
        dims: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._path = checked_target(path, (".zarr",), "rows while they are computed")
        self._axes = axes
        self._about = about
        self._units = units
        self._columns = columns
        self._output_by_length = {
            length_column: output_name for output_name, length_column in lengths.items()
        }
        self._lease = lease
        self._seed = seed
        self._dims = dims
        self._first_block: _FirstBlock | None = None
        self._stream: Stream | None = None

    @property
    def length(self) -> int:
        """Number of recorded rows."""
        buffered_count = 0 if self._first_block is None else len(self._first_block[0])
        return buffered_count if self._stream is None else self._stream.length

    def next_buffers(self, count: int) -> OutputBuffers:
        """Return no preallocated memory, since rows are written to the disk."""
        return NO_BUFFERS

    def add(self, coordinate: Coordinates, rows: Mapping[str, Array]) -> None:
        """Append rows to the store.

        The first block of rows stays in memory until the next block arrives.
        """
        self._lease.check()
        coordinate, rows = np.asarray(coordinate), split_first_axis(rows, self._axes[:-1])
        if self._stream is not None:
            if len(coordinate) and not self._stream.can_store(rows):
                self._stream = self._recreate(self._stream, rows)
            self._stream.add(coordinate, rows)
        elif self._first_block is None:
            self._first_block = (coordinate, rows)
        elif len(coordinate):
            self._open_stream(self._first_block, rows).add(coordinate, rows)
        else:  # also an empty block has dtypes
            first_rows = {
                name: self._convert_to_common_dtype(self._first_block[1][name], rows[name])
                for name in rows
            }
            self._first_block = (self._first_block[0], first_rows)

    def _convert_to_common_dtype(self, rows: Array, other: Array) -> Array:
        """Convert an array to the common dtype of two arrays."""
        return rows.astype(np.result_type(rows.dtype, other.dtype), copy=False)

    def _open_stream(self, first_block: _FirstBlock, rows: Mapping[str, Array]) -> Stream:
        """Return the Zarr store, which is created if necessary with dtypes that fit all rows."""
        if self._stream is None:
            coordinate, first_rows = first_block
            self._stream = self._create_stream(self._path, first_rows, rows)
            self._stream.add(coordinate, first_rows)
            self._first_block = None
        return self._stream

    def _recreate(self, old: Stream, rows: Mapping[str, Array]) -> Stream:
        """Replace the Zarr store by one whose dtypes and shapes also fit new rows.

        The old rows are copied.
        """
        old.close()
        real_path = folder.check_target(self._path)
        with folder.convert_os_errors(real_path), temporary_path(real_path) as temporary_folder:
            temporary_folder.mkdir()
            new_path = temporary_folder / real_path.name
            temporary_stream = self._create_stream(new_path, old.arrays(), rows)
            for chunk in old.iterate_chunks():
                temporary_stream.add(*chunk)
            temporary_stream.close()
            folder.install_store(new_path, real_path)
        new_stream = Stream(self._path)
        new_stream.checksums |= temporary_stream.checksums
        return new_stream

    def _create_stream(self, path: Path, *rows: Mapping[str, Any]) -> Stream:
        """Create a Zarr store whose dtypes and row shapes fit all of the given rows."""
        self._lease.check_place()
        columns = [
            self._describe_output(name, *(rows_by_name[name] for rows_by_name in rows))
            for name in rows[-1]
        ]
        device, precision = self._about()
        return Stream.create(
            path,
            columns,
            self._axes,
            device,
            precision,
            self._units,
            self._lease.run_id,
            self._seed,
            self._dims,
        )

    def _describe_output(self, name: str, *arrays: Any) -> Column:
        """Return the description of an output, with a dtype and row shape that fit all `arrays`."""
        leading_ndim = len(self._axes)
        nonempty_arrays = [array for array in arrays if array.shape[leading_ndim - 1]] or arrays
        row_shape = reduce(
            partial(common_shape, name), (array.shape[leading_ndim:] for array in nonempty_arrays)
        )
        dtype = np.result_type(*(array.dtype for array in arrays))
        return Column(
            name, dtype, row_shape, self._units.get(name, ""), self._output_by_length.get(name)
        )

    def flush(self) -> None:
        """Write buffered rows, and flush them to the disk, if the store exists."""
        self._lease.check()
        if self._stream is not None:
            self._stream.flush()
            self._stream.sync_files()

    def close(self) -> None:
        """Write buffered rows, and close the store."""
        self._lease.check()
        if self._first_block is not None:
            self._open_stream(self._first_block, self._first_block[1])
        if self._stream is not None:
            self._stream.close()

    def arrays(self) -> Mapping[str, Data]:
        """Return the outputs as Zarr arrays, which are read on access."""
        return {} if self._stream is None else self._stream.arrays()

    def snapshot(self) -> Mapping[str, Array]:
        """Return checkpoint arrays: the first rows before the store exists, then its state."""
        if self._stream is not None:
            return self._stream.checkpoint().arrays()
        if self._first_block is None:
            return {}
        coordinate, rows = self._first_block
        return {_COORDINATES_KEY: coordinate, **rows}

    def restore(self, snapshot: Snapshot, length: int, columns: Mapping[str, str]) -> None:
        """Resume after `length` rows, from the store or from rows in a checkpoint."""
        self._lease.check()
        if _COORDINATES_KEY in snapshot:
            self._lease.check_can_create()
            time_axis = len(self._axes) - 1
            stored_rows = {
                name: snapshot.rows(name, length, time_axis, dtype)
                for name, dtype in columns.items()
            }
            self._first_block = (snapshot.array(_COORDINATES_KEY, "biuf", (length,)), stored_rows)
        elif (snapshot or length) and not self._path.exists():
            raise InputError(
                f"the run cannot go on: its rows were in '{self._path}', which is not there",
                hint="put it back, or begin anew",
            )
        elif snapshot or length:
            self._lease.check_can_resume()
            self._stream = Stream.resume(
                self._path, length, StoreCheckpoint.decode(snapshot), self._columns
            )
