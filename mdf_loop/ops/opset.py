"""In which opset an operation is written: the lowest, from ours on, that has its form.

    ReduceMax(x)                     17
    ReduceMax(x, axes)               18, since when axes are an operand
    ScatterND(..., reduction="max")  18, as its row says: the word is new, no attribute
    BitCast(x)                       26, which is the first that has it

A program is written in the highest opset of its operations; operations that are said differently
there are respelled when it is emitted (`newer_form` of their rows).
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
"""That of files at our opset."""

NEWEST = 20
"""The newest opset in which all is said that can be: from 21 on Loop leaves CUDA on some releases.

An operation that is newer has a row, if it cannot be made of older ones.
"""


@functools.cache
def forms(op_type: str) -> Mapping[int, defs.OpSchema]:
    """The definitions of ONNX's operator from our opset on, by the first opset that has each."""
    found: dict[int, defs.OpSchema] = {}
    for version in _versions():
        try:
            schema = defs.get_schema(op_type, version, "")
        except defs.SchemaError:
            continue
        if not schema.deprecated:
            found.setdefault(max(schema.since_version, OPSET), schema)
    said = min(found, default=NEWEST) <= NEWEST or op_type in names()
    return found if said else {}


def _versions() -> range:
    return range(OPSET, defs.onnx_opset_version() + 1)


def opset_of(op_type: str, inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """The lowest opset that has the operation; ours if none has it."""
    row = row_of(op_type)
    if row.schema is not None:
        return OPSET
    dtypes = tuple(None if entry is None else entry[0] for entry in inputs)
    return _lowest(op_type, dtypes, tuple(attributes), row.opset(inputs, attributes))


def opset_of_op(op: Op) -> int:
    """The lowest opset that has an operation of a program."""
    types = [None if value is None else (value.dtype, value.shape) for value in op.inputs]
    return opset_of(op.op_type, types, op.attributes)


def opset_of_all(ops: Iterable[Operation]) -> int:
    """The lowest opset that has all operations, those of bodies included."""
    own = (opset_of_op(operation) for operation in walk(ops) if isinstance(operation, Op))
    return max(own, default=OPSET)


def said_at(op: Op, opset: int) -> tuple[Sequence[Array | None], Mapping[str, Any]]:
    """How an operation is said at an opset: the constants behind its inputs, its attributes."""
    newer = row_of(op.op_type).newer_forms
    own = opset_of_op(op) if newer else opset
    form = next((form for since, form in newer if own < since <= opset), None)
    return ((), op.attributes) if form is None else form(op)


def ir_version(opset: int) -> int:
    """The version of the file format that came with an opset."""
    if opset <= OPSET:
        return IR_VERSION
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


@functools.lru_cache(maxsize=4096)
def _lowest(
    op_type: str, dtypes: tuple[str | None, ...], names: tuple[str, ...], least: int
) -> int:
    versions = list(forms(op_type))
    for version, following in zip(versions, [*versions[1:], None], strict=True):
        if following is not None and following <= least:
            continue
        if _has(forms(op_type)[version], dtypes, names):
            return max(version, least)
    return versions[0] if versions else OPSET


def _has(schema: defs.OpSchema, dtypes: tuple[str | None, ...], names: tuple[str, ...]) -> bool:
    """Whether the definition knows all attributes, as many inputs, and their types."""
    if len(dtypes) > schema.max_input or not set(names) <= set(schema.attributes):
        return False
    formals = schema.inputs
    return all(
        dtype is None or onnx_type_text(dtype) in formals[min(k, len(formals) - 1)].types
        for k, dtype in enumerate(dtypes)
    )
