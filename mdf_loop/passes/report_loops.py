"""Make iterations and last condition of each outermost loop outputs of the program.

    output y   ->   output y; output node.loop.iterations; output node.loop.condition

The condition is asked for only where it tells something: a loop with a condition and a limit.
Keeps: results bit for bit.
"""

from __future__ import annotations

from dataclasses import replace

from mdf_loop.ir import Program, Value, loops


def report_loops(program: Program) -> Program:
    """The program with what `Results.loops` needs as further outputs."""
    reports: list[tuple[str, Value]] = []
    for loop in loops(program):
        if loop.count is not None:
            reports.append((f"{loop.name}.iterations", loop.count))
        has_limit = loop.trip_count is not None or loop.bound is not None
        if loop.last_condition is not None and loop.condition is not None and has_limit:
            reports.append((f"{loop.name}.condition", loop.last_condition))
    return replace(program, outputs=(*program.outputs, *reports)) if reports else program
