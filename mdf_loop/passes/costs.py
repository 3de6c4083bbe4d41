"""What operations cost on ONNX Runtime: a lower bound in microseconds.

Measured with `benchmarks/lazy_choices.py` (onnxruntime 1.31.1, AMD EPYC, one core): an operation
costs 0.2 us, and for each element 0.2 ns, or 3 ns where it is transcendental; a product of matrices
0.15 ns for each multiplication. A loop costs 3 us, and each of its iterations 1.5 us and its body.
Extents that are not known count as 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, If, Loop, Op, Operation, Value, bodies

_CALL, _LOOP, _ITERATION = 0.2, 3.0, 1.5
_ELEMENT, _SLOW_ELEMENT, _MULTIPLICATION = 0.0002, 0.003, 0.00015
_SLOW = frozenset(
    (
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf"),
        *("Exp", "Log", "Pow", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Tan"),
        "Tanh",
    )
)


def cost(b: Builder, operations: Iterable[Operation]) -> float:
    """What they cost at least; `b` knows the constants."""
    return sum(_one(b, operation) for operation in operations)


def _one(b: Builder, operation: Operation) -> float:
    if isinstance(operation, Constant):
        return 0.0
    if isinstance(operation, Op):
        return _CALL + _work(operation)
    inner = [cost(b, body.ops) for body in bodies(operation)]
    if isinstance(operation, If):
        return _CALL + min(inner)
    assert isinstance(operation, Loop)
    return _LOOP + _iterations(b, operation) * (_ITERATION + inner[0])


def _iterations(b: Builder, loop: Loop) -> int:
    """How often a loop runs for sure."""
    known = b.constant_of(loop.trip_count)
    return 0 if known is None or loop.condition is not None else max(int(known), 0)


def _work(op: Op) -> float:
    elements = sum(_elements(value) for value in op.outputs)
    if op.op_type in ("MatMul", "Gemm"):
        inner = _extent(op.inputs[0], -2 if op.attributes.get("transA") else -1)
        return elements * inner * _MULTIPLICATION
    if op.op_type == "Conv":
        weights = op.inputs[1]
        each = _elements(weights) // max(_extent(weights, 0), 1) if weights else 1
        return elements * each * _MULTIPLICATION
    return elements * (_SLOW_ELEMENT if op.op_type in _SLOW else _ELEMENT)


def _elements(value: Value) -> int:
    return math.prod(extent for extent in value.shape or () if isinstance(extent, int))


def _extent(value: Value | None, axis: int) -> int:
    shape = (value.shape if value is not None else None) or ()
    found = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return found if isinstance(found, int) else 1
