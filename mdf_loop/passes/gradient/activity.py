"""What can change, and what a choice may leave out."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.ir import If, Loop, Op, Operation, Value, reads, results


def selected_values(ops: Iterable[Operation]) -> set[Value]:
    """All values that go into one of both sides of a `Where`, at any depth."""
    chosen: set[Value] = set()
    size = -1
    listed = tuple(ops)
    while size < len(chosen):
        size = len(chosen)
        _scope(listed, chosen)
    return chosen


def _scope(ops: tuple[Operation, ...], chosen: set[Value]) -> None:
    """What goes into values that are chosen, last to first."""
    for operation in reversed(ops):
        if isinstance(operation, Op) and operation.op_type == "Where":
            chosen.update(value for value in operation.inputs[1:] if value is not None)
        elif isinstance(operation, Loop):
            _loop(operation, chosen)
        elif isinstance(operation, If):
            for branch in (operation.then, operation.otherwise):
                pairs = zip(branch.leaves, operation.outputs, strict=True)
                chosen.update(leaf for leaf, output in pairs if output in chosen)
                _scope(branch.ops, chosen)
        elif not chosen.isdisjoint(results(operation)):
            chosen.update(reads(operation))


def _loop(loop: Loop, chosen: set[Value]) -> None:
    for c in loop.carried:
        if chosen & {c.final, c.enter}:
            chosen.add(c.leave)
    chosen.update(r.row for r in loop.recorded if r.stack in chosen)
    _scope(loop.ops, chosen)
    chosen.update(c.initial for c in loop.carried if c.enter in chosen)
    chosen.update(s.rows for s in loop.scanned if s.row in chosen)
