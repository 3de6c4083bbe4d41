"""Computation of the outputs that are still available after a loop was stopped early.

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


class IncompleteResults(Struct):
    """Arrays with missing rows, and errors of failed outputs, after a loop was stopped early.

    Attributes:
        shortened_stacks: Stacks with fewer rows than the program declares.
        errors: Errors of outputs that failed to compute from the available values.
    """

    shortened_stacks: set[Value] = field(default_factory=set)
    errors: list[LoopError] = field(default_factory=list)

    def record_stopped_loop(self, loop: Loop, loop_results: Mapping[Value, Data]) -> None:
        """Add recorded arrays that a stopped loop left with too few rows to `shortened_stacks`."""
        recorded_stacks = (
            recorded_value.stack
            for recorded_value in loop.recorded
            if recorded_value.stack in loop_results
        )
        self.shortened_stacks.update(
            stack
            for stack in recorded_stacks
            if _has_fixed_length(stack) and stack.shape != loop_results[stack].shape
        )

    def outputs(self, program: Program) -> tuple[Output, ...]:
        """Return the outputs of a program that do not depend on arrays with missing rows."""
        unavailable_values: set[Value] = set()
        for operation in program.ops:
            if not (self.shortened_stacks | unavailable_values).isdisjoint(reads(operation)):
                unavailable_values.update(results(operation))
        return tuple(output for output in program.outputs if output.value not in unavailable_values)


def _has_fixed_length(rows: Value) -> bool:
    """Return True if the number of rows of an array is declared in the program."""
    return bool(rows.shape) and isinstance((rows.shape or ("",))[0], int)


def compute_available_values(
    program: Program,
    known_values: Mapping[Value, Data],
    incomplete: IncompleteResults,
    session_of: Callable[[Program], Runnable],
) -> dict[Value, Data]:
    """Compute the outputs of a program that are still available after a loop was stopped.

    The program is the part of a model that follows the loop.

    All outputs are computed together, or one by one if the joint run fails.
    """
    available_outputs = incomplete.outputs(program)
    joint_program = _select_outputs(program, available_outputs)
    if available_outputs and _input_values(joint_program) <= known_values.keys():
        try:
            return _compute_outputs(session_of(joint_program), known_values)
        except LoopError as error:
            incomplete.errors.append(error)
    computed_values: dict[Value, Data] = {}
    for output in available_outputs if len(available_outputs) > 1 else ():
        single_output_program = _select_outputs(program, (output,))
        if _input_values(single_output_program) <= known_values.keys():
            try:
                computed_values |= _compute_outputs(session_of(single_output_program), known_values)
            except LoopError as error:
                incomplete.errors.append(error)
    return computed_values


def _compute_outputs(session: Runnable, known_values: Mapping[Value, Data]) -> dict[Value, Data]:
    program = session.program
    outputs = session.run({value.name: known_values[value] for value in _input_values(program)})
    return {output.value: outputs[output.name] for output in program.outputs}


def _input_values(program: Program) -> set[Value]:
    return {program_input.value for program_input in program.inputs}


def _select_outputs(program: Program, outputs: tuple[Output, ...]) -> Program:
    """Return a program that computes only some outputs, without unnecessary inputs."""
    pruned_program = eliminate_dead_code(replace(program, outputs=outputs))
    read_values = {output.value for output in outputs} | {
        value for op in pruned_program.ops for value in reads(op)
    }
    return replace(
        pruned_program,
        inputs=tuple(
            program_input
            for program_input in pruned_program.inputs
            if program_input.value in read_values
        ),
    )
