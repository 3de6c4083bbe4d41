"""Which operations may fail for some values of their operands, shapes apart.

A choice that differs from run to run computes both branches, so neither may fail for values that
it was not meant for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.elementwise import WHOLE_FAIL
from mdf_loop.ir import Constant, If, Loop, Op, Operation, Value, bodies
from mdf_loop.passes.batching.registry import RULES

_CONTROL: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            *("Compress", "Expand", "Gather", "GatherElements", "GatherND", "OneHot", "Pad"),
            *("Reshape", "ScatterElements", "Split", "Tile", "TopK"),
        ),
        (1,),
    ),
    "Slice": (4,),
}
"""Operands that decide whether an operation can be done at all: harmless if they are known."""


def may_fail(b: Builder, ops: Iterable[Operation]) -> Operation | None:
    """The first operation that may fail, or may never end; None if there is none."""
    for operation in ops:
        if isinstance(operation, Op) and _op_may_fail(b, operation):
            return operation
        if isinstance(operation, Loop) and operation.trip_count is None:
            return operation
        if isinstance(operation, (Loop, If)):
            inner = (may_fail(b, body.ops) for body in bodies(operation))
            found = next((failing for failing in inner if failing is not None), None)
            if found is not None:
                return found
    return None


def _op_may_fail(b: Builder, op: Op) -> bool:
    if op.op_type not in RULES:
        return True
    if op.op_type in WHOLE_FAIL and op.outputs[0].dtype[:3] in ("int", "uin"):
        divisor = b.constant_of(op.inputs[1])
        return divisor is None or bool(np.any(divisor <= 0))
    return any(_unknown(b, op, position) for position in _CONTROL.get(op.op_type, ()))


def _unknown(b: Builder, op: Op, position: int) -> bool:
    value: Value | None = op.inputs[position] if position < len(op.inputs) else None
    return value is not None and b.constant_of(value) is None


def name_of(operation: Operation) -> str:
    """What an operation is called in an error."""
    if isinstance(operation, Op):
        return f"onnx::{operation.op_type}"
    return "a constant" if isinstance(operation, Constant) else f"'{operation.name}'"
