"""Error messages that list all operations of a program without a derivative."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from mdf_loop.errors import Finding, LoopError, UnsupportedError, raise_findings
from mdf_loop.ir import Op, Program, Value, walk
from mdf_loop.ops.derivatives.rule import is_float
from mdf_loop.ops.derivatives.sweep import rule_of


@contextmanager
def report_all_underivable(program: Program, active: Collection[Value]) -> Iterator[None]:
    """Extend an error about an operation without a derivative by all other such operations.

    `active` holds the values that depend on the inputs to differentiate by.
    """
    try:
        yield
    except UnsupportedError as error:
        further_findings = (
            finding
            for finding in _missing_derivatives(program, active)
            if finding not in error.findings
        )
        raise_findings((*error.findings, *further_findings))


def _missing_derivatives(program: Program, active: Collection[Value]) -> Iterator[Finding]:
    reported_ops: set[tuple[str, str]] = set()
    for op in walk(program.ops):
        if not isinstance(op, Op) or (op.op_type, op.where) in reported_ops:
            continue
        active_flags = [
            any(is_float(value) and value in active for value in values)
            for values in (op.inputs, op.outputs)
        ]
        if not all(active_flags):
            continue
        try:
            rule_of(op)
        except LoopError as error:
            reported_ops.add((op.op_type, op.where))
            yield from error.findings
