"""A store that is written region by region, by all who compute members of a sweep, or trials.

    x.zarr/zarr.json     attribute `sweep`: what the run is, how members are cut, how many blocks are done
    x.zarr/computed      int8 for each member: 0 not yet, 1 computed, 2 its run has failed
    x.zarr/FNpop.V       nan (or 0, of whole numbers) where nothing is computed yet

Chunks have whole members, and a region whole chunks, so nobody writes what another one does. What
is said to be computed is written after all else of a region. So the store is readable at any moment,
and who goes on finds in it what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError, RunError
from mdf_loop.files import beside
from mdf_loop.ir import Array
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.claim import Claim
from mdf_loop.run.recording.labels import ENDS, Labelled, coordinates, safe_name, variables
from mdf_loop.run.recording.metadata import FLAG_ATTRIBUTES
from mdf_loop.run.recording.region_layout import SWEEP

_AT_ONCE = 1 << 16
"""How many members' coordinates are made at once."""

Box: TypeAlias = tuple[slice, ...]
Along: TypeAlias = Callable[[int, int], Array]
"""What stands along an axis, from one place to before another."""


class Regions(Struct, frozen=True):
    """A store at `place` with the members of a `run`, which have axes of this `shape`.

    `flags` is the name of what says which members are computed.
    """

    place: Path
    run: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    flags: str

    def write(self, boxes: list[Box], arrays: Mapping[str, Array], flags: Array) -> None:
        """Write the members in boxes: `[member, ...]` by output, and what became of each.

        Raises:
            RunError: values have another type than those that were computed first.
            InputError: the store is not that of the run any more, or cannot be written.
        """
        if folder.attributes_of(self.place).get(folder.RUN) != self.run:
            raise InputError(
                f"'{self.place}' is no more the store of this run: somebody replaced it"
            )
        with folder.writing(self.place):
            for name in filter(arrays.__contains__, self.names):  # none is there if all failed
                self._write(name, boxes, arrays[name])
            self._write(self.flags, boxes, flags)

    def _write(self, name: str, boxes: list[Box], rows: Array) -> None:
        self._refuse_links(safe_name(name))
        made = folder.open_array(self.place / safe_name(name), "r+")
        front, first = len(self.shape), 0
        if rows.shape[1:] != made.shape[front:] or not _fits(rows.dtype, made.dtype):
            raise RunError(
                f"'{name}' is {rows.dtype}{list(rows.shape[1:])} of these members, and "
                f"{made.dtype}{list(made.shape[front:])} of the first ones",
                hint="a store holds values of one type: choose other outputs (only), or give no store",
            )
        for box in boxes:
            extents = tuple(part.stop - part.start for part in box)
            last = first + math.prod(extents)
            made[box] = rows[first:last].reshape(*extents, *rows.shape[1:])
            first = last

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
        """What became of each member, along one axis."""
        return np.asarray(folder.open_array(self.place / self.flags)[...]).reshape(-1)

    def arrays(self, shown: Path) -> dict[str, Any]:
        """The outputs of the store, which people call so, read where they are looked at."""
        from mdf_loop.run.recording.rows_of_run import open_rows

        return {name: open_rows(self.place / safe_name(name), shown) for name in self.names}

    def manifest(self) -> dict[str, Any]:
        """What the store says of the run."""
        return dict(folder.attributes_of(self.place)[SWEEP])

    def note(self, claim: Claim, said: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        """Say how far the run is; `more` are attributes, of which those that are None go."""
        claim.check()
        with folder.writing(self.place):
            root = folder.read_json(self.place)
            known = {word: v for word, v in root["attributes"].items() if word not in ENDS}
            known[SWEEP] = {**known[SWEEP], **said}
            known |= more
            root["attributes"] = {word: v for word, v in known.items() if v is not None}
            folder.write_json(self.place, root)


def _fits(dtype: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    return np.result_type(dtype, stored) == stored


def create_regions(
    claim: Claim,
    template: Outputs,
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    along: Mapping[str, Along],
    said: Mapping[str, Any],
) -> Regions:
    """A store for members of this shape, in which nothing is computed yet.

    Args:
        claim: the right to write it.
        template: results of one member, whose axes are of length one.
        shape: how many members there are along each axis.
        chunk: how many of them are in a chunk.
        along: what stands along axes, by the name of the coordinate.
        said: what the store says of the run.
    """
    claim.check_place()
    place = folder.checked_store(claim.path)
    front, taken = (
        len(shape),
        {item.name for item in (*coordinates(template), *variables(template))},
    )
    flags = "computed"
    while flags in taken:
        flags += "_"
    dims = tuple(axis.name for axis in template.axes[:front])
    with folder.writing(place), beside(place) as made:
        new = made / "new"
        new.mkdir(parents=True)
        documents = {}
        for item in coordinates(template):
            _write_coordinate(new, item, dict(zip(dims, shape, strict=True)), along)
            documents[safe_name(item.name)] = folder.read_json(new / safe_name(item.name))
        for item in (*variables(template), Labelled(flags, dims, np.zeros(1, np.int8), "")):
            _blank(new, item, front, shape, chunk, FLAG_ATTRIBUTES if item.name == flags else {})
            documents[safe_name(item.name)] = folder.read_json(new / safe_name(item.name))
        whose = {folder.RUN: claim.run, SWEEP: dict(said)}
        folder.write_json(new, folder.root_of(documents, {**folder.described(template), **whose}))
        folder.put(new, place)
    return Regions(place, claim.run, shape, tuple(template), flags)


def _blank(
    store: Path,
    item: Labelled,
    front: int,
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    more: Mapping[str, Any],
) -> None:
    """An output of which nothing is computed; of members that are large, rows are cut, too."""
    own, dtype = tuple(item.array.shape[front:]), item.array.dtype
    if dtype.kind not in "biufc":
        raise InputError(
            f"'{item.name}' is text, which is not written by several processes",
            hint="choose other outputs (only, --only)",
        )
    rows = tuple(max(1, extent) for extent in own)
    if rows and math.prod(chunk) * math.prod(rows) * dtype.itemsize > 2 * folder.CHUNK:
        row = math.prod(chunk) * math.prod(rows[1:]) * dtype.itemsize
        rows = (min(rows[0], max(1, folder.CHUNK // row)), *rows[1:])
    chunks = (*chunk, *rows)
    folder.new_array(store, item, (*shape, *own), dtype, chunks, with_nan=True, more=more)


def _write_coordinate(
    store: Path, item: Labelled, lengths: Mapping[str, int], along: Mapping[str, Along]
) -> None:
    """What stands along an axis: of members all that is said, some after the other."""
    if item.name not in along:
        made = np.asarray(item.array)
        folder.new_array(
            store,
            item,
            made.shape,
            made.dtype,
            tuple(max(1, n) for n in made.shape),
            with_nan=False,
        )[...] = made
        return
    count, own = lengths[item.dims[0]], tuple(item.array.shape[1:])
    chunks = (min(count, _AT_ONCE), *(max(1, extent) for extent in own))
    array = folder.new_array(store, item, (count, *own), item.array.dtype, chunks, with_nan=False)
    for first, last in _parts(count):
        array[first:last] = along[item.name](first, last)


def _parts(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, _AT_ONCE):
        yield first, min(first + _AT_ONCE, count)
