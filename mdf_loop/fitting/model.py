"""What a fit asks of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mdf_loop.ir import Array


class Model(Protocol):
    """Something with parameters that gives outputs."""

    def outputs(self, members: Mapping[str, Array]) -> Mapping[str, Array]:
        """What it gives for each of some values of its free parameters: an axis of members in front.

        The outputs of a member that fails, or is no number, are nan.
        """
        ...

    def jacobian(self, values: Mapping[str, Array]) -> Mapping[tuple[str, str], Array]:
        """How outputs change with parameters: by both names, axes of the output in front."""
        ...
