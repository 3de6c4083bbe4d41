"""What a fit has found: estimates, how sure they are, and how well the model does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.files import checked_target, write_whole
from mdf_loop.ir import StoppedBy
from mdf_loop.paths import Files, noting
from mdf_loop.results.fit_data import FitData
from mdf_loop.results.json_text import in_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Fit(FitData):
    """What a fit has found, and what can be made of it; see `FitData` for all that it says."""

    def to_dict(self) -> dict[str, Any]:
        """All that is found, as plain numbers, texts and lists; nan and infinity as texts."""
        import json

        return dict(json.loads(self.to_json()))

    def to_json(self) -> str:
        """One JSON object with what is found."""
        return "".join(in_parts(self.content()))

    def content(self) -> dict[str, Any]:
        """What `to_dict` gives, with arrays as they are."""
        told: dict[str, Any] = {
            "estimates": _numbers(self.estimates),
            "standard_errors": _numbers(self.standard_errors),
            "intervals": {name: list(map(_number, ends)) for name, ends in self.intervals.items()},
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
            told[name] = getattr(self, name)
        for name in ("converged", "reason", "evaluations", "seconds", "seed", "method"):
            told[name] = getattr(self, name)
        told |= {"stopped_by": self.stopped_by.word, "agreeing": self.agreeing}
        told["starts"] = [
            {
                "began": _numbers(start.began),
                "ended": _numbers(start.ended),
                "cost": start.cost,
                "agrees": start.agrees,
                "ties": start.ties,
            }
            for start in self.starts
        ]
        told["at_bounds"] = list(self.at_bounds)
        told["beyond_bounds"] = list(self.beyond_bounds)
        told["nonfinite_derivatives"] = list(self.nonfinite_derivatives)
        told |= {"trials": self.trials, "steps": self.steps, "dt": self.dt}
        told["bins"] = [
            {name: getattr(each, name) for name in ("choice", "edges", "observed", "expected")}
            for each in self.distributions
        ]
        return told | {"together": [list(group) for group in self.together]}

    def save(self, path: str | Path) -> None:
        """Write what is found to a `.json` file, or the table to a `.csv` file.

        Raises:
            InputError: the file cannot be written; no half of it is left.
        """
        with noting(self.read_from):
            save(self, path)

    def plot(self, path: str | Path | None = None, *, title: str = "") -> Figure:
        """Draw the curves over the data, with residuals; with a path, write a png, svg or pdf.

        Raises:
            InputError: there is nothing to draw, or the file cannot be written.
        """
        from mdf_loop.results.fit_plotting import plot

        with noting(self.read_from):
            return plot(self, path, title)

    def __str__(self) -> str:
        """What a reader wants to know, line by line."""
        from mdf_loop.results.fit_text import text

        return text(self)


@dataclass(frozen=True, eq=False)
class Fits(Mapping[str, Fit]):
    """A fit for each subject, by its name.

    Attributes:
        fits: what was found for each.
        shared: the parameters that are tied: they have one value for all.
        read_from: the files of the model.
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
    def stopped_by(self) -> StoppedBy:
        """What has ended the last of them: then there is none of later subjects."""
        return list(self.fits.values())[-1].stopped_by

    @property
    def estimates(self) -> dict[str, Mapping[str, Any]]:
        """The estimates of each subject."""
        return {name: fit.estimates for name, fit in self.fits.items()}

    def table(self) -> DataFrame:
        """A pandas DataFrame with a row for each subject and free number."""
        from pandas import concat

        return concat({n: fit.table() for n, fit in self.fits.items()}, names=["subject"])

    def content(self) -> dict[str, Any]:
        """What was found for each subject."""
        return {"subjects": {n: fit.content() for n, fit in self.fits.items()}} | {
            "shared": list(self.shared)
        }

    def to_json(self) -> str:
        """One JSON object with what was found for each subject."""
        return "".join(in_parts(self.content()))

    def save(self, path: str | Path) -> None:
        """Write what was found to a `.json` file, or the table to a `.csv` file.

        Raises:
            InputError: the file cannot be written; no half of it is left.
        """
        with noting(self.read_from):
            save(self, path)

    def __str__(self) -> str:
        """What a reader wants to know of each subject."""
        return "\n\n".join(f"{name}\n{fit}" for name, fit in self.fits.items())


def save(found: Fit | Fits, path: str | Path) -> None:
    """Write a fit."""
    target = checked_target(path, (".json", ".csv"), "a fit")
    text = found.to_json() if target.suffix.lower() == ".json" else found.table().to_csv()
    write_whole(target, lambda stream: stream.write(text.encode()))


def _number(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in values.items()}
