"""Names, dimensions and units of result arrays, equal in all file formats.

A sweep of `FNpop.a` over time:

    FNpop.V         float64[batch, time, FNpop.V_0]     or with the model's axis name, [batch, time, cell]
    FNpop.V.length  int64[batch, time]      if rows of FNpop.V may have different lengths
    time            float64[time]           in the model's unit, or `step` for a model without time
    FNpop.a         float64[batch]          `FNpop.a (swept)` if FNpop.a is an output too

Swept values may be arrays. The members are then numbered, with the values as a further coordinate:

    batch           int64[batch]
    FNpop.a         float64[batch, FNpop.a_0]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError
from mdf_loop.ir import Array, StopReason
from mdf_loop.ir.types import dtype_name
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.ticks import Ticks
from mdf_loop.version import __version__


class Labelled(Struct, frozen=True, eq=False):
    """Array with its name, dimension names and unit ("" without a unit).

    Times (`Ticks`) are computed on access. `array[first:last]` computes a part of them.
    """

    name: str
    dims: tuple[str, ...]
    array: Any
    unit: str


def coordinates(results: Outputs) -> list[Labelled]:
    """Return the coordinates along the results' leading axes, such as times, as labelled arrays."""
    taken_names = set(results)  # full names, since `time in results` also matches an output A.time
    labelled_coordinates = []
    for axis in results.axes:
        if any(array.ndim > 1 for array in axis.coordinates.values()):
            member_numbers = np.arange(axis.length)
            labelled_coordinates.append(Labelled(axis.name, (axis.name,), member_numbers, ""))
        for name, array in axis.coordinates.items():
            label_name = f"{name} (swept)" if name in taken_names else name
            dims = (axis.name, *_trailing_dims(label_name, array.ndim - 1, taken_names))
            storable_array = array if isinstance(array, Ticks) else convert_to_storable(array)
            labelled_coordinates.append(
                Labelled(label_name, dims, storable_array, results.units.get(name, ""))
            )
    return labelled_coordinates


def outputs(results: Outputs) -> list[Labelled]:
    """Return the output arrays with dimension names and units.

    Trailing dimensions are `<name>_0`, `<name>_1`, ...

    Raises:
        InputError: An output is not an array.
    """
    for name, data in results.items():
        if not hasattr(data, "dtype"):
            description = "absent" if data is None else "a sequence of arrays"
            raise InputError(
                f"the output '{name}' is {description}, which only JSON can hold",
                hint="save as .json, or join the members with onnx::ConcatFromSequence",
            )
    taken_names, declared_dims = _reserved_names(results), _declared_dims(results)
    return [
        _label_output(results, name, name, array, taken_names, declared_dims.get(name))
        for name, array in results.items()
    ]


def lengths(results: Outputs) -> dict[str, Labelled]:
    """Return the lengths of rows that vary in length as labelled arrays, by output name."""
    length_array_names, taken_names = (
        length_names(results.lengths, results),
        _reserved_names(results),
    )
    return {
        name: _label_output(results, name, length_array_names[name], array, taken_names)
        for name, array in results.lengths.items()
    }


def variables(results: Outputs) -> list[Labelled]:
    """Return the output arrays with labels, each followed by its row lengths if they vary."""
    lengths_by_name = lengths(results)
    return [
        labelled_array
        for output in outputs(results)
        for labelled_array in (
            output,
            *(lengths_by_name[name] for name in (output.name,) if name in lengths_by_name),
        )
    ]


def seed(results: Outputs) -> list[Labelled]:
    """Return `[labelled seed]`, or [] if the run draws nothing or sweeps several seeds."""
    if results.seed is None or not results.draws:
        return []
    seed_array = np.array(results.seed, np.uint64)
    return [Labelled(_unused_name("seed", _reserved_names(results)), (), seed_array, "")]


def length_names(names: Iterable[str], outputs: Collection[str]) -> dict[str, str]:
    """Return the name of the array of row lengths, `<name>.length`, for each output."""
    taken_names = set(outputs)
    return {name: _unused_name(f"{name}.length", taken_names) for name in names}


