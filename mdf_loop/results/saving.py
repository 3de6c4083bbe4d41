"""Results as files. A new format is one function here and one line in `FORMATS`.

Each writes all outputs and the coordinates of their axes. `.npz`, `.h5`, `.nc` and `.zarr` keep
every dtype (bfloat16 as float32, which holds it exactly); `.json` names it; `.csv` has as many
digits as the number needs.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.files import (
    checked_place,
    checked_target,
    in_blocks,
    write_arrays,
    write_whole,
)
from mdf_loop.ir import Array
from mdf_loop.results.dataset import dataset
from mdf_loop.results.json_text import contents, in_parts
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import (
    Labelled,
    about,
    attributes,
    coordinates,
    element_names,
    lengths,
    safe_name,
    seed,
    variables,
)
from mdf_loop.run.recording.lengths import is_padding
from mdf_loop.run.run_id import new_run_id
from mdf_loop.run.sure_stream import without_failing

_CSV_ROWS = 4096
"""How many rows of csv are made at once."""

CSV_ELEMENTS = 64
"""How many elements of a swept array are in a csv: they are the same in all rows of a member."""

Writer: TypeAlias = Callable[[Outputs, Path], None]
Content: TypeAlias = Callable[[Outputs, BinaryIO], None]


def _npz(results: Outputs, stream: BinaryIO) -> None:
    items = (*coordinates(results), *variables(results), *seed(results))
    write_arrays(stream, {item.name: item.array for item in items})


def _json(results: Outputs, stream: BinaryIO) -> None:
    for part in in_parts(contents(results)):
        stream.write(part.encode())
    stream.write(b"\n")


# --- csv: a row for each step, of each member of a sweep -------------------------------------


def _csv(results: Outputs, stream: BinaryIO) -> None:
    """Write a row for each place along the axes; an output without an axis is in all of its rows.

    Cells behind the end of a row that is shorter than others are empty.
    """
    items, beside = variables(results), lengths(results)
    used = {dim for item in items for dim in item.dims}
    along = [item for item in coordinates(results) if item.dims[0] in used and _is_narrow(item)]
    extents = {item.dims[0]: item.array.shape[0] for item in along}
    ordered = [item for axis in reversed(extents) for item in along if item.dims[0] == axis]
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(name for item in (*ordered, *items) for name in _names(item, extents))
    for place, count in _places(extents):
        cells = [
            column
            for item in (*ordered, *items)
            for column in _columns(item, beside.get(item.name), place, count)
        ]
        writer.writerows(zip(*cells, strict=True))
    text.detach()


def _is_narrow(item: Labelled) -> bool:
    """Whether the values of a member of a sweep shall stand in each of its rows."""
    return int(math.prod(item.array.shape[1:])) <= CSV_ELEMENTS


def _names(item: Labelled, axes: Collection[str]) -> Iterator[str]:
    """The name of each element."""
    own = [n for n, dim in zip(item.array.shape, item.dims, strict=True) if dim not in axes]
    return element_names(item.name, own)


def _places(extents: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], int]]:
    """Some thousand rows each: where they are along the axes, and how many they are."""
    if not extents:
        yield {}, 1
        return
    *outer, inner = extents
    for index in np.ndindex(*(extents[axis] for axis in outer)):
        for start in range(0, extents[inner], _CSV_ROWS):
            stop = min(start + _CSV_ROWS, extents[inner])
            yield dict(zip(outer, index, strict=True)) | {inner: slice(start, stop)}, stop - start


def _columns(
    item: Labelled, ends: Labelled | None, place: Mapping[str, Any], count: int
) -> Iterator[list[Any]]:
    """Yield the cells of each element in these rows; padding is empty."""
    part = _part(item, place, count)
    columns = part.reshape(count, math.prod(part.shape[1:])).T
    if ends is None:
        yield from map(_cells, columns)
        return
    mask = is_padding(_part(ends, place, count), part.shape, 1)
    for column, missing in zip(columns, mask.reshape(columns.shape[::-1]).T, strict=True):
        yield ["" if gone else cell for cell, gone in zip(_cells(column), missing, strict=True)]


def _part(item: Labelled, place: Mapping[str, Any], count: int) -> Array:
    """Return the array at a place along the axes, with one axis of `count` rows in front."""
    front = [place[dim] for dim in item.dims if dim in place]
    part = np.asarray(item.array[tuple(front)])
    if any(isinstance(where, slice) for where in front):
        return part
    return np.broadcast_to(part, (count, *part.shape))


def _cells(column: Array) -> list[Any]:
    """What csv writes as the shortest digits that give the number back in its dtype."""
    short = column.dtype.kind == "f" and column.dtype.itemsize < 8
    return list((column.astype(str) if short else column).tolist())


# --- HDF5, netCDF and Zarr ---------------------------------------------------------------------


def _h5(results: Outputs, stream: BinaryIO) -> None:
    """A dataset for each output and coordinate, with dimension labels and scales."""
    import h5py

    with without_failing(stream) as sure, h5py.File(sure, "w", track_order=True) as file:
        file.attrs.update(about(results))
        scales: dict[str, list[Any]] = {}
        for along in coordinates(results):
            made = _h5_dataset(file, along)
            if len(along.dims) == 1:
                made.make_scale(along.name)
                scales.setdefault(along.dims[0], []).append(made)
            else:
                _h5_labelled(made, along, scales)
        for item in variables(results):
            _h5_labelled(_h5_dataset(file, item), item, scales)


def _h5_labelled(made: Any, item: Labelled, scales: Mapping[str, Sequence[Any]]) -> None:
    """Name the dimensions, and say what stands along them."""
    for position, dim in enumerate(item.dims):
        made.dims[position].label = dim
        for scale in scales.get(dim, ()):
            made.dims[position].attach_scale(scale)


def _h5_dataset(file: Any, item: Labelled) -> Any:
    import h5py

    texts = item.array.dtype.kind == "U"
    dtype = h5py.string_dtype() if texts else item.array.dtype
    made = file.create_dataset(safe_name(item.name), item.array.shape, dtype)
    for place, block in in_blocks(item.array):
        made[place] = block.astype(object) if texts else block
    made.attrs.update(attributes(item.name, item.unit))
    return made


def _nc(results: Outputs, stream: BinaryIO) -> None:
    """The xarray dataset as netCDF 4."""
    plain = dataset(results)
    for name, variable in plain.variables.items():
        variable.attrs.update(attributes(str(name), ""))
    names = {str(name): safe_name(str(name)) for name in (*plain.variables, *plain.dims)}
    with without_failing(stream) as sure:
        plain.rename(names).to_netcdf(sure, engine="h5netcdf")


def _zarr(results: Outputs, target: Path) -> None:
    from mdf_loop.run.recording.claim import claimed
    from mdf_loop.run.recording.zarr_folder import create

    with claimed(target, new_run_id(), overwrite=True) as claim:
        create(target, results, run=claim.run)


# --- all of them ------------------------------------------------------------------------------


def _file(content: Content) -> Writer:
    """A format that is one file."""

    def write(results: Outputs, target: Path) -> None:
        write_whole(target, lambda stream: content(results, stream))

    return write


FORMATS: Mapping[str, Writer] = {
    ".npz": _file(_npz),
    ".json": _file(_json),
    ".csv": _file(_csv),
    ".h5": _file(_h5),
    ".nc": _file(_nc),
    ".zarr": _zarr,
}
"""How results are written, by the suffix of the file."""


def check_file(path: str | Path) -> Path:
    """The path of a file that results can be saved to later, or an InputError."""
    target = checked_target(path, FORMATS, "results")
    if target.suffix.lower() == ".zarr":
        from mdf_loop.run.recording.zarr_folder import checked_store

        checked_store(target)
    else:
        checked_place(target)
    return target


NO_NUL = {".npz": False, ".h5": True, ".nc": True}
"""Formats in which a name ends at a character 0, and whether they have units, which do so too."""


def check_texts(path: str | Path, names: Iterable[str], units: Mapping[str, str]) -> None:
    """Refuse names, and the units of what is called so, that a format cannot hold.

    Raises:
        InputError: one has a character 0, and the format cuts it there.
    """
    suffix = Path(path).suffix.lower()
    for name in names if suffix in NO_NUL else ():
        unit = units.get(name, "") if NO_NUL[suffix] else ""
        for word, text in (("name", name), (f"unit of '{name}',", unit)):
            if "\0" in text:
                raise InputError(
                    f"a {suffix} file cannot hold the {word} '{text}', which has a character 0",
                    hint="save as .json, .csv or .zarr, or rename it in the model",
                )


def save(results: Outputs, path: str | Path) -> None:
    """Write results to a file of the format that its suffix names."""
    target = check_file(path)
    along = (name for axis in results.axes for name in axis.coordinates)
    check_texts(target, (*results, *along), results.units)
    FORMATS[target.suffix.lower()](results, target)
