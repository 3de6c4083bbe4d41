"""Which kernels ONNX Runtime's CPU provider surely has: the `has_kernel` of rows (1.31).

What usual models use is told here, so that it costs nothing; for the rest the runtime is asked.
"""

from __future__ import annotations

from collections.abc import Collection

from mdf_loop.ir import Op
from mdf_loop.ops.registry import Test

FLOATS = frozenset({"float64", "float32"})
NUMBERS = frozenset({*FLOATS, "int64", "int32"})
PLAIN = frozenset({*NUMBERS, "bool"})


def first_dtype(op: Op) -> str:
    """The dtype of the first operand, or nothing."""
    return op.inputs[0].dtype if op.inputs and op.inputs[0] else ""


def _dtypes(op: Op) -> list[str]:
    return [value.dtype for value in op.inputs if value is not None]


def of(dtypes: Collection[str]) -> Test:
    """All operands have dtypes among these."""

    def has_kernel(op: Op) -> bool:
        return set(_dtypes(op)) <= set(dtypes)

    return has_kernel


def indexed(dtypes: Collection[str]) -> Test:
    """Data of one of these dtypes, with int64 positions, shapes or axes after it; no reduction."""

    def has_kernel(op: Op) -> bool:
        first, *rest = _dtypes(op)
        return not op.attributes.get("reduction") and first in dtypes and set(rest) <= {"int64"}

    return has_kernel


def first_of(dtypes: Collection[str]) -> Test:
    """The first operand has one of these dtypes."""
    return lambda op: first_dtype(op) in dtypes
