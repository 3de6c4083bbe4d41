"""Kernels that ONNX Runtime's CPU provider is known to have: the `has_kernel` of rows (1.31).

This table covers the operations of common models, so that they need no probe. For other operations the runtime
is probed (see `kernels`).
"""

from __future__ import annotations

from collections.abc import Collection

from mdf_loop.ir import Op
from mdf_loop.ops.registry import Test

FLOATS = frozenset({"float64", "float32"})
NUMBERS = frozenset({*FLOATS, "int64", "int32"})
NUMBERS_AND_BOOL = frozenset({*NUMBERS, "bool"})


def first_dtype(op: Op) -> str:
    """Return the dtype of the first operand, or an empty text."""
    return op.inputs[0].dtype if op.inputs and op.inputs[0] else ""


def _dtypes(op: Op) -> list[str]:
    return [value.dtype for value in op.inputs if value is not None]


def for_dtypes(dtypes: Collection[str]) -> Test:
    """Return a test that all operands have one of these dtypes."""

    def has_kernel(op: Op) -> bool:
        return set(_dtypes(op)) <= set(dtypes)

    return has_kernel


def for_indexed_dtypes(dtypes: Collection[str]) -> Test:
    """Return a test for data of one of these dtypes with int64 indices, shapes or axes.

    An operation with a reduction fails the test.
    """

    def has_kernel(op: Op) -> bool:
        first, *rest = _dtypes(op)
        return not op.attributes.get("reduction") and first in dtypes and set(rest) <= {"int64"}

    return has_kernel


def for_first_dtype(dtypes: Collection[str]) -> Test:
    """Return a test that the first operand has one of these dtypes."""
    return lambda op: first_dtype(op) in dtypes
