"""Drop what no output needs: operations, carried values, recorded outputs, whole loops.

    loop: carry x, u; record y  (only x is read)   ->   loop: carry x

Keeps: results bit for bit. ONNX Runtime runs dead operations of a body and stacks dead records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mdf_loop.ir import Constant, Loop, Operation, Program, Value, captures, operands, results


def drop_unused(program: Program) -> Program:
    """The program without what no output needs."""
    ops = _live_ops(program.ops, {value for _, value in program.outputs})
    return program if ops == program.ops else replace(program, ops=ops)


def _live_ops(ops: tuple[Operation, ...], needed: Iterable[Value]) -> tuple[Operation, ...]:
    live = set(needed)
    kept: list[Operation] = []
    for operation in reversed(ops):
        if not live.intersection(results(operation)):
            continue
        if isinstance(operation, Loop):
            operation = _live_loop(operation, live)
            live.update(captures(operation))
        live.update(operands(operation))
        kept.append(operation)
    return tuple(reversed(kept))


def _live_loop(loop: Loop, live: set[Value]) -> Loop:
    """The loop with only the results that are read outside and what they need inside."""
    last_condition = loop.last_condition if loop.last_condition in live else None
    keeps_condition = loop.condition is not None or last_condition is not None
    recorded = tuple(r for r in loop.recorded if r.stack in live)
    wanted = {r.row for r in recorded}
    if keeps_condition and loop.condition_out is not None:
        wanted.add(loop.condition_out)
    carried = {c for c in loop.carried if c.final in live}
    while True:
        ops = _live_ops(loop.ops, wanted | {c.leave for c in carried})
        read = {value for op in ops for value in _reads(op)} | wanted | {c.leave for c in carried}
        more = {c for c in loop.carried if c.enter in read} - carried
        if not more:
            break
        carried |= more
    smaller = replace(
        loop,
        ops=ops,
        carried=tuple(c for c in loop.carried if c in carried),
        recorded=recorded,
        condition_out=loop.condition_out if keeps_condition else None,
        count=loop.count if loop.count in live else None,
        last_condition=last_condition,
    )
    return loop if _same(loop, smaller) else smaller


def _reads(operation: Operation) -> tuple[Value, ...]:
    inner = captures(operation) if isinstance(operation, Loop) else ()
    return () if isinstance(operation, Constant) else (*operands(operation), *inner)


def _same(left: Loop, right: Loop) -> bool:
    fields = ("ops", "carried", "recorded", "condition_out", "count", "last_condition")
    return all(getattr(left, name) == getattr(right, name) for name in fields)
