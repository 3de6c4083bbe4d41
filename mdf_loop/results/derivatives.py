"""Derivatives of arrays by arrays: Jacobians and Hessians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mdf_loop.ir import Array


@dataclass(frozen=True)
class Derivatives(Mapping[tuple[str, str], Array]):
    """How each of some arrays changes with each of others: `made["cell.V", "cell.a"]`.

    An array has the axes of the first one named, then those of the second one.

    Attributes:
        arrays: the derivatives by both names.
        mode: `forward`, or `reverse`: how they were computed.
        native: of each loop whether it was native.
    """

    arrays: Mapping[tuple[str, str], Array]
    mode: str
    native: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, names: tuple[str, str]) -> Array:
        return self.arrays[names]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)
