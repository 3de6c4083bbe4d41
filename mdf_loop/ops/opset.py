"""Selection of the lowest supported ONNX opset that can express an operation.

    ReduceMax(x)                     17
    ReduceMax(x, axes)               18, the first opset with axes as an operand
    ScatterND(..., reduction="max")  18, as its row says: the value is new, not the attribute
    BitCast(x)                       26, the first opset with this operator

A program has the highest opset of its operations. Operations whose encoding changed up to this opset are
encoded anew on export (`newer_encodings` of their rows).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx import defs, helper

from mdf_loop.ir import OPSET, Array, Op, Operation, walk
from mdf_loop.ir.types import onnx_type_text
from mdf_loop.ops.registry import Type, names, row_of

IR_VERSION = 8
"""ONNX IR version of files at the base opset."""

NEWEST_PREFERRED_OPSET = 20
"""Newest opset for operations that an older opset can express; from 21 on, some releases run Loop on the CPU only.

A newer operation has a row if it cannot be decomposed into older ones.
"""


@functools.cache
def schemas_by_opset(op_type: str) -> Mapping[int, defs.OpSchema]:
    """Return all schemas of an ONNX operator, by the first supported opset of each schema."""
    schemas_by_version: dict[int, defs.OpSchema] = {}
    for version in _supported_opsets():
        try:
            schema = defs.get_schema(op_type, version, "")
        except defs.SchemaError:
            continue
        if not schema.deprecated:
            schemas_by_version.setdefault(max(schema.since_version, OPSET), schema)
    is_supported = (
        min(schemas_by_version, default=NEWEST_PREFERRED_OPSET) <= NEWEST_PREFERRED_OPSET
        or op_type in names()
    )
    return schemas_by_version if is_supported else {}


def _supported_opsets() -> range:
    return range(OPSET, defs.onnx_opset_version() + 1)


def opset_of(op_type: str, inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return the lowest opset that has an operation with these inputs and attributes, or the base opset."""
    registry_row = row_of(op_type)
    if registry_row.schema is not None:
        return OPSET
    dtypes = tuple(None if input_type is None else input_type[0] for input_type in inputs)
    return _find_lowest_opset(
        op_type, dtypes, tuple(attributes), registry_row.opset(inputs, attributes)
    )


def opset_of_op(op: Op) -> int:
    """Return the lowest opset that has this operation with its inputs and attributes."""
    input_types = [None if value is None else (value.dtype, value.shape) for value in op.inputs]
    return opset_of(op.op_type, input_types, op.attributes)


def opset_of_all(ops: Iterable[Operation]) -> int:
    """Return the lowest opset that has all operations, including those in loop and branch bodies."""
    opsets = (opset_of_op(operation) for operation in walk(ops) if isinstance(operation, Op))
    return max(opsets, default=OPSET)


def encode_at_opset(op: Op, opset: int) -> tuple[Sequence[Array | None], Mapping[str, Any]]:
    """Return the additional constant inputs and the attributes that encode an operation at an opset."""
    newer_encodings = row_of(op.op_type).newer_encodings
    lowest_opset = opset_of_op(op) if newer_encodings else opset
    encode = next(
        (encode for first_opset, encode in newer_encodings if lowest_opset < first_opset <= opset),
        None,
    )
    return ((), op.attributes) if encode is None else encode(op)


def ir_version(opset: int) -> int:
    """Return the smallest ONNX IR version that supports an opset."""
    if opset <= OPSET:
        return IR_VERSION
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


@functools.lru_cache(maxsize=4096)
def _find_lowest_opset(
    op_type: str, dtypes: tuple[str | None, ...], names: tuple[str, ...], min_opset: int
) -> int:
    versions = list(schemas_by_opset(op_type))
    for version, next_version in zip(versions, [*versions[1:], None], strict=True):
        if next_version is not None and next_version <= min_opset:
            continue
        if _accepts(schemas_by_opset(op_type)[version], dtypes, names):
            return max(version, min_opset)
    return versions[0] if versions else OPSET


def _accepts(schema: defs.OpSchema, dtypes: tuple[str | None, ...], names: tuple[str, ...]) -> bool:
    """Return True if an ONNX schema allows these input dtypes and has these attributes."""
    if len(dtypes) > schema.max_input or not set(names) <= set(schema.attributes):
        return False
    schema_inputs = schema.inputs
    return all(
        dtype is None
        or onnx_type_text(dtype) in schema_inputs[min(k, len(schema_inputs) - 1)].types
        for k, dtype in enumerate(dtypes)
    )
