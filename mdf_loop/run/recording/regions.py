"""Store that several processes write region by region, for the members of a sweep or for trials.

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
    """Regions of a Zarr store that different processes write, for the members of one run.

    The store is at `place`, `run` is the id of the run, and `shape` has the lengths of the axes of members.
    `flags` is the name of the array of member states. `has_checksums` is True if the checksums of each
    block are recorded.
    """

    place: Path
    run: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    flags: str
    has_checksums: bool

    def write(self, boxes: list[Box], arrays: Mapping[str, Array], flags: Array) -> None:
        """Write the outputs `[member, ...]` and the state flags of the members in `boxes`.

        Raises:
            RunError: The dtype or shape of an output differs from that of the first computed members.
            InputError: The store belongs to another run now, or cannot be written.
        """
        if folder.read_own_attributes(self.place).get(folder.RUN_ATTRIBUTE) != self.run:
            raise InputError(
                f"'{self.place}' is no more the store of this run: somebody replaced it"
            )
        with folder.convert_os_errors(self.place):
            chunks: list[str] = []
            for name in filter(arrays.__contains__, self.names):  # without arrays if all failed
                chunks += self._write(name, boxes, arrays[name])
            sync_chunks(self.place, chunks)
            if self.has_checksums:
                path = record_path(self.flags, self.shape, boxes)
                write_record(self.place, path, chunks, flags)
            sync_chunks(self.place, self._write(self.flags, boxes, flags))

    def _write(self, name: str, boxes: list[Box], rows: Array) -> list[str]:
        """Write the rows of an array, and return the paths of the chunks within the store."""
        self._refuse_links(escape_name(name))
        array = folder.open_array(self.place / escape_name(name), "r+")
        front, first = len(self.shape), 0
        if rows.shape[1:] != array.shape[front:] or not _can_store(rows.dtype, array.dtype):
            raise RunError(
                f"'{name}' is {rows.dtype}{list(rows.shape[1:])} of these members, and "
                f"{array.dtype}{list(array.shape[front:])} of the first ones",
                hint="a store holds values of one type: choose other outputs (only), or give no store",
            )
        for box in boxes:
            extents = tuple(part.stop - part.start for part in box)
            last = first + math.prod(extents)
            array[box] = rows[first:last].reshape(*extents, *rows.shape[1:])
            first = last
        keys = (key for box in boxes for key in chunk_keys(array.shape, array.chunks, box))
        return [f"{escape_name(name)}/{key}" for key in keys]

    def _refuse_links(self, name: str) -> None:
        """Raise InputError if the folder of an array or of its chunks is a link."""
        for place in (self.place / name, self.place / name / "c"):
            if place.is_symlink():
                raise InputError(
                    f"cannot write '{self.place}': '{place.relative_to(self.place)}' in it is a "
                    "link, and nothing is written through links",
                    hint="put the folder itself in place of the link",
                )

    def computed(self) -> Array:
        """Read the state flags of all members as a one-dimensional array."""
        return np.asarray(folder.open_array(self.place / self.flags)[...]).reshape(-1)

    def arrays(self, display_path: Path) -> dict[str, Any]:
        """Return the outputs of the store, read on access. Errors call the store `display_path`."""
        from mdf_loop.run.recording.rows_of_run import open_rows

        return {
            name: open_rows(self.place / escape_name(name), display_path) for name in self.names
        }

    def manifest(self) -> dict[str, Any]:
        """Read the description of the run from the attributes of the store."""
        return dict(self._read_root()["attributes"][SWEEP_ATTRIBUTE])

    def note(
        self, lease: StoreLease, attributes: Mapping[str, Any], more: Mapping[str, Any]
    ) -> None:
        """Update the description of the run in the store. None removes an attribute of `more`."""
        lease.check()
        with folder.convert_os_errors(self.place):
            root = self._read_root()
            updated = {
                word: v for word, v in root["attributes"].items() if word not in END_ATTRIBUTES
            }
            updated[SWEEP_ATTRIBUTE] = {**updated[SWEEP_ATTRIBUTE], **attributes}
            updated |= more
            root["attributes"] = {word: v for word, v in updated.items() if v is not None}
            _write_root(self.place, root)

    def _read_root(self) -> dict[str, Any]:
        """Read the metadata of the whole store.

        Raises:
            InputError: The metadata were damaged during the run.
        """
        try:
            root = folder.read_json(self.place)
            root["attributes"][SWEEP_ATTRIBUTE]["digest"] = None
            return dict(root)
        except (DamagedError, LookupError, TypeError):
            raise InputError(
                f"'{self.place}' was damaged while the run wrote it",
                hint="begin anew: overwrite=True (--overwrite)",
            ) from None

    def write_coordinate(self, item: Labelled, along: CoordinateFunction | None) -> dict[str, int]:
        """Rewrite a coordinate, and return the checksums of its chunks by their paths in the store."""
        name = escape_name(item.name)
        with folder.convert_os_errors(self.place):
            array = folder.open_array(self.place / name, "r+")
            _write_values(array, item.array, along)
            paths = [f"{name}/{key}" for key in chunk_keys(array.shape, array.chunks)]
            sync_chunks(self.place, paths)
        return _read_checksums(self.place, paths) if self.has_checksums else {}


def _write_root(place: Path, root: dict[str, Any]) -> None:
    """Replace the metadata of a store, with their digest, and flush them to the disk."""
    root["attributes"][SWEEP_ATTRIBUTE]["digest"] = metadata_digest(root)
    content = json.dumps(root).encode()
    write_atomically(place / METADATA, lambda stream: stream.write(content))


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
    """Create a store for members of this shape, without computed members.

    Args:
        lease: Lease for writing the store.
        template: Results of one member, whose axes have length 1.
        shape: Number of members along each axis.
        chunk: Number of members of a chunk along each axis.
        along: Functions that return coordinates along axes, by the name of the coordinate.
        attributes: Description of the run.
    """
    lease.check_place()
    place = folder.check_target(lease.path)
    front, sweep_names = (
        len(shape),
        {item.name for item in (*coordinates(template), *variables(template))},
    )
    flags = "computed"
    while flags in sweep_names:
        flags += "_"
    dims = tuple(axis.name for axis in template.axes[:front])
    with folder.convert_os_errors(place), temporary_path(place) as temporary:
        new_store = temporary / "new"
        new_store.mkdir(parents=True)
        documents, paths = {}, list[str]()
        for item in coordinates(template):
            paths += _write_coordinate(new_store, item, dict(zip(dims, shape, strict=True)), along)
            documents[escape_name(item.name)] = folder.read_json(new_store / escape_name(item.name))
        for item in (*variables(template), Labelled(flags, dims, np.zeros(1, np.int8), "")):
            _create_output(
                new_store, item, front, shape, chunk, FLAG_ATTRIBUTES if item.name == flags else {}
            )
            documents[escape_name(item.name)] = folder.read_json(new_store / escape_name(item.name))
        attributes = {**attributes, "flags": flags, "checksums": _read_checksums(new_store, paths)}
        run_entries = {folder.RUN_ATTRIBUTE: lease.run, SWEEP_ATTRIBUTE: attributes}
        _write_root(
            new_store,
            folder.make_root_metadata(
                documents, {**folder.store_attributes(template), **run_entries}
            ),
        )
        folder.install_store(new_store, place)
    return Regions(place, lease.run, shape, tuple(template), flags, has_checksums=True)


def _create_output(
    store: Path,
    item: Labelled,
    front: int,
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    more: Mapping[str, Any],
) -> None:
    """Create an output without computed members. Long rows of large members are divided into chunks, too."""
    row_shape, dtype = tuple(item.array.shape[front:]), item.array.dtype
    if dtype.kind not in "biufc":
        raise InputError(
            f"'{item.name}' is text, which is not written by several processes",
            hint="choose other outputs (only, --only)",
        )
    rows = tuple(max(1, extent) for extent in row_shape)
    if rows and math.prod(chunk) * math.prod(rows) * dtype.itemsize > 2 * folder.CHUNK_BYTES:
        row = math.prod(chunk) * math.prod(rows[1:]) * dtype.itemsize
        rows = (min(rows[0], max(1, folder.CHUNK_BYTES // row)), *rows[1:])
    chunks = (*chunk, *rows)
    folder.create_array(store, item, (*shape, *row_shape), dtype, chunks, with_nan=True, more=more)


def _write_coordinate(
    store: Path, item: Labelled, lengths: Mapping[str, int], along: Mapping[str, CoordinateFunction]
) -> list[str]:
    """Write a new coordinate, and return the paths of its chunks within the store."""
    values = along.get(item.name)
    if values is None:
        shape = tuple(item.array.shape)
        chunks = tuple(max(1, extent) for extent in shape)
    else:
        count, value_shape = lengths[item.dims[0]], tuple(item.array.shape[1:])
        shape = (count, *value_shape)
        chunks = (min(count, _BLOCK_MEMBERS), *(max(1, extent) for extent in value_shape))
    array = folder.create_array(store, item, shape, item.array.dtype, chunks, with_nan=False)
    _write_values(array, item.array, values)
    return [f"{escape_name(item.name)}/{key}" for key in chunk_keys(shape, chunks)]


def _write_values(array: Any, values: Any, along: CoordinateFunction | None) -> None:
    """Write the values of a coordinate at once, or block by block if `along` computes them."""
    if along is None:
        array[...] = np.asarray(values)
        return
    for first in range(0, array.shape[0], _BLOCK_MEMBERS):
        last = min(first + _BLOCK_MEMBERS, array.shape[0])
        array[first:last] = along(first, last)
