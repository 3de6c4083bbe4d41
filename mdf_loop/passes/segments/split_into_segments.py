"""Splitting of a program at its outermost loops, so that loops run a few iterations at a time.

    %b = Mul(%a, %a)                    straight part: %b = Mul(%a, %a)
    %c = Neg(%a)
    loop %i < %n carry %x from %b  ->   loop segment:    loop %k < %most carry %x from %x_before
    %z = Add(%x_final, %c)              straight part: %c = Neg(%a); %z = Add(%x_final, %c)

Each segment is a program. Its inputs are values of earlier segments, and its outputs have the names of
their values. Each segment has the constants that it reads.

Preserves: results bit for bit, names and places. ONNX Runtime fuses operations if nothing else reads the
value between them, and a fused operation may round differently (a product and a sum of float32). So an
operation is in the segment of its first reader. A value that passes between two segments is then read by
several operations, or is an output, in the original program too.

A loop is not split off, and stays inside of a straight part, in three cases:

- The loop carries and records nothing, and has no condition.
- The loop carries a sequence or an optional value.
- A sequence or an optional value would have to pass between segments, where only arrays can be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Constant,
    Input,
    Loop,
    Operation,
    Output,
    Program,
    Value,
    captures,
    loops,
    reads,
    results,
)
from mdf_loop.ir.types import is_tensor
from mdf_loop.passes.segments.loop_segment import LoopSegment, loop_segment


class StraightSegment(Struct, frozen=True, eq=False):
    """Program of the operations between two loops of a larger program."""

    program: Program


Segment: TypeAlias = StraightSegment | LoopSegment


def split_into_segments(program: Program, watch: bool = False) -> tuple[Segment, ...] | None:
    """Split a program at its outermost loops into programs that run one after the other.

    Return None if no loop can be split off.

    Args:
        program: A program that ONNX Runtime can run, after all passes.
        watch: If True, segments also return the carried floats after each iteration, and the recorded floats.
            A value of unknown shape is represented by a number that is NaN if an element is not finite.
    """
    separable_loops = tuple(loop for loop in loops(program) if _can_be_cut(loop))
    while separable_loops:
        part_numbers = _assign_parts(program, separable_loops)
        split_loops = _loops_without_crossings(program, separable_loops, part_numbers)
        if split_loops == separable_loops:
            return _ProgramSplitter(program, separable_loops, part_numbers, watch).build_segments()
        separable_loops = split_loops
    return None


def _can_be_cut(loop: Loop) -> bool:
    has_effect = bool(loop.carried or loop.recorded or loop.condition)
    return has_effect and all(is_tensor(carried.body_input.dtype) for carried in loop.carried)


# --- assignment to segments ----------------------------------------------------------------------


def _assign_parts(program: Program, cut_loops: tuple[Loop, ...]) -> Mapping[Operation, int]:
    """Return, for each operation, the index of the loop-free part that runs the operation.

    Part 0 is before all loops.

    Loop k follows part k. An operation is in the part of its first reader.
    The outputs of the program are computed as early as possible.
    """
    earliest_part_numbers = _earliest_parts(program, cut_loops)
    output_values = [output.value for output in program.outputs if is_tensor(output.value.dtype)]
    latest_part_numbers = {value: earliest_part_numbers.get(value, 0) for value in output_values}
    part_numbers: dict[Operation, int] = {}
    for operation in reversed(program.ops):
        if isinstance(operation, Loop) and operation in cut_loops:
            part_number = cut_loops.index(operation)
        else:
            reader_part_numbers = (
                latest_part_numbers.get(value, len(cut_loops)) for value in results(operation)
            )
            part_number = min(reader_part_numbers, default=len(cut_loops))
        part_numbers[operation] = part_number
        for value in reads(operation):
            latest_part_numbers[value] = min(
                part_number, latest_part_numbers.get(value, part_number)
            )
    return part_numbers


def _earliest_parts(program: Program, cut_loops: tuple[Loop, ...]) -> Mapping[Value, int]:
    """Return, for each value, the index of the first loop-free part that can compute the value."""
    earliest_part_numbers: dict[Value, int] = {}
    for operation in program.ops:
        if isinstance(operation, Loop) and operation in cut_loops:
            part_number = cut_loops.index(operation) + 1
        else:
            part_number = max(
                (earliest_part_numbers.get(value, 0) for value in reads(operation)), default=0
            )
        earliest_part_numbers |= dict.fromkeys(results(operation), part_number)
    return earliest_part_numbers


def _loops_without_crossings(
    program: Program, cut_loops: tuple[Loop, ...], part_numbers: Mapping[Operation, int]
) -> tuple[Loop, ...]:
    """Return the loops across which only arrays pass, so that a program can be split there."""
    producers = {value: operation for operation in program.ops for value in results(operation)}
    last_use_parts = {output.value: len(cut_loops) for output in program.outputs}
    for operation in program.ops:
        part_offset = 1 if operation in cut_loops else 0  # A loop reads values after its part.
        for value in reads(operation):
            last_use_parts[value] = max(
                last_use_parts.get(value, 0), part_numbers[operation] + part_offset
            )
    nonarray_live_ranges = [
        range(part_numbers[producers[value]], last_part)
        for value, last_part in last_use_parts.items()
        if value in producers and not is_tensor(value.dtype)
    ]
    return tuple(
        loop
        for k, loop in enumerate(cut_loops)
        if not any(k in live_range for live_range in nonarray_live_ranges)
    )


# --- the segments -----------------------------------------------------------------------------------


class _ProgramSplitter:
    """Builder of the programs that result from splitting a program at its loops."""

    def __init__(
        self,
        program: Program,
        cut_loops: tuple[Loop, ...],
        part_numbers: Mapping[Operation, int],
        watch: bool,
    ) -> None:
        self.program = program
        self.cut_loops = cut_loops
        self.part_numbers = part_numbers
        self.watches_floats = watch
        self.b = Builder.for_rewrite_of(program)
        self.constants = {op.value: op for op in program.ops if isinstance(op, Constant)}
        self.inputs_by_value = {
            program_input.value: program_input for program_input in program.inputs
        }

    def build_segments(self) -> tuple[Segment, ...]:
        available_values = self.inputs_by_value.keys() | self.constants.keys()
        output_values = dict.fromkeys(output.value for output in self.program.outputs)
        needed_values = set(output_values)
        segments: list[Segment | None] = []
        # The last part copies these values.
        part_outputs = [value for value in output_values if value in available_values]
        for program_part in reversed(self._program_parts()):
            if isinstance(program_part, Loop):
                segments.append(self._loop_segment(program_part))
                needed_values.update(reads(program_part))
                continue
            part_outputs += [
                value
                for operation in program_part
                for value in results(operation)
                if value in needed_values
            ]
            segments.append(self._straight_segment(program_part, part_outputs))
            needed_values.update(value for operation in program_part for value in reads(operation))
            part_outputs = []
        return tuple(segment for segment in reversed(segments) if segment is not None)

    def _program_parts(self) -> list[Loop | list[Operation]]:
        straight_line_parts: list[list[Operation]] = [[] for _ in range(len(self.cut_loops) + 1)]
        for operation in self.program.ops:
            if operation not in self.cut_loops and not isinstance(operation, Constant):
                straight_line_parts[self.part_numbers[operation]].append(operation)
        program_parts: list[Loop | list[Operation]] = [straight_line_parts[0]]
        for loop, part_after_loop in zip(self.cut_loops, straight_line_parts[1:], strict=True):
            program_parts += [loop, part_after_loop]
        return program_parts

    def _loop_segment(self, loop: Loop) -> LoopSegment:
        return loop_segment(
            self.b, self._inputs_and_constants(captures(loop)), loop, self.watches_floats
        )

    def _straight_segment(
        self, ops: list[Operation], part_outputs: list[Value]
    ) -> StraightSegment | None:
        if not part_outputs:
            return None
        computed_values = {value for operation in ops for value in results(operation)}
        read_values = (*(value for operation in ops for value in reads(operation)), *part_outputs)
        input_program = self._inputs_and_constants(
            value for value in read_values if value not in computed_values
        )
        segment_outputs = tuple(Output(value.name, value) for value in part_outputs)
        return StraightSegment(
            replace(input_program, ops=(*input_program.ops, *ops), outputs=segment_outputs)
        )

    def _inputs_and_constants(self, read: Iterable[Value]) -> Program:
        """Return a program without operations, with the inputs and constants of a segment."""
        needed_values = dict.fromkeys(read)
        constant_ops = (
            constant for value, constant in self.constants.items() if value in needed_values
        )
        input_values = (value for value in needed_values if value not in self.constants)
        segment_inputs = tuple(
            self.inputs_by_value.get(value) or Input(value) for value in input_values
        )
        return replace(self.program, inputs=segment_inputs, ops=tuple(constant_ops), outputs=())
