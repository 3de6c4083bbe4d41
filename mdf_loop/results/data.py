"""Results of a run, and their export to JSON, files, plots, xarray datasets and pandas frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop import arguments
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.html_tables import html_table, number_text
from mdf_loop.ir import Array, Data
from mdf_loop.paths import Files, track_read_files
from mdf_loop.public_call import public_calls
from mdf_loop.renamed import renamed_attributes
from mdf_loop.results.json_text import json_chunks, results_content, to_json_types
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.lengths import remove_padding
from mdf_loop.run.recording.not_finite import NotFinite
from mdf_loop.specification import Values
from mdf_loop.text_escaping import escape_to_one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from xarray import Dataset

    from mdf_loop.drawing import Drawing


@public_calls
class Results(Outputs):
    """Outputs of a run with their names, axes and units.

    See `Outputs` for the attributes of its base class.

    Attributes:
        read_from: Files of the model. Saving never overwrites them.
        model: Model that `draw` makes a picture of. None for results that were read from a file.
        run_values: Inputs and parameters of the run. `draw` shows them in its picture.
        steps: Number of time steps that the caller requested. None for a single evaluation.
        store: Zarr store that a cluster wrote. The outputs are read from it on access.
        not_finite: First value that became nan or infinite and was still so at the end, if any.
    """

    read_from: Files = frozenset()
    model: Document | None = None
    run_values: Values = Values()
    steps: int | None = None
    store: Path | None = None
    not_finite: NotFinite | None = None

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes({"told": "statistics", "given": "run_values"})

    @property
    def time(self) -> Array | None:
        """Time of each row, in `units["time"]`, or None unless the run was over time with `dt`."""
        time_coordinates = [
            axis.coordinates["time"] for axis in self.axes if "time" in axis.coordinates
        ]
        return np.asarray(time_coordinates[0]) if time_coordinates else None

    def rows(self, name: str) -> list[Array]:
        """Return the recorded rows of an output over time, without padding.

        A run over time has one row per step, and each row holds all members of a sweep. Without a time axis,
        the rows are those that the loop of each member or trial recorded, in the order of the members.

        Raises:
            KeyError: No output matches, or several outputs match.
            InputError: The output has neither an axis of time nor lengths.
        """
        full_name = self.full_name(name)
        axis_names = [axis.name for axis in self.axes_of(full_name)]
        if "time" not in axis_names and full_name in self.lengths:
            return self._rows_of_members(full_name, len(axis_names))
        if "time" not in axis_names:
            raise InputError(
                f"'{full_name}' has no rows: it has no axis of time", hint="run the model over time"
            )
        rows_and_lengths = (
            self._arrays[full_name],
            *(self.lengths[name] for name in (full_name,) if name in self.lengths),
        )
        rows, *lengths = (
            np.moveaxis(np.asarray(array), axis_names.index("time"), 0)
            for array in rows_and_lengths
        )
        return remove_padding(rows, lengths[0], len(axis_names)) if lengths else list(rows)

    def _rows_of_members(self, name: str, result_axis_count: int) -> list[Array]:
        """Return the rows that each batch member recorded of an output, without padding."""
        padded_rows, lengths = np.asarray(self._arrays[name]), np.asarray(self.lengths[name])
        member_count = math.prod(padded_rows.shape[:result_axis_count])
        rows = padded_rows.reshape(member_count, *padded_rows.shape[result_axis_count:])
        return remove_padding(
            rows, lengths.reshape(member_count, *lengths.shape[result_axis_count:])
        )

    def __repr__(self) -> str:
        names_with_types = ", ".join(
            f"{name}: {_type_text(array)}" for name, array in self._arrays.items()
        )
        return escape_to_one_line(f"Results({names_with_types})")

    def _repr_html_(self) -> str:
        table_rows = [
            (name, _type_text(array), self.units.get(name, ""), _value_text(array))
            for name, array in self._arrays.items()
        ]
        return html_table(self.reason, ("output", "type", "unit", "value"), table_rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as a dict of plain numbers, strings and lists, as in `to_json`."""
        return dict(to_json_types(self.content()))

    def content(self) -> dict[str, Any]:
        """Return the results as a dict like `to_dict`, with NumPy arrays in place of lists."""
        return results_content(self)

    def to_json(self) -> str:
        """Return the results as JSON text: outputs, loops, device and precision.

        - `lengths` is present for outputs whose rows may have different lengths.
        - `axes` has the coordinates by name, for a run over time or a sweep.
        - Outputs that were streamed to a Zarr store have its name as `file` in place of data. Their lengths and
          times are in the store.
        - `stopped_by` and the sentence `reason` are present for a run that was stopped, and `notes` if there are any.
        """
        return "".join(json_chunks(self.content()))

    def to_xarray(self) -> Dataset:
        """Return an `xarray.Dataset` with one variable per output, with dimensions and units.

        Outputs that a cluster wrote are read from their store on access.
        """
        from mdf_loop.results.dataset import open_store, to_dataset

        return to_dataset(self) if self.store is None else open_store(self.store)

    def to_dataframe(self) -> DataFrame:
        """Return a `pandas.DataFrame` with one row per time, member and trial.

        It has one column per number.

        The index has one level per axis: `time` (or `step`), each swept parameter, `trial`. Each element of
        an array is a column, such as `cell.v[0]`. The units are in `.attrs["units"]`.

        Raises:
            InputError: An output is not an array.
        """
        from mdf_loop.results.frame import to_frame

        return to_frame(self)

    def save(self, path: str | Path) -> None:
        """Write outputs and coordinates to a `.npz`, `.json`, `.csv`, `.h5`, `.nc` or `.zarr` file.

        Raises:
            InputError: The file cannot be written. No partial file remains.
        """
        from mdf_loop.results.saving import save

        with track_read_files(self.read_from):
            save(self, path)

    def draw(self, target: str | Path | None = None, **options: Any) -> Drawing:
        """Draw the model with observations of this run, such as iterations and stop reasons.

        The others are milliseconds, values and traces.

        Args:
            target: File to write as well. Its suffix selects the format, as for `mdf_loop.draw`.
            options: Options of `mdf_loop.draw`. `over_time` defaults to the kind of this run.

        Raises:
            InputError: The model is not known, because the results were read from a file.
            LoopError: The file cannot be written, or the drawing program is missing.
        """
        from mdf_loop.drawing import draw
        from mdf_loop.outline import observe
        from mdf_loop.reading.document_for_run import apply_run_values

        if self.model is None:
            raise InputError(
                "the model of these results is not known",
                hint="draw the results that compile(...).run(...) gives",
            )
        is_over_time = any(axis.name == "time" for axis in self.axes)
        options = {"over_time": is_over_time, **options, "observation": observe(self)}
        return draw(apply_run_values(self.model, self.run_values, self.steps), target, **options)

    def plot(
        self,
        path: str | Path | None = None,
        names: Sequence[str] | None = None,
        *,
        title: str = "",
    ) -> Figure:
        """Plot the outputs over time, trials or a sweep, with one panel per output.

        With a path, write a png, svg or pdf.

        At most 12 panels are drawn. A line below them names the outputs that are missing.

        Args:
            path: File to write. Without it, the figure is only returned.
            names: Outputs to plot. The default is all numeric outputs.
            title: Title above the panels.

        Raises:
            InputError: There is no axis to plot over, or the file cannot be written.
        """
        from mdf_loop.results.plotting import plot_results

        plotted_names = None if names is None else arguments.names(names, "names")
        title = arguments.text(title, "title", "title='A model'")
        with track_read_files(self.read_from):
            return plot_results(self, path, plotted_names, title)


def _value_text(array: Data) -> str:
    """Format the value of a one-element array as text, or return "" for a larger array."""
    return number_text(array[()]) if isinstance(array, np.ndarray) and array.ndim == 0 else ""


def _type_text(array: Data) -> str:
    """Return the type of an output as text, such as `float64[2, 3]`.

    A sequence gives `[float64[2], float64[3]]`, and a missing output `absent`.
    """
    if array is None:
        return "absent"
    if isinstance(array, list):
        return f"[{', '.join(map(_type_text, array))}]"
    return f"{array.dtype}{list(array.shape)}"
