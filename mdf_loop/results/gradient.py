"""Gradient of a scalar output with respect to parameters and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mdf_loop.html_tables import array_text, html_table
from mdf_loop.ir import Array
from mdf_loop.public_call import public_calls
from mdf_loop.results.json_text import to_json_types
from mdf_loop.text_escaping import escape_to_one_line


@dataclass(frozen=True, slots=True)
class GradientCheck:
    """Report of a comparison of derivatives with central differences.

    Attributes:
        elements: Number of compared elements.
        largest: Largest difference between the two, relative to the largest derivative with respect to the same
            parameter or input. Absolute if all of these derivatives are 0.
        where: Element with the largest difference: `cell.a`, or `cell.M[3, 4]`.
    """

    elements: int = 0
    largest: float = 0.0
    where: str = ""


@public_calls
@dataclass(frozen=True)
class Gradient(Mapping[str, Array]):
    """Derivatives of a scalar with respect to parameters and inputs, as arrays of the same shapes.

    In a sweep, all arrays have a leading axis of members.

    Attributes:
        value: Value of the differentiated number.
        arrays: Derivatives by the names that the caller requested.
        seed: Seed of the random numbers, which are constant under differentiation.
        native: For each loop, whether it ran as machine code.
        check: Comparison with central differences, or None if it was not requested.
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

    def __repr__(self) -> str:
        derivative_texts = ", ".join(
            f"{name}: {array_text(array)}" for name, array in self.arrays.items()
        )
        return escape_to_one_line(f"Gradient(value: {array_text(self.value)}; {derivative_texts})")

    def _repr_html_(self) -> str:
        table_rows = [(name, array_text(array)) for name, array in self.arrays.items()]
        return html_table(
            f"value {array_text(self.value)}", ("with respect to", "derivative"), table_rows
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the scalar and its derivatives as plain numbers and lists.

        nan and infinity are strings.
        """
        derivative_lists = {
            name: {
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "data": to_json_types(array),
            }
            for name, array in self.arrays.items()
        }
        gradient_content = {
            "value": to_json_types(np.asarray(self.value)),
            "gradient": derivative_lists,
        }
        return (
            gradient_content
            if self.check is None
            else {**gradient_content, "check": asdict(self.check)}
        )
