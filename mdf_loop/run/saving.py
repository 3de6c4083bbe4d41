"""Results as files. A new format is one function here and one line in `FORMATS`.

Each writes all outputs and the coordinates of their axes. `.npz`, `.h5` and `.nc` keep every dtype
(bfloat16 as float32, which holds it exactly);
`.json` names it; `.csv` has as many digits as the number needs.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from mdf_loop.files import checked_target, write_arrays, write_whole
from mdf_loop.ir import Array
from mdf_loop.run.labels import Labelled, about, coordinates, dataset, outputs
from mdf_loop.run.results import Results

Writer: TypeAlias = Callable[[Results, BinaryIO], None]


def _npz(results: Results, stream: BinaryIO) -> None:
    items = (*coordinates(results), *outputs(results))
    write_arrays(stream, {item.name: item.array for item in items})


def _json(results: Results, stream: BinaryIO) -> None:
    stream.write(results.to_json().encode() + b"\n")


# --- csv: a row for each step, of each member of a sweep -------------------------------------


def _csv(results: Results, stream: BinaryIO) -> None:
    columns = [*_columns_of_coordinates(results), *_columns_of_outputs(results)]
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(_cells(column) for _, column in columns), strict=True))
    text.detach()


def _columns_of_coordinates(results: Results) -> Iterator[tuple[str, Array]]:
    """The coordinates of each row; the innermost axis, time, is first."""
    found = coordinates(results)
    extents = {along.dims[0]: len(along.array) for along in found}
    rows = dict(zip(extents, np.indices(tuple(extents.values())), strict=True))
    for axis in reversed(extents):
        for along in found:
            if along.dims == (axis,):
                yield along.name, along.array[rows[axis].ravel()]


def _columns_of_outputs(results: Results) -> Iterator[tuple[str, Array]]:
    """A column for each element: `FNpop.V`, or `FNpop.V[0]`, `FNpop.V[1,0]` for arrays."""
    front = len(results.axes)
    for item in outputs(results):
        grid, shape = item.array.shape[:front], item.array.shape[front:]
        columns = item.array.reshape(math.prod(grid), math.prod(shape)).T
        for index, column in zip(np.ndindex(shape), columns, strict=True):
            place = f"[{','.join(map(str, index))}]" if shape else ""
            yield item.name + place, column


def _cells(column: Array) -> list[Any]:
    """What csv writes as the shortest digits that give the number back in its dtype."""
    short = column.dtype.kind == "f" and column.dtype.itemsize < 8
    return list((column.astype(str) if short else column).tolist())


# --- HDF5 and netCDF -------------------------------------------------------------------------

_UNSAFE = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})


def safe_name(name: str) -> str:
    """A name that HDF5 takes for one name, not for a path of groups; `/` becomes `%2F`."""
    return name.translate(_UNSAFE)


def _attributes(name: str, unit: str) -> dict[str, str]:
    """The unit, and the true name where HDF5 cannot have it."""
    return {
        **({"units": unit} if unit else {}),
        **({"long_name": name} if name != safe_name(name) else {}),
    }


def _h5(results: Results, stream: BinaryIO) -> None:
    """A dataset for each output and coordinate, with dimension labels and scales.

    It is made in memory first: HDF5 ends the whole process when a disk is full.
    """
    import h5py

    memory = io.BytesIO()
    with h5py.File(memory, "w", track_order=True) as file:
        file.attrs.update(about(results))
        scales: dict[str, list[Any]] = {}
        for along in coordinates(results):
            made = _h5_dataset(file, along)
            made.make_scale(along.name)
            scales.setdefault(along.dims[0], []).append(made)
        for item in outputs(results):
            made = _h5_dataset(file, item)
            for position, dim in enumerate(item.dims):
                made.dims[position].label = dim
                for scale in scales.get(dim, ()):
                    made.dims[position].attach_scale(scale)
    stream.write(memory.getbuffer())


def _h5_dataset(file: Any, item: Labelled) -> Any:
    import h5py

    texts = item.array.dtype.kind == "U"
    made = file.create_dataset(
        safe_name(item.name),
        data=item.array.astype(object) if texts else item.array,
        dtype=h5py.string_dtype() if texts else None,
    )
    made.attrs.update(_attributes(item.name, item.unit))
    return made


def _nc(results: Results, stream: BinaryIO) -> None:
    """The xarray dataset as netCDF 4, made in memory first like HDF5."""
    plain = dataset(results)
    for name, variable in plain.variables.items():
        variable.attrs.update(_attributes(str(name), ""))
    names = {str(name): safe_name(str(name)) for name in (*plain.variables, *plain.dims)}
    memory = io.BytesIO()
    plain.rename(names).to_netcdf(memory, engine="h5netcdf")
    stream.write(memory.getbuffer())


FORMATS: Mapping[str, Writer] = {
    ".npz": _npz,
    ".json": _json,
    ".csv": _csv,
    ".h5": _h5,
    ".nc": _nc,
}
"""How results are written, by the suffix of the file."""


def check_file(path: str | Path) -> Path:
    """The path of a file that results can be saved to, or an InputError."""
    return checked_target(path, FORMATS, "results")


def save(results: Results, path: str | Path) -> None:
    """Write results to a file of the format that its suffix names."""
    target = check_file(path)
    write = FORMATS[target.suffix.lower()]
    write_whole(target, lambda stream: write(results, stream))
