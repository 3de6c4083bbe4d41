"""Data of a fit: estimates, their uncertainty, and the agreement of the model with the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Array, StopReason
from mdf_loop.paths import Files
from mdf_loop.public_call import public_calls

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class FitStart:
    """One start of the search for the best fit: its initial point, final point and cost.

    Attributes:
        began: Parameter values at which this search began.
        ended: Parameter values at which this search ended.
        cost: Cost at the end.
        agrees: True if this start ended at the cost and the parameters of the best start.
        ties: True if this start ended at the cost of the best start, but at other parameters.
    """

    began: Mapping[str, Any]
    ended: Mapping[str, Any]
    cost: float
    agrees: bool
    ties: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Fitted curve: an output of the fitted model over time, with the observed data.

    Attributes:
        output: Name of the output.
        time: Time of each row of the model.
        fitted: Rows of the model.
        time_unit: Unit of the time, or "" for step numbers.
        observed_at: Time of each row of the data.
        observed: Rows of the data.
        residuals: Rows of the model minus rows of the data.
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
    """Observed and expected histogram of reaction times for one choice.

    Attributes:
        choice: Value of the choice. None for data without choices.
        edges: Times between the bins.
        observed: Number of observed times in each bin.
        expected: Number of times that the model expects in each bin for as many trials.
    """

    choice: float | None
    edges: Array
    observed: Array
    expected: Array


@public_calls
@dataclass(frozen=True, eq=False)
class FitData:
    """Attributes of a fit: estimates, their uncertainty, and the record of the search.

    Attributes:
        estimates: Value of each free parameter.
        standard_errors: Standard error of each estimate, or infinity if the data do not determine the
           parameter. Empty if standard errors cannot be computed.
        intervals: Limits of the 95 % confidence interval of each estimate.
        parameters: Name of each row of `covariance`: `cell.a`, or `net.W[0,1]`.
        covariance: Covariance matrix of the estimates.
        cost: Minimized number: the sum of squared residuals, minus the log likelihood, or the objective.
        sse: Sum of squared (weighted) residuals.
        residual_sd: Standard deviation of the residuals.
        log_likelihood: Log likelihood of the data, with normal residuals or from trials.
        aic: Akaike's information criterion.
        bic: Bayesian information criterion.
        count: Number of observed numbers.
        dropped: Number of rows of the data with a nan or infinite value. The fit omits these values.
        converged: True if the search converged.
        reason: Reason why the search ended, as a sentence.
        stopped_by: Limit that stopped the search. `StopReason.COMPLETED` if none did.
        starts: All refined starts, the best first.
        evaluations: Number of runs of the model.
        seconds: Duration of the fit.
        seed: Seed of the search and of the random numbers.
        method: Name of the search method.
        at_bounds: Parameters whose estimate equals one of its bounds.
        beyond_bounds: Parameters whose interval extends beyond one of its bounds.
        unidentifiable: Groups of parameters that the data cannot identify separately.
        nonfinite_derivatives: Parameters whose derivatives were nan or infinite at points of the search where
            the outputs are finite. The search may have ended too early, and standard errors may be wrong.
        curves: Outputs of the model beside the data.
        distributions: Reaction times of the model beside the data.
        trials: Number of runs for each value of a likelihood or of an objective. None for one run.
        steps: Number of evaluations in a run over time. None for a single evaluation.
        dt: Time between two evaluations. None if it was not specified.
        model: Compiled model with the estimates as its parameters.
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
    stopped_by: StopReason = StopReason.COMPLETED
    sse: float | None = None
    residual_sd: float | None = None
    log_likelihood: float | None = None
    aic: float | None = None
    bic: float | None = None
    count: int = 0
    dropped: int = 0
    at_bounds: tuple[str, ...] = ()
    beyond_bounds: tuple[str, ...] = ()
    unidentifiable: tuple[tuple[str, ...], ...] = ()
    nonfinite_derivatives: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    trials: int | None = None
    steps: int | None = None
    dt: float | None = None
    read_from: Files = field(default=frozenset(), repr=False)

    @property
    def correlations(self) -> Array:
        """Correlation matrix of the estimates, from -1 to 1, with nan for unknown covariances."""
        standard_deviations = np.sqrt(np.diag(self.covariance))
        with np.errstate(all="ignore"):
            correlations: Array = self.covariance / np.outer(
                standard_deviations, standard_deviations
            )
        return correlations

    @property
    def agreeing(self) -> int:
        """Number of starts of the search that ended at the best fit."""
        return sum(start.agrees for start in self.starts)

    def table(self) -> DataFrame:
        """Return a pandas DataFrame with one row per estimated number and its uncertainty."""
        from pandas import DataFrame, Index

        columns = {"estimate": flatten(self.estimates)}
        if self.standard_errors:
            columns["standard error"] = flatten(self.standard_errors)
        if self.intervals:
            for k, column in enumerate(("lower", "upper")):
                columns[column] = flatten(
                    {name: interval[k] for name, interval in self.intervals.items()}
                )
        return DataFrame(columns, index=Index(self.parameters, name="parameter"))


def flatten(values: Mapping[str, Any]) -> Array:
    """Return all numbers in a mapping of arrays as one flat array, in the order of the mapping."""
    flat_arrays: Sequence[Array] = [np.asarray(value, float).ravel() for value in values.values()]
    return np.concatenate(flat_arrays)
