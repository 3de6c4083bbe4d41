"""Analysis of the values that a selection (`Where`) may discard."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.ir import If, Loop, Op, Operation, Value, reads, results


def selected_values(ops: Iterable[Operation]) -> set[Value]:
    """Return all values that one side of a `Where` depends on, also in bodies at any depth."""
    selected: set[Value] = set()
    selected_count = -1
    all_ops = tuple(ops)
    while selected_count < len(selected):
        selected_count = len(selected)
        _add_selected(all_ops, selected)
    return selected


def _add_selected(ops: tuple[Operation, ...], selected: set[Value]) -> None:
    """Add all values that selected values depend on to the set `selected`."""
    for operation in reversed(ops):
        if isinstance(operation, Op) and operation.op_type == "Where":
            selected.update(value for value in operation.inputs[1:] if value is not None)
        elif isinstance(operation, Loop):
            _add_selected_of_loop(operation, selected)
        elif isinstance(operation, If):
            for branch in (operation.then, operation.otherwise):
                pairs = zip(branch.leaves, operation.outputs, strict=True)
                selected.update(leaf for leaf, output in pairs if output in selected)
                _add_selected(branch.ops, selected)
        elif not selected.isdisjoint(results(operation)):
            selected.update(reads(operation))


def _add_selected_of_loop(loop: Loop, selected: set[Value]) -> None:
    for c in loop.carried:
        if selected & {c.final, c.enter}:
            selected.add(c.leave)
    selected.update(r.row for r in loop.recorded if r.stack in selected)
    _add_selected(loop.ops, selected)
    selected.update(c.initial for c in loop.carried if c.enter in selected)
    selected.update(s.rows for s in loop.scanned if s.row in selected)
