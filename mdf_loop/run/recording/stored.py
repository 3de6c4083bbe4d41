"""Axes of results that are read from a store that was written by regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.labels import safe_name
from mdf_loop.run.recording.regions import Regions


def stored_axes(store: Regions) -> tuple[tuple[Axis, ...], Mapping[str, Any], list[str]]:
    """Read the leading axes of outputs, the store's attributes, and the outputs without time axis."""
    root = folder.read_json(store.place)
    documents = root["consolidated_metadata"]["metadata"]
    dims = {name: tuple(entry["dimension_names"]) for name, entry in documents.items()}
    outputs = {safe_name(name) for name in store.names}
    coordinates = {name: own for name, own in dims.items() if name not in (*outputs, store.flags)}
    front = dims[safe_name(store.flags)]
    has_time = any(own[:1] == ("time",) for own in coordinates.values())
    axes = []
    for axis in (*front, *(("time",) if has_time else ())):
        along = {
            _name(name, documents[name]): _opened(store, name)
            for name, own in coordinates.items()
            if own and own[0] == axis
        }
        if len(along) > 1:
            along.pop(axis, None)  # member numbers, beside values that are arrays
        axes.append(Axis(axis, along, is_swept=axis not in ("trial", "time")))
    reduced = [n for n in store.names if has_time and "time" not in dims[safe_name(n)]]
    return tuple(axes), root["attributes"], reduced


def _name(stored: str, entry: Mapping[str, Any]) -> str:
    return str(entry["attributes"].get("long_name", stored)).removesuffix(" (swept)")


def _opened(store: Regions, name: str) -> Any:
    from mdf_loop.run.recording.rows_of_run import open_rows

    array = open_rows(store.place / name, store.place)
    return np.asarray(array[...]) if array.size < _SMALL else array


_SMALL = 1 << 16
"""Maximum number of coordinates along an axis that are read at once."""
