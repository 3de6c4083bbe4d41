"""What the arrays of a run are called, and their axes: the same in every format.

A sweep of `FNpop.a` over time:

    FNpop.V     float64[batch, time, FNpop.V_0]
    time        float64[time]       seconds; `step` where no time passes
    FNpop.a     float64[batch]      `FNpop.a (swept)` if FNpop.a is an output too
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.onnx_types import dtype_name
from mdf_loop.run.results import Results

if TYPE_CHECKING:
    from xarray import Dataset


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """An array with its name, the names of its dimensions, and its unit (or none)."""

    name: str
    dims: tuple[str, ...]
    array: Array
    unit: str


def coordinates(results: Results) -> list[Labelled]:
    """What stands along the axes that all outputs have in front."""
    return [
        Labelled(
            f"{name} (swept)" if name in results else name,
            (axis.name,),
            storable(array),
            results.units.get(name, ""),
        )
        for axis in results.axes
        for name, array in axis.coordinates.items()
    ]


def outputs(results: Results) -> list[Labelled]:
    """The outputs; the dimensions of their own are `<name>_0`, `<name>_1`, ...

    Raises:
        InputError: an output is no array.
    """
    for name, data in results.items():
        if not isinstance(data, np.ndarray):
            what = "absent" if data is None else "a sequence of arrays"
            raise InputError(
                f"the output '{name}' is {what}, which only JSON can hold",
                hint="save as .json, or join the members with onnx::ConcatFromSequence",
            )
    front = tuple(axis.name for axis in results.axes)
    taken = {*results, *front, *(along.name for along in coordinates(results))}
    found = []
    for name, array in results.items():
        own = range(array.ndim - len(front))
        dims = (*front, *(_free(f"{name}_{k}", taken) for k in own))
        found.append(Labelled(name, dims, storable(array), results.units.get(name, "")))
    return found


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def storable(array: Array) -> Array:
    """As files hold it: texts as numpy's instead of objects, bfloat16 in float32, which is exact."""
    if array.dtype == object:
        return np.asarray(array).astype(str)
    return array.astype(np.float32) if dtype_name(array) == "bfloat16" else array


def about(results: Results) -> dict[str, str]:
    """Where the numbers come from."""
    from mdf_loop import __version__

    return {
        "device": results.device,
        "precision": results.precision,
        "mdf_loop_version": __version__,
    }


def dataset(results: Results) -> Dataset:
    """The results as an `xarray.Dataset`."""
    import xarray

    def variable(item: Labelled) -> tuple[tuple[str, ...], Array, dict[str, str]]:
        return item.dims, item.array, {"units": item.unit} if item.unit else {}

    return xarray.Dataset(
        {item.name: variable(item) for item in outputs(results)},
        {item.name: variable(item) for item in coordinates(results)},
        about(results),
    )
