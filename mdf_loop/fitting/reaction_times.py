"""Likelihood of choices and reaction times, from the simulated trials in each bin.

    rt,choice            choice 1: bins between the deciles of its times, the outer ones open
    0.51,1               log L = sum over bins of (data in it) * log (share of trials in it)

Half a trial is added to each bin, so that no datum has probability zero. The likelihood is piecewise
constant in the parameters, so it cannot be differentiated.

Source: Heathcote, Brown and Mewhort, Quantile maximum likelihood estimation of response time
distributions (2002); half a trial: Krichevsky and Trofimov (1981).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError
from mdf_loop.fitting.observed import count_nonfinite_rows
from mdf_loop.fitting.response_surface import CostTerm
from mdf_loop.fitting.summands import ObjectiveTerm, SumObjective
from mdf_loop.ir import Array

MAX_BINS = 10
"""Largest number of bins of one choice."""

MIN_DATA_PER_BIN = 10
"""Least number of data in a bin, for a choice with several bins."""

TRIALS_ADDED_TO_BIN = 0.5
"""Number of trials added to the trials that fall into a bin."""


class Bins(Struct, frozen=True):
    """Bins of one choice's reaction times, with the number of observed times in each bin.

    `choice` is None for data without choices.
    """

    choice: float | None
    bin_edges: Array
    data_counts: Array

    @classmethod
    def of(cls, choice: float | None, times: Array) -> Bins:
        """Build bins that contain about equally many observed times."""
        bin_count = int(np.clip(len(times) // MIN_DATA_PER_BIN, 1, MAX_BINS))
        bin_edges = np.unique(np.quantile(times, np.linspace(0, 1, bin_count + 1)[1:-1]))
        return cls(choice, bin_edges, _count_in_bins(bin_edges, times[None])[0])

    def count_trials(self, times: Array, choices: Array | None) -> Array:
        """Count the simulated trials in each bin, for each parameter set."""
        is_counted_trial = np.isfinite(times)
        if self.choice is not None and choices is not None:
            is_counted_trial &= choices == self.choice
        return _count_in_bins(self.bin_edges, np.where(is_counted_trial, times, np.nan))


def _count_in_bins(bin_edges: Array, times: Array) -> Array:
    """Count the finite times in each bin, separately for each row of times."""
    bin_numbers = np.searchsorted(bin_edges, times, side="right")
    bin_numbers = np.where(np.isfinite(times), bin_numbers, len(bin_edges) + 1)
    bin_count = len(bin_edges) + 2
    flat_bin_numbers = bin_numbers + bin_count * np.arange(len(times))[:, None]
    bin_counts: Array = np.bincount(
        flat_bin_numbers.ravel(), minlength=bin_count * len(times)
    ).reshape(-1, bin_count)
    return bin_counts[:, :-1]


class ReactionTimeData(Struct, frozen=True):
    """Observed reaction times and choices, sorted into bins.

    Attributes:
        bins: Bins of the times, by choice.
        observed_times: All finite observed times.
        dropped_row_count: The number of rows whose time or choice is nan or infinite.
    """

    bins: tuple[Bins, ...]
    observed_times: Array
    dropped_row_count: int = 0

    @classmethod
    def of(cls, times: Array, choices: Array | None) -> ReactionTimeData:
        """Return the finite observed times in bins, with separate bins for each choice.

        Raises:
            InputError: The data have no time.
        """
        times = np.asarray(times, float)
        choices = None if choices is None else np.asarray(choices, float)
        is_finite = (
            np.isfinite(times) if choices is None else np.isfinite(times) & np.isfinite(choices)
        )
        if not is_finite.any():
            raise InputError("the data have no reaction time")
        dropped_row_count = (
            count_nonfinite_rows(times) if choices is None else count_nonfinite_rows(times, choices)
        )
        if choices is None:
            return cls((Bins.of(None, times[is_finite]),), times[is_finite], dropped_row_count)
        distinct_choices = np.unique(choices[is_finite])
        bins = tuple(
            Bins.of(float(choice), times[is_finite & (choices == choice)])
            for choice in distinct_choices
        )
        return cls(bins, times[is_finite], dropped_row_count)

    @property
    def data_counts(self) -> Array:
        """Number of observed times in each bin, as one array for all choices."""
        return np.concatenate([bins_of_choice.data_counts for bins_of_choice in self.bins])

    @property
    def count(self) -> int:
        """Number of observed reaction times."""
        return int(self.data_counts.sum())

    def log_shares(self, times: Array, choices: Array | None) -> Array:
        """Return the logarithm of the share of simulated trials in each bin.

        The result has one row for each parameter set.
        """
        trial_counts = np.concatenate(
            [bins_of_choice.count_trials(times, choices) for bins_of_choice in self.bins], axis=1
        )
        log_bin_shares: Array = np.log(
            (trial_counts + TRIALS_ADDED_TO_BIN)
            / (times.shape[1] + TRIALS_ADDED_TO_BIN * trial_counts.shape[1])
        )
        return log_bin_shares


class DecisionTerm(ObjectiveTerm, frozen=True):
    """One subject's term of a likelihood, with the model and the observed reaction times."""

    reaction_times: ReactionTimeData
    output_names: Sequence[str]

    def costs(self, points: Array) -> Array:
        """Return the negative log likelihood at search points, with one seed for all points."""
        return self._costs(self.log_shares(points))

    def pooled_costs(self, points: Array, seeds: Array) -> Array:
        """Return the negative log likelihood at search points, from trials of several seeds."""
        return self._costs(np.log(self.pooled_shares(points, seeds)))

    def pooled_shares(self, points: Array, seeds: Array) -> Array:
        """Return the share of simulated trials in each bin, averaged over seeds."""
        repeated_points = np.repeat(points, len(seeds), axis=0)
        log_shares = self.log_shares(repeated_points, seed=np.tile(seeds, len(points)))
        mean_shares: Array = np.exp(log_shares).reshape(len(points), len(seeds), -1).mean(axis=1)
        return mean_shares

    def log_shares(self, points: Array, **run_arguments: Array) -> Array:
        """Return the log of the share of simulated trials in each bin, at each search point."""
        return self.reaction_times.log_shares(*self.trials(points, **run_arguments))

    def trials(self, points: Array, **run_arguments: Array) -> tuple[Array, Array | None]:
        """Simulate trials at each search point, and return their reaction times and choices.

        The choices are None if the model has none.
        """
        outputs_by_name = self.model.outputs(
            {**self.parameter_space.values(points), **run_arguments}
        )
        times, *choices = (np.asarray(outputs_by_name[name], float) for name in self.output_names)
        return times, choices[0] if choices else None

    def _costs(self, log_shares: Array) -> Array:
        costs: Array = -(log_shares @ self.reaction_times.data_counts)
        return costs


