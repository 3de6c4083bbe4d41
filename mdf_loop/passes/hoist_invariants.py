"""Compute once, before the loop, what every iteration computes alike.

    loop: t = a * b; x' = x + t   ->   t = a * b; loop: x' = x + t

Keeps: results bit for bit. Only operations that cannot fail move, since a loop of zero
iterations must not fail for what it never computed. A choice stays where it is, and so does
what stands in its branches: it is computed only when it is chosen. A loop in a branch puts its
invariants before itself, in the branch. ONNX Runtime hoists nothing.
"""

from __future__ import annotations

from dataclasses import replace

from mdf_loop.elementwise import ELEMENTWISE, WHOLE_FAIL
from mdf_loop.ir import (
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Value,
    bodies,
    body_inputs,
    operands,
    results,
    with_bodies,
)

_NEVER_FAIL = ELEMENTWISE | {
    *("Clip", "Concat", "Gemm", "MatMul", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"),
    *("Shape", "Softmax", "Transpose", "Unsqueeze"),
}
"""Operations that give a result for all values of operands that fit them."""


def hoist_invariants(program: Program) -> Program:
    """The program with invariants before the loops that need them."""
    ops = _hoisted(program.ops)
    return program if ops == program.ops else replace(program, ops=ops)


def _hoisted(ops: tuple[Operation, ...]) -> tuple[Operation, ...]:
    out: list[Operation] = []
    for operation in ops:
        operation = with_bodies(operation, [_hoisted(body.ops) for body in bodies(operation)])
        if isinstance(operation, Loop):
            before, operation = _split(operation)
            out += before
        out.append(operation)
    return tuple(out)


def _split(loop: Loop) -> tuple[list[Operation], Loop]:
    """What can stand before the loop, and the loop without it."""
    varying: set[Value] = set(body_inputs(loop))
    before: list[Operation] = []
    inside: list[Operation] = []
    for operation in loop.ops:
        if is_total(operation) and varying.isdisjoint(operands(operation)):
            before.append(operation)
        else:
            inside.append(operation)
            varying.update(results(operation))
    return before, replace(loop, ops=tuple(inside)) if before else loop


def is_total(operation: Operation) -> bool:
    """Whether an operation gives a result for all values of its operands."""
    if isinstance(operation, Constant):
        return True
    if not isinstance(operation, Op) or operation.op_type not in _NEVER_FAIL:
        return False
    text = any(value.dtype == "string" for value in operands(operation))
    if text and operation.op_type == "Cast":
        return False
    whole = any(value.dtype.startswith(("int", "uint")) for value in operands(operation))
    return not (whole and operation.op_type in WHOLE_FAIL)
