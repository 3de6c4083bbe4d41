"""Axes of results that are read from a store that was written by regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.labels import escape_name
from mdf_loop.run.recording.regions import Regions


def stored_axes(store: Regions) -> tuple[tuple[Axis, ...], Mapping[str, Any], list[str]]:
    """Read the leading axes of outputs, the store's attributes, and the outputs without time axis."""
    root = folder.read_json(store.place)
    documents = root["consolidated_metadata"]["metadata"]
    dims = {name: tuple(entry["dimension_names"]) for name, entry in documents.items()}
    outputs = {escape_name(name) for name in store.names}
    coordinates = {
        name: own_dims for name, own_dims in dims.items() if name not in (*outputs, store.flags)
    }
    front = dims[escape_name(store.flags)]
    has_time = any(own_dims[:1] == ("time",) for own_dims in coordinates.values())
    axes = []
    for axis in (*front, *(("time",) if has_time else ())):
        coordinates_by_name = {
            _coordinate_name(name, documents[name]): _open_coordinate(store, name)
            for name, own_dims in coordinates.items()
            if own_dims and own_dims[0] == axis
        }
        if len(coordinates_by_name) > 1:
            coordinates_by_name.pop(axis, None)  # member numbers, beside values that are arrays
        axes.append(Axis(axis, coordinates_by_name, is_swept=axis not in ("trial", "time")))
    reduced = [n for n in store.names if has_time and "time" not in dims[escape_name(n)]]
    return tuple(axes), root["attributes"], reduced


def _coordinate_name(stored: str, entry: Mapping[str, Any]) -> str:
    return str(entry["attributes"].get("long_name", stored)).removesuffix(" (swept)")


def _open_coordinate(store: Regions, name: str) -> Any:
    from mdf_loop.run.recording.rows_of_run import open_rows

    array = open_rows(store.place / name, store.place)
    return np.asarray(array[...]) if array.size < _MAX_LOADED_COORDINATES else array


_MAX_LOADED_COORDINATES = 1 << 16
"""Maximum number of coordinates along an axis that are read at once."""
