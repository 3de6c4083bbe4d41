"""Interface of a model that can be fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mdf_loop.ir import Array


class Model(Protocol):
    """Model with free parameters and outputs."""

    def outputs(self, members: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs for each set of parameter values, with an axis of members in front.

        The outputs are nan for a member whose run fails.
        """
        ...

    def jacobian(self, values: Mapping[str, Array]) -> Mapping[tuple[str, str], Array]:
        """Return the derivative of each output by each parameter, output axes in front."""
        ...
