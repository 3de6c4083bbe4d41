"""Zarr store into which several processes write the members of a sweep (or trials).

    x.zarr/zarr.json     attribute `sweep`: identity of the run, division into chunks, number of blocks done
    x.zarr/computed      int8 for each member: 0 missing, 1 computed, 2 failed
    x.zarr/FNpop.V       nan (or 0 for integers) for members that are not computed yet

Chunks have whole members, and regions have whole chunks, so two processes never write the same chunk. The
flags of a region are written after its other arrays. The store is therefore readable at any time, and a
resumed run finds the missing members by the flags.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError, RunError
from mdf_loop.files import temporary_path, write_atomically
from mdf_loop.ir import Array
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.chunk_integrity import read_checksum
from mdf_loop.run.recording.labels import (
    END_ATTRIBUTES,
    Labelled,
    coordinates,
    escape_name,
    variables,
)
from mdf_loop.run.recording.metadata import FLAG_ATTRIBUTES, METADATA, DamagedError
from mdf_loop.run.recording.region_layout import SWEEP_ATTRIBUTE, metadata_digest
from mdf_loop.run.recording.region_record import record_path, sync_chunks, write_record
from mdf_loop.run.recording.store_files import chunk_keys
from mdf_loop.run.recording.store_lease import StoreLease

_BLOCK_MEMBERS = 1 << 16
"""Number of members whose coordinates are computed at once."""

Box: TypeAlias = tuple[slice, ...]
CoordinateFunction: TypeAlias = Callable[[int, int], Array]
"""Function that returns the coordinates of a range of positions along an axis."""


class Regions(Struct, frozen=True):
    """Zarr store into which several processes write different members of a sweep.

    The store is at `path`, `run_id` is the id of the run, and `shape` has the lengths of the axes of members.
    `flags_name` is the name of the array of member states. `has_checksums` is True if the checksums of each
    block are recorded.
    """

    path: Path
    run_id: str
    shape: tuple[int, ...]
    output_names: tuple[str, ...]
    flags_name: str
    has_checksums: bool

    def write(self, boxes: list[Box], arrays: Mapping[str, Array], flags: Array) -> None:
        """Write the outputs of the sweep members at indices `boxes`, and then the member states.

        The outputs are arrays `[member, ...]`, with the members of all boxes one after the other.

        Raises:
            RunError: The dtype or shape of an output differs from that of the first computed members.
            InputError: The store belongs to another run now, or cannot be written.
        """
        if folder.read_own_attributes(self.path).get(folder.RUN_ATTRIBUTE) != self.run_id:
            raise InputError(
                f"'{self.path}' is no more the store of this run: somebody replaced it"
            )
        with folder.convert_os_errors(self.path):
            chunk_paths: list[str] = []
            for name in filter(
                arrays.__contains__, self.output_names
            ):  # without arrays if all failed
                chunk_paths += self._write(name, boxes, arrays[name])
            sync_chunks(self.path, chunk_paths)
            if self.has_checksums:
                checksum_path = record_path(self.flags_name, self.shape, boxes)
                write_record(self.path, checksum_path, chunk_paths, flags)
            sync_chunks(self.path, self._write(self.flags_name, boxes, flags))

    def _write(self, name: str, boxes: list[Box], rows: Array) -> list[str]:
        """Write the rows of an output, and return the paths of the written chunks."""
        self._refuse_links(escape_name(name))
        zarr_array = folder.open_array(self.path / escape_name(name), "r+")
        leading_ndim, first_member = len(self.shape), 0
        if rows.shape[1:] != zarr_array.shape[leading_ndim:] or not _can_store(
            rows.dtype, zarr_array.dtype
        ):
            raise RunError(
                f"'{name}' is {rows.dtype}{list(rows.shape[1:])} of these members, and "
                f"{zarr_array.dtype}{list(zarr_array.shape[leading_ndim:])} of the first ones",
                hint="a store holds values of one type: choose other outputs (only), or give no store",
            )
        for member_box in boxes:
            extents = tuple(axis_slice.stop - axis_slice.start for axis_slice in member_box)
            end_member = first_member + math.prod(extents)
            zarr_array[member_box] = rows[first_member:end_member].reshape(
                *extents, *rows.shape[1:]
            )
            first_member = end_member
        written_keys = (
            chunk_key
            for box in boxes
            for chunk_key in chunk_keys(zarr_array.shape, zarr_array.chunks, box)
        )
        return [f"{escape_name(name)}/{chunk_key}" for chunk_key in written_keys]

    def _refuse_links(self, name: str) -> None:
        """Raise InputError if the folder of an array, or of its chunks, is a symbolic link."""
        for path in (self.path / name, self.path / name / "c"):
            if path.is_symlink():
                raise InputError(
                    f"cannot write '{self.path}': '{path.relative_to(self.path)}' in it is a "
                    "link, and nothing is written through links",
                    hint="put the folder itself in place of the link",
                )

    def computed(self) -> Array:
        """Read the state of each member (missing, computed or failed) as a 1-D array."""
        return np.asarray(folder.open_array(self.path / self.flags_name)[...]).reshape(-1)

    def arrays(self, display_path: Path) -> dict[str, Any]:
        """Return the outputs as Zarr arrays, which are read on access.

        Errors call the store `display_path`.
        """
        from mdf_loop.run.recording.rows_of_run import open_rows

        return {
            name: open_rows(self.path / escape_name(name), display_path)
            for name in self.output_names
        }

    def sweep_record(self) -> dict[str, Any]:
        """Read the record about the sweep from the attributes of the store."""
        return dict(self._read_root()["attributes"][SWEEP_ATTRIBUTE])

    def update_record(
        self, lease: StoreLease, attributes: Mapping[str, Any], more: Mapping[str, Any]
    ) -> None:
        """Update the record about the sweep in the attributes of the store.

        None removes an attribute of `more`.
        """
        lease.check()
        with folder.convert_os_errors(self.path):
            root_metadata = self._read_root()
            attributes_by_key = {
                key: content
                for key, content in root_metadata["attributes"].items()
                if key not in END_ATTRIBUTES
            }
            attributes_by_key[SWEEP_ATTRIBUTE] = {
                **attributes_by_key[SWEEP_ATTRIBUTE],
                **attributes,
            }
            attributes_by_key |= more
            root_metadata["attributes"] = {
                key: content for key, content in attributes_by_key.items() if content is not None
            }
            _write_root(self.path, root_metadata)

    def _read_root(self) -> dict[str, Any]:
        """Read the metadata of the whole store.

        Raises:
            InputError: The metadata were damaged during the run.
        """
        try:
            root_metadata = folder.read_json(self.path)
            root_metadata["attributes"][SWEEP_ATTRIBUTE]["digest"] = None
            return dict(root_metadata)
        except (DamagedError, LookupError, TypeError):
            raise InputError(
                f"'{self.path}' was damaged while the run wrote it",
                hint="begin anew: overwrite=True (--overwrite)",
            ) from None

    def rewrite_coordinate(
        self, labelled_array: Labelled, along: CoordinateFunction | None
    ) -> dict[str, int]:
        """Rewrite a coordinate of the store, and return the checksums of its chunks by path."""
        folder_name = escape_name(labelled_array.name)
        with folder.convert_os_errors(self.path):
            zarr_array = folder.open_array(self.path / folder_name, "r+")
            _write_values(zarr_array, labelled_array.array, along)
            chunk_paths = [
                f"{folder_name}/{chunk_key}"
                for chunk_key in chunk_keys(zarr_array.shape, zarr_array.chunks)
            ]
            sync_chunks(self.path, chunk_paths)
        return _read_checksums(self.path, chunk_paths) if self.has_checksums else {}


def _write_root(place: Path, root_metadata: dict[str, Any]) -> None:
    """Write the metadata of the whole store with a checksum, and flush them to the disk."""
    root_metadata["attributes"][SWEEP_ATTRIBUTE]["digest"] = metadata_digest(root_metadata)
    encoded_metadata = json.dumps(root_metadata).encode()
    write_atomically(place / METADATA, lambda stream: stream.write(encoded_metadata))


def _read_checksums(store: Path, paths: Iterable[str]) -> dict[str, int]:
    return {path: read_checksum(store / path) for path in paths}


def _can_store(dtype: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    return np.result_type(dtype, stored) == stored


def create_regions(
    lease: StoreLease,
    template: Outputs,
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    along: Mapping[str, CoordinateFunction],
    attributes: Mapping[str, Any],
) -> Regions:
    """Create a Zarr store for the results of a sweep, in which all members are missing.

    Args:
        lease: Lease for writing the store.
        template: Results of one member, whose axes have length 1.
        shape: Number of members along each axis.
        chunk: Number of members of a chunk along each axis.
        along: Functions that return coordinates along axes, by the name of the coordinate.
        attributes: Description of the run.
    """
    lease.check_place()
    real_path = folder.check_target(lease.path)
    leading_ndim, array_names = (
        len(shape),
        {labelled_array.name for labelled_array in (*coordinates(template), *variables(template))},
    )
    flags_name = "computed"
    while flags_name in array_names:
        flags_name += "_"
    dims = tuple(axis.name for axis in template.axes[:leading_ndim])
    with folder.convert_os_errors(real_path), temporary_path(real_path) as temporary_folder:
        new_store = temporary_folder / "new"
        new_store.mkdir(parents=True)
        metadata_by_array, chunk_paths = {}, list[str]()
        for labelled_array in coordinates(template):
            chunk_paths += _write_coordinate(
                new_store, labelled_array, dict(zip(dims, shape, strict=True)), along
            )
            metadata_by_array[escape_name(labelled_array.name)] = folder.read_json(
                new_store / escape_name(labelled_array.name)
            )
        for labelled_array in (
            *variables(template),
            Labelled(flags_name, dims, np.zeros(1, np.int8), ""),
        ):
            _create_output(
                new_store,
                labelled_array,
                leading_ndim,
                shape,
                chunk,
                FLAG_ATTRIBUTES if labelled_array.name == flags_name else {},
            )
            metadata_by_array[escape_name(labelled_array.name)] = folder.read_json(
                new_store / escape_name(labelled_array.name)
            )
        attributes = {
            **attributes,
            "flags": flags_name,
            "checksums": _read_checksums(new_store, chunk_paths),
        }
        run_attributes = {folder.RUN_ATTRIBUTE: lease.run_id, SWEEP_ATTRIBUTE: attributes}
        _write_root(
            new_store,
            folder.make_root_metadata(
                metadata_by_array, {**folder.store_attributes(template), **run_attributes}
            ),
        )
        folder.install_store(new_store, real_path)
    return Regions(real_path, lease.run_id, shape, tuple(template), flags_name, has_checksums=True)


def _create_output(
    store: Path,
    labelled_array: Labelled,
    leading_ndim: int,
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    more: Mapping[str, Any],
) -> None:
    """Create the array of an output for all members, without values."""
    row_shape, dtype = tuple(labelled_array.array.shape[leading_ndim:]), labelled_array.array.dtype
    if dtype.kind not in "biufc":
        raise InputError(
            f"'{labelled_array.name}' is text, which is not written by several processes",
            hint="choose other outputs (only, --only)",
        )
    row_chunk = tuple(max(1, extent) for extent in row_shape)
    if (
        row_chunk
        and math.prod(chunk) * math.prod(row_chunk) * dtype.itemsize > 2 * folder.CHUNK_BYTES
    ):
        row_bytes = math.prod(chunk) * math.prod(row_chunk[1:]) * dtype.itemsize
        row_chunk = (min(row_chunk[0], max(1, folder.CHUNK_BYTES // row_bytes)), *row_chunk[1:])
    chunk_shape = (*chunk, *row_chunk)
    folder.create_array(
        store, labelled_array, (*shape, *row_shape), dtype, chunk_shape, with_nan=True, more=more
    )


def _write_coordinate(
    store: Path,
    labelled_array: Labelled,
    lengths: Mapping[str, int],
    along: Mapping[str, CoordinateFunction],
) -> list[str]:
    """Create a coordinate array, write its values, and return the paths of its chunks."""
    coordinate_function = along.get(labelled_array.name)
    if coordinate_function is None:
        shape = tuple(labelled_array.array.shape)
        chunk_shape = tuple(max(1, extent) for extent in shape)
    else:
        member_count, value_shape = (
            lengths[labelled_array.dims[0]],
            tuple(labelled_array.array.shape[1:]),
        )
        shape = (member_count, *value_shape)
        chunk_shape = (
            min(member_count, _BLOCK_MEMBERS),
            *(max(1, extent) for extent in value_shape),
        )
    zarr_array = folder.create_array(
        store, labelled_array, shape, labelled_array.array.dtype, chunk_shape, with_nan=False
    )
    _write_values(zarr_array, labelled_array.array, coordinate_function)
    return [
        f"{escape_name(labelled_array.name)}/{chunk_key}"
        for chunk_key in chunk_keys(shape, chunk_shape)
    ]


def _write_values(array: Any, values: Any, along: CoordinateFunction | None) -> None:
    """Write an array of coordinates, or compute and write the coordinates part by part.

    `values` is the array, and the function `along` computes a part. None means that `values` is written.
    """
    if along is None:
        array[...] = np.asarray(values)
        return
    for first_member in range(0, array.shape[0], _BLOCK_MEMBERS):
        end_member = min(first_member + _BLOCK_MEMBERS, array.shape[0])
        array[first_member:end_member] = along(first_member, end_member)
