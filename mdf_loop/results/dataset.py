"""Results as an `xarray.Dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import Labelled, about, coordinates, variables

if TYPE_CHECKING:
    from xarray import Dataset


def dataset(results: Outputs) -> Dataset:
    """A variable for each output, with dims, coordinates and units."""
    import xarray

    def variable(item: Labelled) -> tuple[tuple[str, ...], Array, dict[str, str]]:
        return item.dims, np.asarray(item.array), {"units": item.unit} if item.unit else {}

    return xarray.Dataset(
        {item.name: variable(item) for item in variables(results)},
        {item.name: variable(item) for item in coordinates(results)},
        about(results),
    )


def open_store(path: Path) -> Dataset:
    """The dataset of a Zarr store, whose arrays are read where they are looked at."""
    import xarray

    return xarray.open_dataset(path, engine="zarr", consolidated=True, chunks=None, cache=False)
