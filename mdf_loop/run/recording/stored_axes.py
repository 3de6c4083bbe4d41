"""Axes of results that are read from the Zarr store of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.labels import escape_name
from mdf_loop.run.recording.regions import Regions


def stored_axes(store: Regions) -> tuple[tuple[Axis, ...], Mapping[str, Any], list[str]]:
    """Read the leading axes of results from the Zarr store of a sweep.

    Return the axes, the attributes of the store, and the names of outputs without time axis.
    """
    root_metadata = folder.read_json(store.path)
    metadata_by_array = root_metadata["consolidated_metadata"]["metadata"]
    dims_by_array = {
        name: tuple(metadata["dimension_names"]) for name, metadata in metadata_by_array.items()
    }
    output_names = {escape_name(name) for name in store.output_names}
    dims_by_coordinate = {
        name: array_dims
        for name, array_dims in dims_by_array.items()
        if name not in (*output_names, store.flags_name)
    }
    leading_dims = dims_by_array[escape_name(store.flags_name)]
    has_time = any(array_dims[:1] == ("time",) for array_dims in dims_by_coordinate.values())
    axes = []
    for dim in (*leading_dims, *(("time",) if has_time else ())):
        coordinates_by_name = {
            _coordinate_name(name, metadata_by_array[name]): _open_coordinate(store, name)
            for name, array_dims in dims_by_coordinate.items()
            if array_dims and array_dims[0] == dim
        }
        if len(coordinates_by_name) > 1:
            coordinates_by_name.pop(dim, None)  # member numbers, beside values that are arrays
        axes.append(Axis(dim, coordinates_by_name, is_swept=dim not in ("trial", "time")))
    reduced_names = [
        name
        for name in store.output_names
        if has_time and "time" not in dims_by_array[escape_name(name)]
    ]
    return tuple(axes), root_metadata["attributes"], reduced_names


def _coordinate_name(stored_name: str, array_metadata: Mapping[str, Any]) -> str:
    return str(array_metadata["attributes"].get("long_name", stored_name)).removesuffix(" (swept)")


def _open_coordinate(store: Regions, name: str) -> Any:
    from mdf_loop.run.recording.rows_of_run import open_rows

    coordinate_array = open_rows(store.path / name, store.path)
    return (
        np.asarray(coordinate_array[...])
        if coordinate_array.size < _MAX_LOADED_COORDINATES
        else coordinate_array
    )


_MAX_LOADED_COORDINATES = 1 << 16
"""Maximum number of coordinates along an axis that are read at once."""
