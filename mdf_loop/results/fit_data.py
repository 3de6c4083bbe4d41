"""All that a fit has found: estimates, how sure they are, and how well the model does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Array, StoppedBy
from mdf_loop.paths import Files

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class FitStart:
    """One start of a fit.

    Attributes:
        began: from which values it searched.
        ended: where it has ended.
        cost: what that costs.
        agrees: whether that is the cost and the place of the best one.
        ties: whether it is the cost of the best one, at another place.
    """

    began: Mapping[str, Any]
    ended: Mapping[str, Any]
    cost: float
    agrees: bool
    ties: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An output of the fitted model beside its data.

    Attributes:
        output: which one.
        time: of each row of the model, and `fitted` these rows.
        time_unit: of the time; nothing where steps are counted.
        observed_at: the time of each row of the data, and `observed` these rows.
        residuals: the model's minus the data's.
    """

    output: str
    time: Array
    fitted: Array
    observed_at: Array
    observed: Array
    residuals: Array
    time_unit: str = ""


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
class FitData:
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
        dropped: the number of rows of the data in which a value is nan or infinite; such values are left out.
        converged: whether the search was done.
        reason: why it ended.
        stopped_by: what ended it, if it was not done: `StoppedBy.COMPLETED` if it was.
        starts: all that were polished, the best first.
        evaluations: how many runs of the model there were.
        seconds: how long it took.
        seed: that of the search, and of random numbers.
        method: how the least was searched for.
        at_bounds: parameters whose estimate is one of its bounds.
        beyond_bounds: parameters whose interval reaches beyond one of its bounds.
        together: groups of parameters that cannot be told apart.
        nonfinite_derivatives: parameters by which derivatives were nan or infinite at points of the search
            where the outputs are finite: it may have ended too early, and standard errors may be wrong.
        curves: outputs beside the data.
        distributions: times beside the data.
        trials: how many runs told each value of a likelihood, or of an objective; None: one run.
        steps: how often the model was evaluated in a run over time; None: once.
        dt: the time between two evaluations; None where nobody said it.
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
    dropped: int = 0
    at_bounds: tuple[str, ...] = ()
    beyond_bounds: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    nonfinite_derivatives: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    trials: int | None = None
    steps: int | None = None
    dt: float | None = None
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

        columns = {"estimate": flat(self.estimates)}
        if self.standard_errors:
            columns["standard error"] = flat(self.standard_errors)
        if self.intervals:
            for k, word in enumerate(("lower", "upper")):
                columns[word] = flat({name: ends[k] for name, ends in self.intervals.items()})
        return DataFrame(columns, index=Index(self.parameters, name="parameter"))


def flat(values: Mapping[str, Any]) -> Array:
    """All numbers of some values, one after the other."""
    rows: Sequence[Array] = [np.asarray(value, float).ravel() for value in values.values()]
    return np.concatenate(rows)
