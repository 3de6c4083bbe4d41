"""Sizes of the values of a program in bytes, for memory limits and thread counts."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from mdf_loop.ir import Op, Program, Value, results, walk
from mdf_loop.ir.types import is_tensor, numpy_dtype
from mdf_loop.memory_limit import limit, too_large
from mdf_loop.ops import row_of


class Sizes(Struct, frozen=True):
    """Size of the largest value of a program, and duration of its slowest operation.

    Attributes:
        max_elements: Largest number of elements of a value.
        max_operation_microseconds: Estimated microseconds of the slowest operation.
        largest_value: Largest value outside of loops and branches, or None.
        largest_bytes: Bytes of `largest_value`.
    """

    max_elements: int
    max_operation_microseconds: float
    largest_value: Value | None
    largest_bytes: int

    def check_limit(self) -> None:
        """Raise an error if a single value of the program exceeds the memory limit.

        Raises:
            MemoryLimitError: `largest_value` exceeds the memory limit.
        """
        largest_value = self.largest_value
        if largest_value is not None and self.largest_bytes > limit():
            raise too_large(
                self.largest_bytes,
                f"'{largest_value.name}', {largest_value.type},",
                largest_value.where,
            )


def measure_sizes(program: Program) -> Sizes:
    """Compute the size of a program's largest value, and the duration of its slowest operation."""
    input_values = [program_input.value for program_input in program.inputs]
    operations = tuple(walk(program.ops))
    result_values = (value for operation in operations for value in results(operation))
    outer_results = (value for operation in program.ops for value in results(operation))
    largest_value = max(
        (value for value in outer_results if _is_known(value)), key=_value_bytes, default=None
    )
    return Sizes(
        max(map(_count_elements, (*input_values, *result_values)), default=1),
        max(
            (row_of(op.op_type).min_microseconds(op) for op in operations if isinstance(op, Op)),
            default=0.0,
        ),
        largest_value,
        0 if largest_value is None else _value_bytes(largest_value),
    )


def _known_extents(value: Value) -> Iterable[int]:
    return (extent for extent in value.shape or () if isinstance(extent, int))


def _count_elements(value: Value) -> int:
    """Return the number of elements of a value, where unknown extents count as 1."""
    return math.prod(_known_extents(value))


def _is_known(value: Value) -> bool:
    extents = value.shape if value.shape is not None else ("?",)
    return is_tensor(value.dtype) and all(isinstance(extent, int) for extent in extents)


def _value_bytes(value: Value) -> int:
    return _count_elements(value) * numpy_dtype(value.dtype).itemsize
