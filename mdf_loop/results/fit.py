"""What a fit has found: estimates, how sure they are, and how well the model does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.files import checked_target, write_whole
from mdf_loop.ir import Array, StoppedBy
from mdf_loop.paths import Files, noting
from mdf_loop.results.json_text import in_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class FitStart:
    """One start of a fit: where it began, where it ended, at which cost, and whether that is the best."""

    began: Mapping[str, Any]
    ended: Mapping[str, Any]
    cost: float
    agrees: bool


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An output of the fitted model beside its data.

    Attributes:
        output: which one.
        time: of each row of the model, and `fitted` these rows.
        observed_at: the time of each row of the data, and `observed` these rows.
        residuals: the model's minus the data's.
    """

    output: str
    time: Array
    fitted: Array
    observed_at: Array
    observed: Array
    residuals: Array


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Times of one choice, as observed and as the fitted model gives them.

    Attributes:
        choice: which one; None where there are no choices.
        edges: between which times the bins are.
        observed: how many of the data lie in each.
        expected: how many would, of as many data.
    """

    choice: float | None
    edges: Array
    observed: Array
    expected: Array


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit has found.

    Attributes:
        estimates: the value of each free parameter.
        standard_errors: how far each may be off; infinite where nothing is known, empty where no
            standard errors can be told.
        intervals: between which values it is with 95 %.
        parameters: what each row of `covariance` is about: `cell.a`, or `net.W[0,1]`.
        covariance: of the estimates.
        cost: what is least: the sum of squared residuals, minus the log likelihood, or the objective.
        sse: the sum of squared (weighted) residuals.
        residual_sd: the standard deviation of residuals.
        log_likelihood: of the data, with normal residuals or by trials.
        aic: Akaike's criterion.
        bic: the Bayesian one.
        count: how many numbers were observed.
        converged: whether the search was done.
        reason: why it ended.
        stopped_by: what ended it, if it was not done: `StoppedBy.COMPLETED` if it was.
        starts: all that were polished, the best first.
        evaluations: how many runs of the model there were.
        seconds: how long it took.
        seed: that of the search, and of random numbers.
        method: how the least was searched for.
        at_bounds: parameters whose estimate is one of its bounds.
        together: groups of parameters that cannot be told apart.
        curves: outputs beside the data.
        distributions: times beside the data.
        model: the model with the estimates written in, compiled.
    """

    estimates: Mapping[str, Any]
    standard_errors: Mapping[str, Any]
    intervals: Mapping[str, tuple[Any, Any]]
    parameters: tuple[str, ...]
    covariance: Array
    cost: float
    converged: bool
    reason: str
    starts: tuple[FitStart, ...]
    evaluations: int
    seconds: float
    seed: int
    method: str
    model: Any
    stopped_by: StoppedBy = StoppedBy.COMPLETED
    sse: float | None = None
    residual_sd: float | None = None
    log_likelihood: float | None = None
    aic: float | None = None
    bic: float | None = None
    count: int = 0
    at_bounds: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    curves: tuple[Curve, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    read_from: Files = field(default=frozenset(), repr=False)

    @property
    def correlations(self) -> Array:
        """How estimates go together, from -1 to 1; nan where nothing is known."""
        errors = np.sqrt(np.diag(self.covariance))
        with np.errstate(all="ignore"):
            made: Array = self.covariance / np.outer(errors, errors)
        return made

    @property
    def agreeing(self) -> int:
        """How many starts have ended where the best one has."""
        return sum(start.agrees for start in self.starts)

    def table(self) -> DataFrame:
        """A pandas DataFrame with a row for each free number, and its uncertainty."""
        from pandas import DataFrame, Index

        columns = {"estimate": _flat(self.estimates)}
        if self.standard_errors:
            columns["standard error"] = _flat(self.standard_errors)
        if self.intervals:
            for k, word in enumerate(("lower", "upper")):
                columns[word] = _flat({name: ends[k] for name, ends in self.intervals.items()})
        return DataFrame(columns, index=Index(self.parameters, name="parameter"))

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
        for name in ("cost", "sse", "residual_sd", "log_likelihood", "aic", "bic", "count"):
            told[name] = getattr(self, name)
        for name in ("converged", "reason", "evaluations", "seconds", "seed", "method"):
            told[name] = getattr(self, name)
        told["starts"] = [
            {
                "began": _numbers(start.began),
                "ended": _numbers(start.ended),
                "cost": start.cost,
                "agrees": start.agrees,
            }
            for start in self.starts
        ]
        told["at_bounds"] = list(self.at_bounds)
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


def _flat(values: Mapping[str, Any]) -> Array:
    rows: Sequence[Array] = [np.asarray(value, float).ravel() for value in values.values()]
    return np.concatenate(rows)


def _number(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in values.items()}


def refuse_nothing(fit: Fit) -> None:
    """Refuse to draw where there is neither curve nor distribution.

    Raises:
        InputError: there is nothing.
    """
    if not fit.curves and not fit.distributions:
        raise InputError("this fit has no data to draw", hint="fit to data with against=")
