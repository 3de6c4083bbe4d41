"""All that has no derivative, where something has none: told at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from mdf_loop.errors import Finding, LoopError, UnsupportedError, raise_findings
from mdf_loop.ir import Op, Program, Value, walk
from mdf_loop.ops.derivatives.rule import is_float
from mdf_loop.ops.derivatives.sweep import rule_of


@contextmanager
def report_all_underivable(program: Program, active: Collection[Value]) -> Iterator[None]:
    """Let an error about one operation without a derivative name all of a program.

    `active` is what depends on that by which is differentiated.
    """
    try:
        yield
    except UnsupportedError as error:
        others = (finding for finding in _without(program, active) if finding not in error.findings)
        raise_findings((*error.findings, *others))


def _without(program: Program, active: Collection[Value]) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for op in walk(program.ops):
        if not isinstance(op, Op) or (op.op_type, op.where) in told:
            continue
        changes = [any(is_float(v) and v in active for v in vs) for vs in (op.inputs, op.outputs)]
        if not all(changes):
            continue
        try:
            rule_of(op)
        except LoopError as error:
            told.add((op.op_type, op.where))
            yield from error.findings
