"""Writers of result files, with one function for each file format.

A new format also needs one line in `FORMATS`.

Each format writes all outputs and the coordinates of their axes. `.npz`, `.h5`, `.nc` and `.zarr` preserve
every dtype (bfloat16 as float32, which holds it exactly). `.json` names the dtype. `.csv` has as many
digits as each number needs.
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
    iterate_blocks,
    write_arrays,
    write_atomically,
)
from mdf_loop.ir import Array
from mdf_loop.results.dataset import to_dataset
from mdf_loop.results.json_text import json_chunks, results_content
from mdf_loop.run.deferred_errors import defer_stream_errors
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import (
    Labelled,
    array_attributes,
    coordinates,
    element_names,
    escape_name,
    lengths,
    run_attributes,
    seed,
    variables,
)
from mdf_loop.run.recording.lengths import padding_mask
from mdf_loop.run.run_id import new_run_id

_CSV_BLOCK_ROWS = 4096
"""Number of csv rows that are formatted at once."""

MAX_CSV_ELEMENTS = 64
"""Number of elements up to which a swept array is written to a csv file.

Each row of a member repeats these elements.
"""

FileWriter: TypeAlias = Callable[[Outputs, Path], None]
StreamWriter: TypeAlias = Callable[[Outputs, BinaryIO], None]


def _write_npz(results: Outputs, stream: BinaryIO) -> None:
    """Write all outputs, coordinates and the seed of results as a NumPy archive."""
    stored_arrays = (*coordinates(results), *variables(results), *seed(results))
    write_arrays(
        stream, {labelled_array.name: labelled_array.array for labelled_array in stored_arrays}
    )


def _write_json(results: Outputs, stream: BinaryIO) -> None:
    """Write the results as one JSON object to a stream."""
    for chunk in json_chunks(results_content(results)):
        stream.write(chunk.encode())
    stream.write(b"\n")


# --- csv: a row for each step, of each member of a sweep -------------------------------------


def _write_csv(results: Outputs, stream: BinaryIO) -> None:
    """Write results as a csv file with one row per position along the axes.

    Outputs without an axis are repeated along it.

    Cells of padding are empty.
    """
    output_arrays, row_lengths = variables(results), lengths(results)
    used_dims = {dim for labelled_array in output_arrays for dim in labelled_array.dims}
    csv_coordinates = [
        labelled_array
        for labelled_array in coordinates(results)
        if labelled_array.dims[0] in used_dims and _is_narrow(labelled_array)
    ]
    axis_lengths = {
        labelled_array.dims[0]: labelled_array.array.shape[0] for labelled_array in csv_coordinates
    }
    index_columns = [
        labelled_array
        for axis in reversed(axis_lengths)
        for labelled_array in csv_coordinates
        if labelled_array.dims[0] == axis
    ]
    text_stream = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    csv_writer = csv.writer(text_stream, lineterminator="\n")
    csv_writer.writerow(
        name
        for labelled_array in (*index_columns, *output_arrays)
        for name in _column_names(labelled_array, axis_lengths)
    )
    for block_index, row_count in _row_blocks(axis_lengths):
        block_columns = [
            column
            for labelled_array in (*index_columns, *output_arrays)
            for column in _csv_columns(
                labelled_array, row_lengths.get(labelled_array.name), block_index, row_count
            )
        ]
        csv_writer.writerows(zip(*block_columns, strict=True))
    text_stream.detach()


def _is_narrow(labelled_array: Labelled) -> bool:
    """Return True if an array has few enough elements per member to repeat in each csv row."""
    return int(math.prod(labelled_array.array.shape[1:])) <= MAX_CSV_ELEMENTS


def _column_names(labelled_array: Labelled, axes: Collection[str]) -> Iterator[str]:
    """Return the names of the csv columns that hold the elements of an array."""
    element_shape = [
        extent
        for extent, dim in zip(labelled_array.array.shape, labelled_array.dims, strict=True)
        if dim not in axes
    ]
    return element_names(labelled_array.name, element_shape)


def _row_blocks(axis_lengths: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the position and the row count of each block of csv rows."""
    if not axis_lengths:
        yield {}, 1
        return
    *outer_axes, inner_axis = axis_lengths
    for outer_index in np.ndindex(*(axis_lengths[axis] for axis in outer_axes)):
        for first_row in range(0, axis_lengths[inner_axis], _CSV_BLOCK_ROWS):
            end_row = min(first_row + _CSV_BLOCK_ROWS, axis_lengths[inner_axis])
            yield (
                dict(zip(outer_axes, outer_index, strict=True))
                | {inner_axis: slice(first_row, end_row)},
                end_row - first_row,
            )


