"""What operations cost on ONNX Runtime: a lower bound in microseconds.

Measured with `benchmarks/lazy_choices.py` (onnxruntime 1.31.1, AMD EPYC, one core): an operation
costs 0.2 us besides its work (`ops.costs`), a loop 3 us, and each of its iterations 1.5 us and its body.
"""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Guard, If, Loop, Op, Operation, bodies
from mdf_loop.ops import row_of
from mdf_loop.ops.costs import CALL

_LOOP, _ITERATION = 3.0, 1.5
_GUARD = 4 * CALL
"""A guard is four operations there (`emit.guard_node`)."""


def estimate_cost(b: Builder, operations: Iterable[Operation]) -> float:
    """What they cost at least; `b` knows the constants."""
    return sum(_one(b, operation) for operation in operations)


def _one(b: Builder, operation: Operation) -> float:
    if isinstance(operation, Constant):
        return 0.0
    if isinstance(operation, Op):
        return CALL + row_of(operation.op_type).work(operation)
    if isinstance(operation, Guard):
        return _GUARD
    inner = [estimate_cost(b, body.ops) for body in bodies(operation)]
    if isinstance(operation, If):
        return CALL + min(inner)
    assert isinstance(operation, Loop)
    return _LOOP + _iterations(b, operation) * (_ITERATION + inner[0])


def _iterations(b: Builder, loop: Loop) -> int:
    """How often a loop runs for sure."""
    known = b.constant_of(loop.trip_count)
    return 0 if known is None or loop.condition is not None else max(int(known), 0)
