"""A call that draws, as formulas and rules see it: its numbers, its parts, the checks of its parameters."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.guards import ensured
from mdf_loop.ops.symbolic import Symbolic

Size: TypeAlias = tuple[int, ...]


def drawn(b: ModelBuilder, kind: str, shape: Size) -> Value:
    """Return random numbers of the site that is read now: words, uniform, normal or exponential ones."""
    place = b.place
    site = {"site": place.site, "graph": place.graph, "turn": place.turn, "turns": place.turns}
    return b.op("Draw", kind=kind, shape=shape, **site)


class DrawSite:
    """The site that is read now, or a part of it."""

    def __init__(self, b: ModelBuilder, name: str = "") -> None:
        self._b = b
        self._name = name

    def numbers(self, kind: str, shape: Size) -> Symbolic:
        """Return its numbers of a kind of `streams.KINDS`."""
        with self._b.part(self._name):
            return Symbolic(self._b, drawn(self._b, kind, shape))

    def part(self, name: str) -> DrawSite:
        """Return further numbers of the same call."""
        return DrawSite(self._b, f"{self._name}.{name}" if self._name else name)

    def least(self, parameter: Symbolic) -> float:
        """Return the least number of a parameter; minus infinity where it is not known yet."""
        known = self._b.constant_of(parameter.value)
        return -np.inf if known is None else float(np.min(known))

    def ensured(self, parameter: Symbolic, fits: Symbolic, sentence: str) -> Symbolic:
        """Return the parameter; raise an error with that sentence where it does not fit, now or in the run.

        Raises:
            OperandError: it is known not to fit.
        """
        error = OperandError(sentence)
        return Symbolic(self._b, ensured(self._b, parameter.value, fits.value, error))
