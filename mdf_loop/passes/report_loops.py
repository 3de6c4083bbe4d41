"""Program outputs for the iteration count and last condition of each outermost loop.

    output y   ->   output y; output node.loop.iterations; output node.loop.condition

The condition is reported only for a loop with a condition and a limit. Without a limit, the last condition is
always false. A node that runs several times has several copies of its loop in the program. The last copy is
reported, because this copy computes the outputs of the node. A loop in a branch is not reported, because it
may not run. Preserves: results bit for bit.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import If, Loop, Output, OutputRole, Program, Value, loops, walk
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code

_REPORT_ROLES = (OutputRole.ITERATIONS, OutputRole.CONDITION)


def report_loops(program: Program) -> Program:
    """Add outputs for the iteration count and last condition of each outermost loop."""
    report_outputs: dict[tuple[OutputRole, str], Output] = {}
    conditionals = (op for op in program.ops if isinstance(op, If))
    names_in_branches = {op.name for op in walk(conditionals) if isinstance(op, Loop)}
    for loop in loops(program):
        if loop.name in names_in_branches:
            continue
        if loop.iteration_count is not None:
            _add_report(
                report_outputs,
                OutputRole.ITERATIONS,
                f"{loop.name}.iterations",
                loop,
                loop.iteration_count,
            )
        has_iteration_limit = loop.trip_count is not None or loop.max_iterations is not None
        if loop.last_condition is not None and loop.condition is not None and has_iteration_limit:
            _add_report(
                report_outputs,
                OutputRole.CONDITION,
                f"{loop.name}.condition",
                loop,
                loop.last_condition,
            )
    return (
        replace(program, outputs=(*program.outputs, *report_outputs.values()))
        if report_outputs
        else program
    )


def report_needed_loops(program: Program) -> Program:
    """Add outputs for the iteration count and last condition of each loop that outputs need."""
    needed_loop_names = {loop.name for loop in loops(eliminate_dead_code(program))}
    reporting_program = report_loops(program)
    needed_outputs = (
        output
        for output in reporting_program.outputs
        if output.role not in _REPORT_ROLES or output.owner_name in needed_loop_names
    )
    return replace(reporting_program, outputs=tuple(needed_outputs))


def _add_report(
    report_outputs: dict[tuple[OutputRole, str], Output],
    role: OutputRole,
    name: str,
    loop: Loop,
    value: Value,
) -> None:
    report_outputs[role, loop.name] = Output(name, value, role, loop.name)
