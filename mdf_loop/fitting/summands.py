"""What a cost is a sum of: models beside what was observed of them, which may share numbers of a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Self, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.fitting.free import Free
from mdf_loop.fitting.model import Model
from mdf_loop.fitting.watch import Watch
from mdf_loop.ir import Array


class Summand(Struct, frozen=True):
    """A model and its free parameters; which of all points' numbers are its own."""

    model: Model
    free: Free
    own: Array

    @property
    def alone(self) -> Self:
        """The same, of a point that has no other numbers."""
        return replace(self, own=np.arange(len(self.own)))


AnySummand = TypeVar("AnySummand", bound=Summand)


class Summands(Generic[AnySummand]):
    """One model or several that share parameters.

    A point has a number for each of `size`; `parts` say which are theirs.
    """

    def __init__(self, parts: Sequence[AnySummand], size: int, watch: Watch) -> None:
        self.parts = tuple(parts)
        self.size = size
        self.watch = watch