def _csv_columns(
    labelled_array: Labelled,
    row_lengths: Labelled | None,
    block_index: Mapping[str, Any],
    row_count: int,
) -> Iterator[list[Any]]:
    """Yield a column of csv cells for each element of an array in a block of rows."""
    block_array = _csv_block(labelled_array, block_index, row_count)
    element_columns = block_array.reshape(row_count, math.prod(block_array.shape[1:])).T
    if row_lengths is None:
        yield from map(_csv_cells, element_columns)
        return
    padding_cells = padding_mask(
        _csv_block(row_lengths, block_index, row_count), block_array.shape, 1
    )
    for column, is_missing in zip(
        element_columns, padding_cells.reshape(element_columns.shape[::-1]).T, strict=True
    ):
        yield [
            "" if is_padded else cell
            for cell, is_padded in zip(_csv_cells(column), is_missing, strict=True)
        ]


def _csv_block(labelled_array: Labelled, block_index: Mapping[str, Any], row_count: int) -> Array:
    """Return an array's elements for a block of csv rows, with the rows as the first axis."""
    array_index = [block_index[dim] for dim in labelled_array.dims if dim in block_index]
    block_array = np.asarray(labelled_array.array[tuple(array_index)])
    if any(isinstance(axis_index, slice) for axis_index in array_index):
        return block_array
    return np.broadcast_to(block_array, (row_count, *block_array.shape))


def _csv_cells(column: Array) -> list[Any]:
    """Convert numbers to csv cells with the fewest digits that restore each number exactly."""
    is_short_float = column.dtype.kind == "f" and column.dtype.itemsize < 8
    return list((column.astype(str) if is_short_float else column).tolist())


# --- HDF5, netCDF and Zarr ---------------------------------------------------------------------


def _write_h5(results: Outputs, stream: BinaryIO) -> None:
    """Write results as an HDF5 file, one dataset per output and coordinate."""
    import h5py

    with (
        defer_stream_errors(stream) as safe_stream,
        h5py.File(safe_stream, "w", track_order=True) as file,
    ):
        file.attrs.update(run_attributes(results))
        scales_by_dim: dict[str, list[Any]] = {}
        for coordinate in coordinates(results):
            h5_dataset = _create_h5_dataset(file, coordinate)
            if len(coordinate.dims) == 1:
                h5_dataset.make_scale(coordinate.name)
                scales_by_dim.setdefault(coordinate.dims[0], []).append(h5_dataset)
            else:
                _label_h5_dimensions(h5_dataset, coordinate, scales_by_dim)
        for labelled_array in variables(results):
            _label_h5_dimensions(
                _create_h5_dataset(file, labelled_array), labelled_array, scales_by_dim
            )


def _label_h5_dimensions(
    h5_dataset: Any, labelled_array: Labelled, scales_by_dim: Mapping[str, Sequence[Any]]
) -> None:
    """Name the dimensions of an HDF5 dataset, and attach coordinates as dimension scales."""
    for axis_index, dim in enumerate(labelled_array.dims):
        h5_dataset.dims[axis_index].label = dim
        for scale in scales_by_dim.get(dim, ()):
            h5_dataset.dims[axis_index].attach_scale(scale)


