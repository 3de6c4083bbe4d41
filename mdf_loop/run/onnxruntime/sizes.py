"""How large the values of a program are, as far as their shapes are known before it runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from mdf_loop.ir import Program, Value, results, walk
from mdf_loop.ir.types import is_tensor, numpy_dtype
from mdf_loop.memory_limit import limit, too_large


class Sizes(Struct, frozen=True):
    """The most elements of a value, and the largest of those that are computed at any rate."""

    most_elements: int
    largest: Value | None
    bytes: int

    def refuse(self) -> None:
        """Refuse a program one value of which takes more memory than a run may.

        Raises:
            MemoryLimitError: it would.
        """
        value = self.largest
        if value is not None and self.bytes > limit():
            raise too_large(self.bytes, f"'{value.name}', {value.type},", value.where)


def sizes(program: Program) -> Sizes:
    """How large the values of a program are."""
    inputs = [entry.value for entry in program.inputs]
    made = (value for operation in walk(program.ops) for value in results(operation))
    outermost = (value for operation in program.ops for value in results(operation))
    largest = max((v for v in outermost if _is_known(v)), key=_bytes, default=None)
    return Sizes(
        max(map(_elements, (*inputs, *made)), default=1),
        largest,
        0 if largest is None else _bytes(largest),
    )


def _known(value: Value) -> Iterable[int]:
    return (extent for extent in value.shape or () if isinstance(extent, int))


def _elements(value: Value) -> int:
    """The number of elements, as far as extents are known."""
    return math.prod(_known(value))


def _is_known(value: Value) -> bool:
    extents = value.shape if value.shape is not None else ("?",)
    return is_tensor(value.dtype) and all(isinstance(extent, int) for extent in extents)


def _bytes(value: Value) -> int:
    return _elements(value) * numpy_dtype(value.dtype).itemsize
