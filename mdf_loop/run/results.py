"""What a run gives: arrays by name, with their axes, and how each loop went."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop import arguments
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Data, StoppedBy
from mdf_loop.onnx_types import content_type, dtype_name
from mdf_loop.paths import Files, noting
from mdf_loop.run.execution_list import ExecutionList
from mdf_loop.run.json_text import as_plain, in_parts
from mdf_loop.run.recording.lengths import without_padding
from mdf_loop.run.recording.ticks import Ticks
from mdf_loop.visible import on_one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


@dataclass(frozen=True, slots=True)
class LoopReport:
    """How one loop of the outermost level went."""

    iterations: int
    stopped_by: StoppedBy


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An axis that all outputs have in front.

    `name` is `time` or `batch`; `coordinates` are what stands along it: `time` in seconds, or `step`
    where no time passes; for a batch the swept values by name, which may be arrays. Those of time
    are made when they are looked at (`numpy.asarray`).
    """

    name: str
    coordinates: Mapping[str, Array | Ticks]


class Results(Mapping[str, Data]):
    """Outputs by name (`node.port`); a port id alone will do where it is the only one.

    An output is an array; a sequence is a list of arrays, an absent optional value None.

    Attributes:
        loops: a `LoopReport` by `node.function` for each loop of the outermost level.
        device: `cpu` or `cuda`, where the model really ran.
        precision: the dtype of numbers with a point.
        axes: the axes that all outputs have in front, outermost first; none for one evaluation.
        lengths: of outputs over time whose rows may have different lengths how long each row is,
            without the nan behind its end: `int64[time]`, or `int64[time, axes]` for rows of
            several axes. Members of a sweep are in front.
        units: the unit of each output and coordinate that has one, e.g. `mV`.
        state: what the model carried into its next evaluation, for a run over time; else None.
        dtypes: of the outputs that are no arrays, e.g. `sequence(float32)`.
        reduced: the outputs that are reductions of a run over time: they have no axis of time.
        stopped_by: why the run ended: `StoppedBy.COMPLETED`, or what has stopped it.
        reason: the same as a sentence, with how far it came.
        checkpoint: the file that `resume` takes to go on from here; None if none was written.
        read_from: the files of the model, which nothing is saved over.
        execution_list: for each evaluation of a run over time the sets of nodes that ran, in
            order; None if that was decided while running and not asked for.
    """

    def __init__(
        self,
        arrays: Mapping[str, Data],
        loops: Mapping[str, LoopReport],
        device: str,
        precision: str,
        *,
        axes: tuple[Axis, ...] = (),
        lengths: Mapping[str, Array] | None = None,
        units: Mapping[str, str] | None = None,
        state: Mapping[str, Array] | None = None,
        execution_list: ExecutionList | None = None,
        dtypes: Mapping[str, str] | None = None,
        reduced: Collection[str] = (),
        stopped_by: StoppedBy = StoppedBy.COMPLETED,
        reason: str = "",
        checkpoint: Path | None = None,
    ) -> None:
        self._arrays = dict(arrays)
        self.dtypes = dict(dtypes or {})
        self.loops = dict(loops)
        self.device = device
        self.precision = precision
        self.axes = axes
        self.lengths = dict(lengths or {})
        self.state = state
        self.execution_list = execution_list
        self.reduced = frozenset(reduced)
        self.stopped_by = stopped_by
        self.reason = reason or stopped_by.value
        self.checkpoint = checkpoint
        along = [name for axis in axes for name in axis.coordinates]
        known = {**(units or {}), "time": "s"}
        self.read_from: Files = frozenset()
        self.units = {name: known[name] for name in (*along, *self._arrays) if name in known}

    @property
    def time(self) -> Array | None:
        """The time of each row in seconds, for a model run over time with `dt`; else None."""
        found = [axis.coordinates["time"] for axis in self.axes if "time" in axis.coordinates]
        return np.asarray(found[0]) if found else None

    def axes_of(self, name: str) -> tuple[Axis, ...]:
        """The axes that an output has in front."""
        if name in self.reduced:
            return tuple(axis for axis in self.axes if axis.name != "time")
        return self.axes

    def rows(self, name: str) -> list[Array]:
        """The rows of an output over time, each as long as it is; in a sweep with all members.

        Raises:
            KeyError: no output is meant, or several.
            InputError: the output has no axis of time.
        """
        full = self.full_name(name)
        front = [axis.name for axis in self.axes_of(full)]
        if "time" not in front:
            raise InputError(
                f"'{full}' has no rows: it has no axis of time", hint="run the model over time"
            )
        arrays = (self._arrays[full], *(self.lengths[n] for n in (full,) if n in self.lengths))
        rows, *lengths = (np.moveaxis(np.asarray(a), front.index("time"), 0) for a in arrays)
        return without_padding(rows, lengths[0], len(front)) if lengths else list(rows)

    def __getitem__(self, name: str) -> Data:
        return self._arrays[self.full_name(name)]

    def full_name(self, name: str) -> str:
        """`node.port` of an output, also for a port id that only one output has.

        Raises:
            KeyError: no output is meant, or several.
        """
        if name in self._arrays:
            return name
        matches = [full for full in self._arrays if full.rsplit(".", 1)[-1] == name]
        if len(matches) == 1:
            return matches[0]
        raise KeyError(f"no output '{name}'; there are {', '.join(self._arrays)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {_type(data)}" for name, data in self._arrays.items())
        return on_one_line(f"Results({shown})")

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes, as a dict of plain numbers, texts and lists."""
        return dict(as_plain(self.content()))

    def content(self) -> dict[str, Any]:
        """What `to_dict` gives, with arrays as they are."""
        from mdf_loop.run.labels import coordinates

        outputs = {name: self._written(name, data) for name, data in self._arrays.items()}
        loops = {
            name: {"iterations": report.iterations, "stopped_by": report.stopped_by.word}
            for name, report in self.loops.items()
        }
        about = {"device": self.device, "precision": self.precision}
        if self.stopped_by is not StoppedBy.COMPLETED:
            about |= {"stopped_by": self.stopped_by.word, "reason": self.reason}
        stored = any(data is not None and "file" in data for data in outputs.values())
        axes = {
            along.name: along.array
            for along in coordinates(self)
            if not (stored and isinstance(along.array, Ticks))  # it is in the store, too
        }
        return {"outputs": outputs, "loops": loops, **about, **({"axes": axes} if axes else {})}

    def _written(self, name: str, data: Data) -> dict[str, Any] | None:
        if data is None:
            return None
        units = {"units": self.units[name]} if name in self.units else {}
        if isinstance(data, list):
            dtype = content_type(self.dtypes[name], data)
            return {"dtype": dtype, "data": [_tensor(member) for member in data]} | units
        if not isinstance(data, np.ndarray):
            return _streamed(data) | units
        lengths = {"lengths": self.lengths[name]} if name in self.lengths else {}
        return _tensor(data) | lengths | units

    def to_json(self) -> str:
        """One JSON object: outputs with dtype, shape, data and units; loops; device; precision.

        Outputs whose rows may have different lengths have `lengths`, too. For a run over time or a
        sweep also `axes`: the coordinates by name. Outputs that were streamed to a Zarr store have
        its name as `file` instead of data; their lengths and times are there, too. For a run that
        was stopped also `stopped_by`, and `reason`, which is a sentence.
        """
        return "".join(in_parts(self.content()))

    def to_xarray(self) -> Dataset:
        """An `xarray.Dataset`: a variable for each output, with dims, coordinates and units."""
        from mdf_loop.run.labels import dataset

        return dataset(self)

    def save(self, path: str | Path) -> None:
        """Write outputs and coordinates to a `.npz`, `.json`, `.csv`, `.h5` or `.nc` file.

        Raises:
            InputError: the file cannot be written; no half of it is left.
        """
        from mdf_loop.run.saving import save

        with noting(self.read_from):
            save(self, path)

    def plot(
        self,
        path: str | Path | None = None,
        names: Sequence[str] | None = None,
        *,
        title: str = "",
    ) -> Figure:
        """Draw outputs over time, one panel for each; with a path, write a png, svg or pdf.

        Args:
            path: the file to write; without one the figure is only given back.
            names: the outputs to draw; by default all that are numbers.
            title: what stands above the panels.

        Raises:
            InputError: there is no axis of time, or the file cannot be written.
        """
        from mdf_loop.run.plotting import plot

        chosen = None if names is None else arguments.names(names, "names")
        title = arguments.text(title, "title", "title='A model'")
        with noting(self.read_from):
            return plot(self, path, chosen, title)


def _type(data: Data) -> str:
    """`float64[2, 3]`, `[float64[2], float64[3]]` for a sequence, `absent`."""
    if data is None:
        return "absent"
    if isinstance(data, list):
        return f"[{', '.join(map(_type, data))}]"
    return f"{data.dtype}{list(data.shape)}"


def _tensor(array: Array) -> dict[str, Any]:
    return {
        "dtype": dtype_name(array),
        "shape": list(array.shape),
        "data": array,
    }


def _streamed(array: Any) -> dict[str, Any]:
    """An array of a Zarr store, without the data, which may be longer than memory."""
    return {
        "dtype": dtype_name(array),
        "shape": list(array.shape),
        "file": str(array.store.shown),
    }
