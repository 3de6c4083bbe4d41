"""Run-time checks that arrays with one row per time step have as many rows as the run has steps.

                                        ok = Shape(x)[0] == steps
    y = f(x, steps)             ->      x' = x if ok else fail "'x' must have a row for each step"
                                        y = f(x', steps)

Preserves: results bit for bit. Runs by this library do not need the check, because the library checks inputs
before a run.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Program, Value
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.build_helpers import scalar


def check_row_counts(program: Program, rows: Mapping[str, str], steps: str) -> Program:
    """Add run-time assertions that arrays over time have one row for each step of a run.

    Args:
        program: A program that computes all steps.
        rows: Inputs that have one row per step, with the name that the error message shows.
        steps: The input that holds the number of steps.
    """
    b = Builder.for_rewrite_of(program)
    values_by_name = {
        program_input.value.name: program_input.value for program_input in program.inputs
    }
    substitutions: dict[Value, Value] = {}
    for name, shown_name in rows.items():
        rows_input = values_by_name[name]
        with b.at(rows_input.where, name):
            row_count = b.op("Gather", b.op("Shape", rows_input), scalar(b, 0, "int64"), axis=0)
            has_enough_rows = b.op("Equal", row_count, values_by_name[steps])
            substitutions[rows_input] = b.guard(
                rows_input, has_enough_rows, f"'{shown_name}' must have a row for each of the steps"
            )
    for operation in program.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
        else:
            b.ops.append(substitute(operation, substitutions))
    return replace(program, ops=tuple(b.ops))
