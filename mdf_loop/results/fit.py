"""Result of a fit of model parameters to data, with its export to JSON, files and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.files import checked_target, write_atomically
from mdf_loop.html_tables import html_table, table_cells
from mdf_loop.ir import StopReason
from mdf_loop.paths import Files, track_read_files
from mdf_loop.public_call import public_calls
from mdf_loop.renamed import renamed_attributes
from mdf_loop.results.fit_data import FitData
from mdf_loop.results.json_text import json_chunks

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@public_calls
@dataclass(frozen=True, eq=False)
class Fit(FitData):
    """Result of a fit, with methods that export it to JSON, files and plots.

    See `FitData` for the attributes.
    """

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes({"together": "unidentifiable"})

    def to_dict(self) -> dict[str, Any]:
        """Return the fit as a dict of plain numbers, strings and lists.

        nan and infinity are strings.
        """
        import json

        return dict(json.loads(self.to_json()))

    def to_json(self) -> str:
        """Return the fit as JSON text: estimates, uncertainty and the record of the search."""
        return "".join(json_chunks(self.content()))

    def content(self) -> dict[str, Any]:
        """Return the fit as a dict like `to_dict`, with NumPy arrays in place of lists."""
        fit_content: dict[str, Any] = {
            "estimates": _to_numbers(self.estimates),
            "standard_errors": _to_numbers(self.standard_errors),
            "intervals": {
                name: list(map(_to_number, interval)) for name, interval in self.intervals.items()
            },
            "parameters": list(self.parameters),
            "covariance": self.covariance,
            "correlations": self.correlations,
        }
        for name in (
            "cost",
            "sse",
            "residual_sd",
            "log_likelihood",
            "aic",
            "bic",
            "count",
            "dropped",
        ):
            fit_content[name] = getattr(self, name)
        for name in ("converged", "reason", "evaluations", "seconds", "seed", "method"):
            fit_content[name] = getattr(self, name)
        fit_content |= {"stopped_by": self.stopped_by.word, "agreeing": self.agreeing}
        fit_content["starts"] = [
            {
                "began": _to_numbers(start.began),
                "ended": _to_numbers(start.ended),
                "cost": start.cost,
                "agrees": start.agrees,
                "ties": start.ties,
            }
            for start in self.starts
        ]
        fit_content["at_bounds"] = list(self.at_bounds)
        fit_content["beyond_bounds"] = list(self.beyond_bounds)
        fit_content["nonfinite_derivatives"] = list(self.nonfinite_derivatives)
        fit_content |= {"trials": self.trials, "steps": self.steps, "dt": self.dt}
        fit_content["bins"] = [
            {
                name: getattr(distribution, name)
                for name in ("choice", "edges", "observed", "expected")
            }
            for distribution in self.distributions
        ]
        return fit_content | {"together": [list(group) for group in self.unidentifiable]}

    def save(self, path: str | Path) -> None:
        """Write the whole fit to a `.json` file, or its table of estimates to a `.csv` file.

        Raises:
            InputError: The file cannot be written. No partial file remains.
        """
        with track_read_files(self.read_from):
            save(self, path)

    def plot(self, path: str | Path | None = None, *, title: str = "") -> Figure:
        """Plot the fitted curves over the data, with the residuals below.

        With a path, write a png, svg or pdf.

        Raises:
            InputError: There are no data to draw, or the file cannot be written.
        """
        from mdf_loop.results.fit_plotting import plot_fit

        with track_read_files(self.read_from):
            return plot_fit(self, path, title)

    def __str__(self) -> str:
        """Return the fit as text: a table of estimates, the quality of the fit and remarks."""
        from mdf_loop.results.fit_text import format_fit

        return format_fit(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.reason, *table_cells(self.table()))


@public_calls
@dataclass(frozen=True, eq=False)
class Fits(Mapping[str, Fit]):
    """Fits of several subjects, by the name of the subject.

    Attributes:
        fits: Fit of each subject.
        shared: Parameters that are tied, with one value for all subjects.
        read_from: Files of the model.
    """

    fits: Mapping[str, Fit]
    shared: tuple[str, ...] = ()
    read_from: Files = field(default=frozenset(), repr=False)

    def __getitem__(self, name: str) -> Fit:
        return self.fits[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fits)

    def __len__(self) -> int:
        return len(self.fits)

    @property
    def stopped_by(self) -> StopReason:
        """Reason that ended the last of the fits.

        If it was stopped, later subjects have no fit.
        """
        return list(self.fits.values())[-1].stopped_by

    @property
    def estimates(self) -> dict[str, Mapping[str, Any]]:
        """Estimated parameters of each subject, by the name of the subject."""
        return {name: fit.estimates for name, fit in self.fits.items()}

    def table(self) -> DataFrame:
        """Return a pandas DataFrame with one row per subject and estimated number."""
        from pandas import concat

        return concat({name: fit.table() for name, fit in self.fits.items()}, names=["subject"])

    def content(self) -> dict[str, Any]:
        """Return the fits of all subjects as a dict, with NumPy arrays in place of lists."""
        return {"subjects": {name: fit.content() for name, fit in self.fits.items()}} | {
            "shared": list(self.shared)
        }

    def to_json(self) -> str:
        """Return the fits of all subjects as JSON text."""
        return "".join(json_chunks(self.content()))

    def save(self, path: str | Path) -> None:
        """Write all fits to a `.json` file, or the table of estimates to a `.csv` file.

        Raises:
            InputError: The file cannot be written. No partial file remains.
        """
        with track_read_files(self.read_from):
            save(self, path)

    def __str__(self) -> str:
        """Return the texts of all fits, each below the name of its subject."""
        return "\n\n".join(f"{name}\n{fit}" for name, fit in self.fits.items())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(f"{len(self)} subjects", *table_cells(self.table()))


def save(fit: Fit | Fits, path: str | Path) -> None:
    """Write one or several fits to a `.json` file, or their table to a `.csv` file."""
    target = checked_target(path, (".json", ".csv"), "a fit")
    file_text = fit.to_json() if target.suffix.lower() == ".json" else fit.table().to_csv()
    write_atomically(target, lambda stream: stream.write(file_text.encode()))


def _to_number(value: Any) -> Any:
    """Return an array with one element as a float, and a larger array unchanged."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _to_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping in which floats replace the arrays with one element."""
    return {name: _to_number(value) for name, value in values.items()}
