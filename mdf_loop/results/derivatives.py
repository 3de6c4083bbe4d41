"""Class `Derivatives`: Jacobians or Hessians of a model, by output and input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mdf_loop.html_tables import array_text, html_table
from mdf_loop.ir import Array
from mdf_loop.public_call import public_calls
from mdf_loop.text_escaping import escape_to_one_line


@public_calls
@dataclass(frozen=True)
class Derivatives(Mapping[tuple[str, str], Array]):
    """Derivatives of arrays with respect to arrays, such as `jacobian["cell.V", "cell.a"]`.

    Each derivative has the axes of the array named first, followed by those of the array named second.

    Attributes:
        arrays: Derivatives by the pair of names.
        mode: Differentiation mode, `forward` or `reverse`.
        native: For each loop, whether it ran as machine code.
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

    def __repr__(self) -> str:
        block_texts = ", ".join(
            f"{output_name} by {input_name}: {array_text(array)}"
            for (output_name, input_name), array in self.arrays.items()
        )
        return escape_to_one_line(f"Derivatives({block_texts})")

    def _repr_html_(self) -> str:
        table_rows = [
            (output_name, input_name, array_text(array))
            for (output_name, input_name), array in self.arrays.items()
        ]
        return html_table(f"{self.mode} mode", ("of", "with respect to", "derivative"), table_rows)