def _create_h5_dataset(file: Any, labelled_array: Labelled) -> Any:
    """Create an HDF5 dataset from an array with a name and a unit."""
    import h5py

    is_text = labelled_array.array.dtype.kind == "U"
    dtype = h5py.string_dtype() if is_text else labelled_array.array.dtype
    h5_dataset = file.create_dataset(
        escape_name(labelled_array.name), labelled_array.array.shape, dtype
    )
    for block_index, array_block in iterate_blocks(labelled_array.array):
        h5_dataset[block_index] = array_block.astype(object) if is_text else array_block
    h5_dataset.attrs.update(array_attributes(labelled_array.name, labelled_array.unit))
    return h5_dataset


def _write_netcdf(results: Outputs, stream: BinaryIO) -> None:
    """Write results as a netCDF 4 file, converted from an xarray dataset."""
    xarray_dataset = to_dataset(results)
    for name, variable in xarray_dataset.variables.items():
        variable.attrs.update(array_attributes(str(name), ""))
    escaped_names = {
        str(name): escape_name(str(name))
        for name in (*xarray_dataset.variables, *xarray_dataset.dims)
    }
    with defer_stream_errors(stream) as safe_stream:
        xarray_dataset.rename(escaped_names).to_netcdf(safe_stream, engine="h5netcdf")


def _write_zarr(results: Outputs, target: Path) -> None:
    """Write the results as a Zarr store."""
    from mdf_loop.run.recording.store_lease import lease_store
    from mdf_loop.run.recording.zarr_folder import create_store

    with lease_store(target, new_run_id(), overwrite=True) as lease:
        create_store(target, results, run=lease.run_id)


# --- formats ----------------------------------------------------------------------------------


def _make_file_writer(write_content: StreamWriter) -> FileWriter:
    """Return a function that writes results to a file by means of the stream writer `write_content`."""

    def write(results: Outputs, target: Path) -> None:
        write_atomically(target, lambda stream: write_content(results, stream))

    return write


FORMATS: Mapping[str, FileWriter] = {
    ".npz": _make_file_writer(_write_npz),
    ".json": _make_file_writer(_write_json),
    ".csv": _make_file_writer(_write_csv),
    ".h5": _make_file_writer(_write_h5),
    ".nc": _make_file_writer(_write_netcdf),
    ".zarr": _write_zarr,
}
"""Function that writes results, by the suffix of the file."""


def check_results_path(path: str | Path) -> Path:
    """Return the path of a new results file, after a check of the suffix and the folder.

    Raises:
        InputError: The suffix is not a results format, or the file cannot be written there.
    """
    target = checked_target(path, FORMATS, "results")
    if target.suffix.lower() == ".zarr":
        from mdf_loop.run.recording.zarr_folder import check_target

        check_target(target)
    else:
        checked_place(target)
    return target


NUL_TERMINATED = {".npz": False, ".h5": True, ".nc": True}
"""Formats whose names end at a NUL character, each with True if it stores units, which end there too."""


def check_texts(path: str | Path, names: Iterable[str], units: Mapping[str, str]) -> None:
    """Raise an error for output names or units that a file format cannot store.

    Raises:
        InputError: A name or unit has a NUL character, and the format cuts the text there.
    """
    file_suffix = Path(path).suffix.lower()
    for name in names if file_suffix in NUL_TERMINATED else ():
        unit = units.get(name, "") if NUL_TERMINATED[file_suffix] else ""
        for role, text in (("name", name), (f"unit of '{name}',", unit)):
            if "\0" in text:
                raise InputError(
                    f"a {file_suffix} file cannot hold the {role} '{text}', which has a character 0",
                    hint="save as .json, .csv or .zarr, or rename it in the model",
                )


def save(results: Outputs, path: str | Path) -> None:
    """Write results to a file in the format that the file suffix stands for."""
    target = check_results_path(path)
    coordinate_names = (name for axis in results.axes for name in axis.coordinates)
    check_texts(target, (*results, *coordinate_names), results.units)
    FORMATS[target.suffix.lower()](results, target)
