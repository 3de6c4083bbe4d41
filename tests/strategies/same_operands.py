"""Calls of operators that read the same value at two or more operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import LoopError
from mdf_loop.ir import Input, Output, Program, Value
from mdf_loop.ir.types import dtype_name
from mdf_loop.ops import row_of
from mdf_loop.run.interpret import interpret
from tests.ops.operator_samples import SAMPLES, WHOLE, F, I

SHARED = (
    *(np.array([True, False, True]), I(1, 0, 2), I(2), I(2, 1), np.array(1)),
    *(np.array([[1, 0], [0, 1]]), np.array([1.5, 0.5, 2.0]), np.array([[1.5, 0.5], [2.0, 0.25]])),
)
"""Arrays for shared operands, in addition to the arrays of the operator samples."""


@dataclass(frozen=True)
class SameOperands:
    """A call of an operator.

    Attributes:
        op_type: Name of the operator.
        positions: Positions of the operands that are the same value.
        arrays: Array of each operand, or None where an optional one is absent.
        attributes: Attributes of the operator.
        output_count: Number of outputs.
    """

    op_type: str
    positions: tuple[int, ...]
    arrays: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any]
    output_count: int = 1

    def call(self, b: Builder, shared: Value) -> tuple[Value, ...]:
        """Append the call with a value as the shared operand, and constants as all others."""
        operands = [
            shared if k in self.positions else None if array is None else b.constant(array)
            for k, array in enumerate(self.arrays)
        ]
        with b.at("$.here", "op"):
            return b.multi(
                self.op_type, *operands, output_count=self.output_count, **self.attributes
            )

    @property
    def shared(self) -> np.ndarray:
        """Array of the shared operands."""
        array = self.arrays[self.positions[0]]
        assert array is not None
        return array

    def program(self) -> Program:
        """Return the program of the call alone; its input is `x0`."""
        b = Builder()
        x = b.new(dtype_name(self.shared), self.shared.shape, "x0")
        named = tuple(Output(f"y{k}", value) for k, value in enumerate(self.call(b, x)))
        return Program("p", (Input(x),), tuple(b.ops), named)


def calls(op_type: str, arrays: tuple[Any, ...], **more: Any) -> Iterator[SameOperands]:
    """Yield a call for each choice of positions whose operands can be the same value.

    Args:
        op_type: Name of the operator.
        arrays: Operands of a call whose operands all differ.
        **more: Further fields of `SameOperands`.
    """
    own_values = [array for array in arrays if array is not None and array.dtype.kind in "biuf"]
    places = [k for k, array in enumerate(arrays) if array is not None]
    for positions in chain.from_iterable(combinations(places, n) for n in (2, 3, 4)):
        for shared in (*own_values, *SHARED):
            operands = tuple(shared if k in positions else a for k, a in enumerate(arrays))
            call = SameOperands(op_type, positions, operands, **more)
            if _is_valid(call):
                yield call
                break


def sample_calls(op_type: str, dtype: str) -> Iterator[SameOperands]:
    """Yield calls with shared operands from the sample of an operator in a dtype."""
    sample = SAMPLES[op_type]
    if dtype != "float64" and not any(isinstance(a, F) for a in sample.inputs):
        return iter(())
    arrays = tuple(
        a.array(dtype) if isinstance(a, F) else None if a is None else np.asarray(a)
        for a in sample.inputs
    )
    is_integer = np.dtype(dtype).kind in "iu"
    attributes = WHOLE.get(op_type, sample.attributes) if is_integer else sample.attributes
    return calls(op_type, arrays, attributes=attributes, output_count=sample.output_count)


OPERATORS = sorted(
    name for name, s in SAMPLES.items() if len(s.inputs) > 1 and not row_of(name).is_random
)
"""Operators with two or more operands."""


def _is_valid(call: SameOperands) -> bool:
    try:
        interpret(call.program(), {"x0": call.shared})
    except LoopError:
        return False
    return True
