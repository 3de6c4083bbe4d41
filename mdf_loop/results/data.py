"""What a run gives, and what can be made of it: JSON, files, plots, datasets of xarray, frames of pandas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop import arguments
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Data
from mdf_loop.paths import Files, noting
from mdf_loop.results.json_text import as_plain, contents, in_parts
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.lengths import without_padding
from mdf_loop.run.recording.not_finite import NotFinite
from mdf_loop.specification import Values
from mdf_loop.visible import on_one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from xarray import Dataset

    from mdf_loop.drawing import Drawing


class Results(Outputs):
    """What a run gave, and what can be made of it; see `Outputs` for all that it says.

    Attributes:
        read_from: the files of the model, which nothing is saved over.
        model: the model, of which `draw` makes a picture; None where results were read from a file.
        given: the inputs and parameters of the run, which that picture shows.
        steps: how many time steps were asked for; None for one evaluation.
        store: the Zarr store that the outputs are read from where they are looked at, if a cluster
            has written one.
        not_finite: the first value that became nan or infinite and still was at the end, if any.
    """

    read_from: Files = frozenset()
    model: Document | None = None
    given: Values = Values()
    steps: int | None = None
    store: Path | None = None
    not_finite: NotFinite | None = None

    @property
    def time(self) -> Array | None:
        """The time of each row in the unit `units["time"]`, for a model run over time with `dt`; else None."""
        found = [axis.coordinates["time"] for axis in self.axes if "time" in axis.coordinates]
        return np.asarray(found[0]) if found else None

    def rows(self, name: str) -> list[Array]:
        """Return the rows of an output without padding.

        A run over time has a row for each step; a row has all members of a sweep. One evaluation
        of a sweep, or of trials, has for each member what its loop recorded, in the order of the
        members.

        Raises:
            KeyError: no output is meant, or several.
            InputError: the output has neither an axis of time nor lengths.
        """
        full = self.full_name(name)
        front = [axis.name for axis in self.axes_of(full)]
        if "time" not in front and full in self.lengths:
            return self._rows_of_members(full, len(front))
        if "time" not in front:
            raise InputError(
                f"'{full}' has no rows: it has no axis of time", hint="run the model over time"
            )
        arrays = (self._arrays[full], *(self.lengths[n] for n in (full,) if n in self.lengths))
        rows, *lengths = (np.moveaxis(np.asarray(a), front.index("time"), 0) for a in arrays)
        return without_padding(rows, lengths[0], len(front)) if lengths else list(rows)

    def _rows_of_members(self, name: str, front: int) -> list[Array]:
        data, lengths = np.asarray(self._arrays[name]), np.asarray(self.lengths[name])
        members = math.prod(data.shape[:front])
        rows = data.reshape(members, *data.shape[front:])
        return without_padding(rows, lengths.reshape(members, *lengths.shape[front:]))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {_type(data)}" for name, data in self._arrays.items())
        return on_one_line(f"Results({shown})")

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes, as a dict of plain numbers, texts and lists."""
        return dict(as_plain(self.content()))

    def content(self) -> dict[str, Any]:
        """What `to_dict` gives, with arrays as they are."""
        return contents(self)

    def to_json(self) -> str:
        """One JSON object: outputs with dtype, shape, data and units; loops; device; precision.

        Outputs whose rows may have different lengths have `lengths`, too. For a run over time or a
        sweep also `axes`: the coordinates by name. Outputs that were streamed to a Zarr store have
        its name as `file` instead of data; their lengths and times are there, too. For a run that
        was stopped also `stopped_by`, and `reason`, which is a sentence; `notes` if there are any.
        """
        return "".join(in_parts(self.content()))

    def to_xarray(self) -> Dataset:
        """An `xarray.Dataset`: a variable for each output, with dims, coordinates and units.

        What a cluster has written is read from its store where it is looked at.
        """
        from mdf_loop.results.dataset import dataset, open_store

        return dataset(self) if self.store is None else open_store(self.store)

    def to_dataframe(self) -> DataFrame:
        """A `pandas.DataFrame` with a row for each time, member and trial, and a column for each number.

        What stands along the axes is the index: `time` (or `step`), what is swept, `trial`. Elements of
        arrays are columns, `cell.v[0]`. `.attrs["units"]` are the units.

        Raises:
            InputError: an output is no array.
        """
        from mdf_loop.results.frame import frame

        return frame(self)

    def save(self, path: str | Path) -> None:
        """Write outputs and coordinates to a `.npz`, `.json`, `.csv`, `.h5`, `.nc` or `.zarr` file.

        Raises:
            InputError: the file cannot be written; no half of it is left.
        """
        from mdf_loop.results.saving import save

        with noting(self.read_from):
            save(self, path)

    def draw(self, target: str | Path | None = None, **options: Any) -> Drawing:
        """Draw the model with what the run says: iterations, why loops ended, milliseconds, values, traces.

        Args:
            target: a file to write too; its suffix says how, as for `mdf_loop.draw`.
            options: those of `mdf_loop.draw`; `over_time` is as the run was.

        Raises:
            InputError: the model is not known, because the results were read from a file.
            LoopError: the file cannot be written, or there is nothing to draw with.
        """
        from mdf_loop.drawing import draw
        from mdf_loop.outline import observe
        from mdf_loop.reading.as_run import as_run

        if self.model is None:
            raise InputError(
                "the model of these results is not known",
                hint="draw the results that compile(...).run(...) gives",
            )
        timed = any(axis.name == "time" for axis in self.axes)
        options = {"over_time": timed, **options, "observation": observe(self)}
        return draw(as_run(self.model, self.given, self.steps), target, **options)

    def plot(
        self,
        path: str | Path | None = None,
        names: Sequence[str] | None = None,
        *,
        title: str = "",
    ) -> Figure:
        """Draw outputs over time, trials or a sweep, one panel for each; with a path, write a png, svg or pdf.

        There are 12 panels at most; below them stands what was left out.

        Args:
            path: the file to write; without one the figure is only given back.
            names: the outputs to draw; by default all that are numbers.
            title: what stands above the panels.

        Raises:
            InputError: there is nothing to draw them over, or the file cannot be written.
        """
        from mdf_loop.results.plotting import plot

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
