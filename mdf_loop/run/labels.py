"""What the arrays of a run are called, and their axes: the same in every format.

A sweep of `FNpop.a` over time:

    FNpop.V     float64[batch, time, FNpop.V_0]
    time        float64[time]       seconds; `step` where no time passes
    FNpop.a     float64[batch]      `FNpop.a (swept)` if FNpop.a is an output too
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array, StoppedBy
from mdf_loop.onnx_types import dtype_name
from mdf_loop.run.recording.ticks import Ticks
from mdf_loop.run.results import Results

if TYPE_CHECKING:
    from xarray import Dataset


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """An array with its name, the names of its dimensions, and its unit (or none).

    Times (`Ticks`) are made when they are looked at, a part of them with `array[first:last]`.
    """

    name: str
    dims: tuple[str, ...]
    array: Any
    unit: str


def coordinates(results: Results) -> list[Labelled]:
    """What stands along the axes that all outputs have in front."""
    taken = set(results)  # whole names: `time in results` is true of an output A.time, too
    return [
        Labelled(
            f"{name} (swept)" if name in taken else name,
            (axis.name,),
            array if isinstance(array, Ticks) else storable(array),
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
        if not hasattr(data, "dtype"):
            what = "absent" if data is None else "a sequence of arrays"
            raise InputError(
                f"the output '{name}' is {what}, which only JSON can hold",
                hint="save as .json, or join the members with onnx::ConcatFromSequence",
            )
    names = (axis.name for axis in results.axes)
    taken = {*results, *names, *(along.name for along in coordinates(results))}
    found = []
    for name, array in results.items():
        front = tuple(axis.name for axis in results.axes_of(name))
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


_UNSAFE = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})


def safe_name(name: str) -> str:
    """A name that HDF5 and Zarr take for one name, not for a path of groups; `/` becomes `%2F`."""
    return name.translate(_UNSAFE)


def attributes(name: str, unit: str) -> dict[str, str]:
    """The unit, and the true name where a file cannot have it."""
    return {
        **({"units": unit} if unit else {}),
        **({"long_name": name} if name != safe_name(name) else {}),
    }


ENDS = ("stopped_by", "reason")
"""What is said of a run that did not compute all."""


def about(results: Results) -> dict[str, str]:
    """Where the numbers come from, and why there are no more."""
    from mdf_loop import __version__

    ends = dict(zip(ENDS, (results.stopped_by.word, results.reason), strict=True))
    return {
        **({} if results.stopped_by is StoppedBy.COMPLETED else ends),
        "device": results.device,
        "precision": results.precision,
        "mdf_loop_version": __version__,
    }


def dataset(results: Results) -> Dataset:
    """The results as an `xarray.Dataset`."""
    import xarray

    def variable(item: Labelled) -> tuple[tuple[str, ...], Array, dict[str, str]]:
        return item.dims, np.asarray(item.array), {"units": item.unit} if item.unit else {}

    return xarray.Dataset(
        {item.name: variable(item) for item in outputs(results)},
        {item.name: variable(item) for item in coordinates(results)},
        about(results),
    )
