"""Predicates for kernels that ONNX Runtime's CPU provider (1.31) is known to have.

The tests cover the operations of common models. For other operations the runtime is probed (see `kernels`).
"""

from __future__ import annotations

from collections.abc import Collection

from mdf_loop.ir import Op
from mdf_loop.ops.registry import OperationTest

FLOAT_DTYPES = frozenset({"float64", "float32"})
NUMBER_DTYPES = frozenset({*FLOAT_DTYPES, "int64", "int32"})
NUMBER_AND_BOOL_DTYPES = frozenset({*NUMBER_DTYPES, "bool"})


def first_dtype(op: Op) -> str:
    """Return the dtype of the first operand of an operation, or an empty string if there is none."""
    return op.inputs[0].dtype if op.inputs and op.inputs[0] else ""


def _operand_dtypes(op: Op) -> list[str]:
    return [value.dtype for value in op.inputs if value is not None]


def all_operands_have(dtypes: Collection[str]) -> OperationTest:
    """Return a predicate that is True if all operands of an operation have one of the given dtypes."""

    def has_kernel(op: Op) -> bool:
        return set(_operand_dtypes(op)) <= set(dtypes)

    return has_kernel


def indexed_data_has(dtypes: Collection[str]) -> OperationTest:
    """Return a predicate for operations with data of one of the given dtypes and int64 indices.

    The test is False for an operation with the attribute `reduction`.
    """

    def has_kernel(op: Op) -> bool:
        data_dtype, *index_dtypes = _operand_dtypes(op)
        return (
            not op.attributes.get("reduction")
            and data_dtype in dtypes
            and set(index_dtypes) <= {"int64"}
        )

    return has_kernel


def first_operand_has(dtypes: Collection[str]) -> OperationTest:
    """Return a predicate that is True if an operation's first operand has one of the given dtypes."""
    return lambda op: first_dtype(op) in dtypes
