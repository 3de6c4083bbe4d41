"""Protocol of a call that draws random numbers."""

from __future__ import annotations

from typing import Any, Protocol, Self

Shape = tuple[int, ...]


class CallSite(Protocol):
    """Protocol of a call that draws random numbers, in NumPy or in a compiled program."""

    def numbers(self, kind: str, shape: Shape) -> Any:
        """Return random numbers of a distribution in `streams.DISTRIBUTIONS`.

        Repeated calls return equal numbers.
        """

    def part(self, name: str) -> Self:
        """Return an independent source of random numbers for the draw `name` of this call."""

    def least(self, parameter: Any) -> float:
        """Return the smallest element of a distribution parameter, or minus infinity if unknown."""

    def ensured(self, parameter: Any, fits: Any, sentence: str) -> Any:
        """Return a distribution parameter, after a check that `fits` is true for all elements."""

    def count_events(self, u: Any, rate: Any) -> Any:
        """Return the Poisson numbers of uniform numbers `u`."""
