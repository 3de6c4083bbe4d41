"""Protocol of a model that can be fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mdf_loop.ir import Array


class FitModel(Protocol):
    """Protocol of a model that a fit evaluates and differentiates."""

    def outputs(self, members: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the model outputs for many parameter sets, stacked along a leading axis.

        The outputs of a member whose run fails are nan.
        """
        ...

    def jacobian(self, values: Mapping[str, Array]) -> Mapping[tuple[str, str], Array]:
        """Return the derivative of each output by each parameter.

        The axes of the output come first.
        """
        ...
