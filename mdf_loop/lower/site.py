"""Random draws of an MDF model, each from a stream that is named by the call site."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.guards import check_value
from mdf_loop.ops.symbolic import Symbolic

SampleShape: TypeAlias = tuple[int, ...]


def draw_numbers(b: ModelBuilder, kind: str, shape: SampleShape) -> Value:
    """Append a draw of random numbers at the current call site, and return the numbers.

    The kinds are words, uniform, normal and exponential numbers.
    """
    call_site = b.call_site
    site_attributes = {
        "site": call_site.stream_name,
        "graph": call_site.graph_path,
        "turn": call_site.pass_index,
        "turns": call_site.pass_count,
    }
    return b.op("Draw", kind=kind, shape=shape, **site_attributes)


class DrawSite:
    """Source of random numbers for a call in an expression, or for one named draw of the call."""

    def __init__(self, b: ModelBuilder, name: str = "") -> None:
        self._b = b
        self._name = name

    def numbers(self, kind: str, shape: SampleShape) -> Symbolic:
        """Return random numbers of a distribution in `streams.DISTRIBUTIONS`."""
        with self._b.part(self._name):
            return Symbolic(self._b, draw_numbers(self._b, kind, shape))

    def part(self, name: str) -> DrawSite:
        """Return an independent source of random numbers for the draw `name` of this call."""
        return DrawSite(self._b, f"{self._name}.{name}" if self._name else name)

    def least(self, parameter: Symbolic) -> float:
        """Return the smallest element of a distribution parameter, or minus infinity if unknown."""
        constant_parameter = self._b.constant_of(parameter.value)
        return -np.inf if constant_parameter is None else float(np.min(constant_parameter))

    def ensured(self, parameter: Symbolic, fits: Symbolic, sentence: str) -> Symbolic:
        """Check that the condition `fits` is true for all elements of a distribution parameter.

        Return the parameter. The check happens at compile time if possible, else at run time.

        Raises:
            OperandError: The parameter is known to violate the check.
        """
        operand_error = OperandError(sentence)
        return Symbolic(self._b, check_value(self._b, parameter.value, fits.value, operand_error))