def element_names(name: str, shape: Sequence[int]) -> Iterator[str]:
    """Yield the name of each element of an array, such as `FNpop.V[0]` and `FNpop.V[1,0]`.

    A scalar has the name itself.
    """
    for index in np.ndindex(*shape):
        yield name + (f"[{','.join(map(str, index))}]" if shape else "")


def _reserved_names(results: Outputs) -> set[str]:
    """Return the names that new dimensions must not have: outputs, axes and coordinates."""
    axis_names = (axis.name for axis in results.axes)
    return {*results, *axis_names, *(coordinate.name for coordinate in coordinates(results))}


def _declared_dims(results: Outputs) -> dict[str, tuple[str, ...]]:
    """Return the names of trailing dimensions that the model declares, by output name.

    A reduction has the axes of its output.

    Outputs share a named axis if it has the same length in all of them. If the lengths differ, or an array
    has another number of axes, the stated names are ignored.
    """
    declared_dims, extents_by_dim = {}, dict[str, set[int]]()
    for name, array in results.items():
        output_name = name.rpartition(".")[0] if name in results.reduced else name
        dims = results.dims.get(output_name, ())
        trailing_shape = np.shape(array)[len(results.axes_of(name)) :]
        if dims and len(dims) == len(trailing_shape):
            declared_dims[name] = dims
            for dim, extent in zip(dims, trailing_shape, strict=True):
                extents_by_dim.setdefault(dim, set()).add(extent)
    return {
        name: dims
        for name, dims in declared_dims.items()
        if all(len(extents_by_dim[dim]) == 1 for dim in dims)
    }


def _label_output(
    results: Outputs,
    name: str,
    output_name: str,
    array: Array,
    taken_names: set[str],
    declared_dims: tuple[str, ...] | None = None,
) -> Labelled:
    """Return the array of the output `name` with dimension names and unit."""
    leading_dims = tuple(axis.name for axis in results.axes_of(name))
    trailing_dims = _trailing_dims(output_name, array.ndim - len(leading_dims), taken_names)
    dims = (
        *leading_dims,
        *(
            trailing_dims
            if declared_dims is None
            else (_unused_name(dim, taken_names) for dim in declared_dims)
        ),
    )
    return Labelled(
        output_name, dims, convert_to_storable(array), results.units.get(output_name, "")
    )


def _trailing_dims(name: str, count: int, taken_names: set[str]) -> tuple[str, ...]:
    return tuple(_unused_name(f"{name}_{k}", taken_names) for k in range(count))


def _unused_name(name: str, taken_names: set[str]) -> str:
    while name in taken_names:
        name += "_"
    return name


def convert_to_storable(array: Array) -> Array:
    """Convert an array to a dtype that files can store: text to `str`, bfloat16 to float32."""
    if array.dtype == object:
        return np.asarray(array).astype(str)
    return array.astype(np.float32) if dtype_name(array) == "bfloat16" else array


_ESCAPES = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})


def escape_name(name: str) -> str:
    """Escape a name that HDF5 or Zarr would interpret as a path: `/` becomes `%2F`.

    `..` becomes `%2E%2E`, and `zarr.json`, the name of Zarr's metadata file, becomes `zarr%2Ejson`.
    """
    escaped_name = name.translate(_ESCAPES)
    is_reserved = escaped_name.startswith("zarr.json") or not escaped_name.strip(".")
    return escaped_name.replace(".", "%2E") if is_reserved else escaped_name


def array_attributes(name: str, unit: str) -> dict[str, str]:
    """Return the file attributes of an array: its unit, and its name if the name is escaped."""
    return {
        **({"units": unit} if unit else {}),
        **({"long_name": name} if name != escape_name(name) else {}),
    }


END_ATTRIBUTES = ("stopped_by", "reason")
"""Attributes of a run that ended early."""


def run_attributes(results: Outputs) -> dict[str, str]:
    """Return the file attributes of a run: device, precision, seed, version, and early stop."""
    end_attributes = dict(
        zip(END_ATTRIBUTES, (results.stopped_by.word, results.reason), strict=True)
    )
    return {
        **({} if results.stopped_by is StopReason.COMPLETED else end_attributes),
        "device": results.device,
        "precision": results.precision,
        **({"seed": str(results.seed)} if results.draws and results.seed is not None else {}),
        "mdf_loop_version": __version__,
    }
