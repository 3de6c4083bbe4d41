"""Make iterations and last condition of each outermost loop outputs of the program.

    output y   ->   output y; output node.loop.iterations; output node.loop.condition

The condition is asked for only where it tells something: a loop with a condition and a limit.
Of a loop that stands in the program several times, since its node runs several times, the last
is reported, as it is the last that makes the node's outputs. A loop that stands in a branch is
not: whether it runs is known only then.
Keeps: results bit for bit.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import If, Loop, Output, OutputRole, Program, Value, loops, walk
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code

_REPORTS = (OutputRole.ITERATIONS, OutputRole.CONDITION)


def report_loops(program: Program) -> Program:
    """The program with what `Results.loops` needs as further outputs."""
    reports: dict[tuple[OutputRole, str], Output] = {}
    branches = (op for op in program.ops if isinstance(op, If))
    chosen = {op.name for op in walk(branches) if isinstance(op, Loop)}
    for loop in loops(program):
        if loop.name in chosen:
            continue
        if loop.count is not None:
            _report(reports, OutputRole.ITERATIONS, f"{loop.name}.iterations", loop, loop.count)
        has_limit = loop.trip_count is not None or loop.bound is not None
        if loop.last_condition is not None and loop.condition is not None and has_limit:
            _report(
                reports, OutputRole.CONDITION, f"{loop.name}.condition", loop, loop.last_condition
            )
    return replace(program, outputs=(*program.outputs, *reports.values())) if reports else program


def report_needed_loops(program: Program) -> Program:
    """The same, of loops that are needed for other outputs, too: none is computed for its report."""
    needed = {loop.name for loop in loops(eliminate_dead_code(program))}
    made = report_loops(program)
    outputs = (o for o in made.outputs if o.role not in _REPORTS or o.of in needed)
    return replace(made, outputs=tuple(outputs))


def _report(
    reports: dict[tuple[OutputRole, str], Output],
    role: OutputRole,
    name: str,
    loop: Loop,
    value: Value,
) -> None:
    reports[role, loop.name] = Output(name, value, role, loop.name)
