"""Inputs with a row for each step are checked to have as many: the run of a file fails otherwise.

                                        ok = Shape(x)[0] == steps
    y = f(x, steps)             ->      x' = x if ok else fail "'x' must have a row for each step"
                                        y = f(x', steps)

Results stay the same bit for bit. What this library runs itself it has checked before.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Program, Value
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.words import scalar


def check_row_counts(program: Program, rows: Mapping[str, str], steps: str) -> Program:
    """The program that fails where an input has not as many rows as there are steps.

    Args:
        program: one that computes all steps.
        rows: the inputs that have a row for each, and what a modeller calls them.
        steps: the input that says how many steps there are.
    """
    b = Builder.resume(program)
    values = {entry.value.name: entry.value for entry in program.inputs}
    swaps: dict[Value, Value] = {}
    for name, shown in rows.items():
        x = values[name]
        with b.at(x.where, name):
            many = b.op("Gather", b.op("Shape", x), scalar(b, 0, "int64"), axis=0)
            ok = b.op("Equal", many, values[steps])
            swaps[x] = b.guard(x, ok, f"'{shown}' must have a row for each of the steps")
    for operation in program.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
        else:
            b.ops.append(substitute(operation, swaps))
    return replace(program, ops=tuple(b.ops))
