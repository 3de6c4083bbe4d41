"""The sum of squared residuals between outputs and data, and how residuals change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import field

from mdf_loop.errors import InputError
from mdf_loop.fitting.free import Free
from mdf_loop.fitting.observed import Observations, Observed
from mdf_loop.fitting.summands import Summand, Summands
from mdf_loop.ir import Array

WORST = 1e150
"""The residual of a run that fails, or is no number: its square is finite."""


class Subject(Summand, frozen=True):
    """A model and what was observed of it.

    Attributes:
        nonfinite: names of free parameters, filled by a search: derivatives by them were nan or infinite
            where the residuals are numbers.
    """

    observations: Observations
    nonfinite: set[str] = field(default_factory=set)

    def residuals(self, points: Array) -> Array:
        """The residuals at points of its own numbers: model minus data, weighted."""
        made = self.model.outputs(self.free.values(points))
        rows = [_residuals(each, made[each.output]) for each in self.observations.parts]
        return np.concatenate(rows, axis=1)

    def changes(self, point: Array) -> Array:
        """Return how residuals change with each number of a point of its own, 0 where nobody knows."""
        derivatives = self.model.jacobian(self.free.values(point))
        parts = [_changes(each, derivatives, self.free) for each in self.observations.parts]
        changes = np.concatenate(parts)
        lost = ~np.isfinite(changes)
        if lost.any():
            is_number = np.abs(self.residuals(point[None])[0]) < WORST
            columns = self.free.apart((lost & is_number[:, None]).any(axis=0))
            self.nonfinite.update(name for name, flags in columns.items() if flags.any())
        return np.where(lost, 0.0, changes)

    @property
    def factors(self) -> Array:
        """What each residual is multiplied by."""
        return np.concatenate([_factors(each) for each in self.observations.parts])


class Squares(Summands[Subject]):
    """Squared residuals at points, of one model or of several."""

    def costs(self, points: Array) -> Array:
        """The sum at each of some points; infinite where the model fails."""
        made = self.rows(points)
        with np.errstate(over="ignore"):
            sums = np.sum(made * made, axis=1)
        costs: Array = np.where(np.abs(made).max(axis=1, initial=0) >= WORST, np.inf, sums)
        self.watch.seen(points, costs)
        return costs

    def residuals(self, point: Array) -> Array:
        """Each residual at a point."""
        made: Array = self.rows(point[None])[0]
        self.watch.seen(point[None], np.array([made @ made]))
        return made

    def jacobian(self, point: Array) -> Array:
        """How residuals change with the numbers of a point."""
        blocks = []
        for part in self.parts:
            block = part.changes(point[part.own])
            wide = np.zeros((len(block), self.size))
            wide[:, part.own] = block * part.free.width
            blocks.append(wide)
        return np.concatenate(blocks)

    def rows(self, points: Array) -> Array:
        """The residuals at some points."""
        return np.concatenate([each.residuals(points[:, each.own]) for each in self.parts], axis=1)


def _residuals(observed: Observed, output: Array) -> Array:
    """Model minus data, weighted, of each member.

    Raises:
        InputError: the output has other rows than the data.
    """
    _refuse_other_rows(observed, output.shape[1:])
    found = np.take(output, observed.steps, axis=1) - observed.values
    rows = found[:, observed.seen] * _factors(observed)
    made: Array = np.where(np.isfinite(rows), np.clip(rows, -WORST, WORST), WORST)
    return made


def _changes(observed: Observed, made: Mapping[tuple[str, str], Array], free: Free) -> Array:
    """How the residuals of an output change with each number."""
    columns = []
    for each in free.parameters:
        rows = np.take(made[observed.output, each.name], observed.steps, axis=0)[observed.seen]
        columns.append(rows.reshape(len(rows), -1))
    changes: Array = np.concatenate(columns, axis=1) * _factors(observed)[:, None]
    return changes


def _factors(observed: Observed) -> Array:
    """What each number that was seen is multiplied by."""
    seen = observed.seen
    factors = observed.factors.reshape(-1, *(1,) * (seen.ndim - 1))
    made: Array = np.broadcast_to(factors, seen.shape)[seen]
    return made


def _refuse_other_rows(observed: Observed, shape: tuple[int, ...]) -> None:
    rows, own = observed.values.shape[0], observed.values.shape[1:]
    if not shape:
        raise InputError(
            f"'{observed.output}' is one number in an evaluation, but the data have {rows} rows",
            hint="for a run over time give steps, dt, or a column 'time' or 'step'",
        )
    if shape[1:] != own or shape[0] <= int(observed.steps.max()):
        raise InputError(
            f"'{observed.output}' has rows {list(shape)}, but the data {[rows, *own]}",
            hint="a row of the data has the elements of an output at one time",
        )