class LikelihoodObjective(SumObjective[DecisionTerm]):
    """Negative log likelihood of one subject, or of several that share parameters."""

    def costs(self, points: Array) -> Array:
        """Return the negative log likelihood at each search point, with one seed for all points."""
        costs = self._sum_over_terms(DecisionTerm.costs, points)
        self.monitor.record(points, costs)
        return costs

    def pooled_cost(self, point: Array, seeds: Array) -> float:
        """Return the negative log likelihood at a search point, from trials of several seeds."""
        return float(
            self._sum_over_terms(lambda term, own: term.pooled_costs(own, seeds), point[None])[0]
        )

    def terms(self, seeds: Array) -> list[CostTerm]:
        """Return (parameter indices, negative log likelihood function) for each subject."""
        return [(term.indices, self._counted_costs(term, seeds)) for term in self.objective_terms]

    def _sum_over_terms(
        self, costs: Callable[[DecisionTerm, Array], Array], points: Array
    ) -> Array:
        total_costs: Array = np.sum(
            [costs(term, points[:, term.indices]) for term in self.objective_terms], axis=0
        )
        return total_costs

    def _counted_costs(self, term: DecisionTerm, seeds: Array) -> Callable[[Array], Array]:
        def costs(points: Array) -> Array:
            term_costs = term.pooled_costs(points, seeds)
            self.monitor.count_runs(len(points) * len(seeds))
            return term_costs

        return costs
