"""Evaluate the straight segment after a loop that was stopped early.

A program can depend on the number of rows that a loop records, if the trip count is constant: the mean of
50 rows is their sum divided by 50. With fewer rows, the segment would fail or silently compute wrong
numbers. Operations that read incomplete rows are therefore not computed. The recorded rows are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.errors import LoopError
from mdf_loop.ir import Data, Loop, Output, Program, Value, reads, results
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.run.backend import Runnable


class Incomplete(Struct):
    """Stacks with missing rows and errors of outputs, after a loop was stopped.

    Attributes:
        short: Stacks with fewer rows than the program declares.
        errors: Errors of outputs that failed to compute from the available values.
    """

    short: set[Value] = field(default_factory=set)
    errors: list[LoopError] = field(default_factory=list)

    def record_stopped_loop(self, loop: Loop, computed: Mapping[Value, Data]) -> None:
        """Record the stacks of a stopped loop that have fewer rows than declared."""
        stacks = (recorded.stack for recorded in loop.recorded if recorded.stack in computed)
        self.short.update(
            v for v in stacks if _has_fixed_length(v) and v.shape != computed[v].shape
        )

    def outputs(self, program: Program) -> tuple[Output, ...]:
        """Return the outputs of a straight segment that do not depend on missing rows."""
        unavailable: set[Value] = set()
        for operation in program.ops:
            if not (self.short | unavailable).isdisjoint(reads(operation)):
                unavailable.update(results(operation))
        return tuple(output for output in program.outputs if output.value not in unavailable)


def _has_fixed_length(rows: Value) -> bool:
    """Return True if the program states a fixed number of rows."""
    return bool(rows.shape) and isinstance((rows.shape or ("",))[0], int)


def compute_available_values(
    program: Program,
    known_values: Mapping[Value, Data],
    incomplete: Incomplete,
    session_of: Callable[[Program], Runnable],
) -> dict[Value, Data]:
    """Return the values of a straight segment that can be computed after a loop was stopped.

    All outputs are computed together, or one by one if the joint run fails.
    """
    outputs = incomplete.outputs(program)
    joint_program = _select_outputs(program, outputs)
    if outputs and _input_values(joint_program) <= known_values.keys():
        try:
            return _compute_outputs(session_of(joint_program), known_values)
        except LoopError as error:
            incomplete.errors.append(error)
    computed: dict[Value, Data] = {}
    for output in outputs if len(outputs) > 1 else ():
        single_program = _select_outputs(program, (output,))
        if _input_values(single_program) <= known_values.keys():
            try:
                computed |= _compute_outputs(session_of(single_program), known_values)
            except LoopError as error:
                incomplete.errors.append(error)
    return computed


def _compute_outputs(session: Runnable, known: Mapping[Value, Data]) -> dict[Value, Data]:
    program = session.program
    outputs = session.run({value.name: known[value] for value in _input_values(program)})
    return {output.value: outputs[output.name] for output in program.outputs}


def _input_values(program: Program) -> set[Value]:
    return {entry.value for entry in program.inputs}


def _select_outputs(program: Program, outputs: tuple[Output, ...]) -> Program:
    """Return the program with only the given outputs and the inputs that these outputs need."""
    pruned = eliminate_dead_code(replace(program, outputs=outputs))
    read_values = {output.value for output in outputs} | {v for op in pruned.ops for v in reads(op)}
    return replace(
        pruned, inputs=tuple(entry for entry in pruned.inputs if entry.value in read_values)
    )
