"""The likelihood of choices and their times: how often runs of a model fall into bins of the data.

    rt,choice            choice 1: bins between the deciles of its times, the outer ones open
    0.51,1               log L = sum over bins of (data in it) * log (share of trials in it)

A bin has at least half a trial, so that no datum is impossible. The number is piecewise constant in the
parameters: nothing of it is differentiated.

Source: Heathcote, Brown and Mewhort, Quantile maximum likelihood estimation of response time
distributions (2002); half a trial: Krichevsky and Trofimov (1981).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError
from mdf_loop.fitting.around import Term
from mdf_loop.fitting.observed import not_finite_rows
from mdf_loop.fitting.summands import Summand, Summands
from mdf_loop.ir import Array

MOST_BINS = 10
"""Bins of one choice."""

LEAST_DATA = 10
"""Data in a bin, of a choice that has more than one."""

FLOOR = 0.5
"""Trials that each bin has besides those that fall into it."""


class Bins(Struct, frozen=True):
    """Bins of the times of one choice (None where there are none), and how many data lie in each."""

    choice: float | None
    edges: Array
    observed: Array

    @classmethod
    def of(cls, choice: float | None, times: Array) -> Bins:
        """Bins that hold about equally many."""
        count = int(np.clip(len(times) // LEAST_DATA, 1, MOST_BINS))
        edges = np.unique(np.quantile(times, np.linspace(0, 1, count + 1)[1:-1]))
        return cls(choice, edges, _counts(edges, times[None])[0])

    def trials_in(self, times: Array, choices: Array | None) -> Array:
        """How many trials of each member fall into each bin."""
        mine = np.isfinite(times)
        if self.choice is not None and choices is not None:
            mine &= choices == self.choice
        return _counts(self.edges, np.where(mine, times, np.nan))


def _counts(edges: Array, times: Array) -> Array:
    """How many of each row lie between edges; those that are no number lie nowhere."""
    places = np.searchsorted(edges, times, side="right")
    places = np.where(np.isfinite(times), places, len(edges) + 1)
    width = len(edges) + 2
    flat = places + width * np.arange(len(times))[:, None]
    made: Array = np.bincount(flat.ravel(), minlength=width * len(times)).reshape(-1, width)
    return made[:, :-1]


class ReactionTimes(Struct, frozen=True):
    """Observed times and choices of decisions.

    Attributes:
        bins: bins of the times, by choice.
        times: all times.
        dropped: the number of rows whose time or choice is nan or infinite.
    """

    bins: tuple[Bins, ...]
    times: Array
    dropped: int = 0

    @classmethod
    def of(cls, times: Array, choices: Array | None) -> ReactionTimes:
        """Observed times, and choices; rows that are no number are left out.

        Raises:
            InputError: there is no time.
        """
        times = np.asarray(times, float)
        choices = None if choices is None else np.asarray(choices, float)
        seen = np.isfinite(times) if choices is None else np.isfinite(times) & np.isfinite(choices)
        if not seen.any():
            raise InputError("the data have no reaction time")
        dropped = not_finite_rows(times) if choices is None else not_finite_rows(times, choices)
        if choices is None:
            return cls((Bins.of(None, times[seen]),), times[seen], dropped)
        kinds = np.unique(choices[seen])
        bins = tuple(Bins.of(float(k), times[seen & (choices == k)]) for k in kinds)
        return cls(bins, times[seen], dropped)

    @property
    def observed(self) -> Array:
        """How many data lie in each bin."""
        return np.concatenate([each.observed for each in self.bins])

    @property
    def count(self) -> int:
        """How many times were observed."""
        return int(self.observed.sum())

    def log_shares(self, times: Array, choices: Array | None) -> Array:
        """The logarithm of the share of trials in each bin, of each member."""
        inside = np.concatenate([each.trials_in(times, choices) for each in self.bins], axis=1)
        made: Array = np.log((inside + FLOOR) / (times.shape[1] + FLOOR * inside.shape[1]))
        return made


class Decisions(Summand, frozen=True):
    """A model and what was observed of its decisions."""

    times: ReactionTimes
    outputs: Sequence[str]

    def costs(self, points: Array) -> Array:
        """Minus the log likelihood at points of its own numbers, with the same random numbers at all."""
        return self._costs(self.log_shares(points))

    def pooled_costs(self, points: Array, seeds: Array) -> Array:
        """The same with the trials of several sets of random numbers put together."""
        return self._costs(np.log(self.pooled(points, seeds)))

    def pooled(self, points: Array, seeds: Array) -> Array:
        """The shares of these trials in each bin."""
        each = np.repeat(points, len(seeds), axis=0)
        logs = self.log_shares(each, seed=np.tile(seeds, len(points)))
        made: Array = np.exp(logs).reshape(len(points), len(seeds), -1).mean(axis=1)
        return made

    def log_shares(self, points: Array, **more: Array) -> Array:
        """The logarithms of shares at points."""
        return self.times.log_shares(*self.trials(points, **more))

    def trials(self, points: Array, **more: Array) -> tuple[Array, Array | None]:
        """The times of trials at points, and their choices if there are any."""
        made = self.model.outputs({**self.free.values(points), **more})
        times, *choices = (np.asarray(made[name], float) for name in self.outputs)
        return times, choices[0] if choices else None

    def _costs(self, logs: Array) -> Array:
        made: Array = -(logs @ self.times.observed)
        return made


class Likelihood(Summands[Decisions]):
    """Minus the log likelihood at points, of one model or of several."""

    def costs(self, points: Array) -> Array:
        """What points cost, with the same random numbers at all of them."""
        costs = self._summed(Decisions.costs, points)
        self.watch.seen(points, costs)
        return costs

    def pooled_cost(self, point: Array, seeds: Array) -> float:
        """What a point costs by the trials of several sets of random numbers."""
        return float(self._summed(lambda part, own: part.pooled_costs(own, seeds), point[None])[0])

    def terms(self, seeds: Array) -> list[Term]:
        """The same, subject by subject."""
        return [(part.own, self._watched(part, seeds)) for part in self.parts]

    def _summed(self, costs: Callable[[Decisions, Array], Array], points: Array) -> Array:
        made: Array = np.sum([costs(part, points[:, part.own]) for part in self.parts], axis=0)
        return made

    def _watched(self, part: Decisions, seeds: Array) -> Callable[[Array], Array]:
        def costs(points: Array) -> Array:
            made = part.pooled_costs(points, seeds)
            self.watch.ran(len(points) * len(seeds))
            return made

        return costs
