"""A number and its derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.results.json_text import as_plain


@dataclass(frozen=True, slots=True)
class GradientCheck:
    """What a comparison of derivatives with central differences has found.

    Attributes:
        elements: how many were looked at.
        largest: the largest distance between the two, in parts of the largest derivative by the same
            parameter or input; as it is where all of these are 0.
        where: the element that has it: `cell.a`, or `cell.M[3, 4]`.
    """

    elements: int = 0
    largest: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Gradient(Mapping[str, Array]):
    """How a number changes with parameters and inputs: for each an array of its shape.

    Of a sweep all have an axis of its members in front.

    Attributes:
        value: the number.
        arrays: the derivatives, by the names that were asked for.
        seed: that of the random numbers, which are held as they were.
        native: of each loop whether it was native.
        check: what a comparison with differences has found, if there was one.
    """

    value: float | Array
    arrays: Mapping[str, Array]
    seed: int | None = None
    native: Mapping[str, str] = field(default_factory=dict)
    check: GradientCheck | None = None

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def to_dict(self) -> dict[str, Any]:
        """The number and its derivatives as plain numbers and lists; nan and infinity as text."""
        arrays = {
            name: {
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "data": as_plain(array),
            }
            for name, array in self.arrays.items()
        }
        made = {"value": as_plain(np.asarray(self.value)), "gradient": arrays}
        return made if self.check is None else {**made, "check": asdict(self.check)}
