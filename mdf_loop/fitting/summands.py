"""Fit objectives that are a sum of terms, one for each subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Self, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.model import FitModel
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array


class ObjectiveTerm(Struct, frozen=True):
    """Term of a fit objective: a model, its free parameters, and their indices in search points.

    A search point is a vector with the values of all free parameters of the fit.
    """

    model: FitModel
    parameter_space: ParameterSpace
    indices: Array

    @property
    def standalone(self) -> Self:
        """Copy of the term for search points that consist of this term's parameters only."""
        return replace(self, indices=np.arange(len(self.indices)))


AnyTerm = TypeVar("AnyTerm", bound=ObjectiveTerm)


class SumObjective(Generic[AnyTerm]):
    """Fit objective of one subject, or of several subjects that share parameters.

    A point has `size` elements. Each of the `objective_terms` states the indices of its own elements.
    """

    def __init__(self, objective_terms: Sequence[AnyTerm], size: int, monitor: FitMonitor) -> None:
        self.objective_terms = tuple(objective_terms)
        self.size = size
        self.monitor = monitor
