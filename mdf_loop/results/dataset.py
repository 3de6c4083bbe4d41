"""Conversion of results to an `xarray.Dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import Labelled, coordinates, run_attributes, variables

if TYPE_CHECKING:
    from xarray import Dataset


def to_dataset(results: Outputs) -> Dataset:
    """Return an xarray dataset with one variable per output, with named dimensions and units."""
    import xarray

    def variable(labelled_array: Labelled) -> tuple[tuple[str, ...], Array, dict[str, str]]:
        return (
            labelled_array.dims,
            np.asarray(labelled_array.array),
            {"units": labelled_array.unit} if labelled_array.unit else {},
        )

    return xarray.Dataset(
        {labelled_array.name: variable(labelled_array) for labelled_array in variables(results)},
        {item.name: variable(item) for item in coordinates(results)},
        run_attributes(results),
    )


def open_store(path: Path) -> Dataset:
    """Open a Zarr store as an xarray dataset whose arrays are read on access."""
    import xarray

    return xarray.open_dataset(path, engine="zarr", consolidated=True, chunks=None, cache=False)
