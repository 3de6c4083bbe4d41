"""A program cut at its outermost loops, so that a loop can be run a few iterations at a time.

    %b = Mul(%a, %a)                    straight part: %b = Mul(%a, %a)
    %c = Neg(%a)
    loop %i < %n carry %x from %b  ->   loop segment:    loop %k < %most carry %x from %x_before
    %z = Add(%x_final, %c)              straight part: %c = Neg(%a); %z = Add(%x_final, %c)

Every segment is a program of its own, whose inputs are values made before it and whose outputs are
named as values are. Constants are in every segment that reads them.

Keeps: results bit for bit, names and places. ONNX Runtime makes one operation of several where
nothing else reads what is between them, and that one may round otherwise (a product and a sum of
float32). So an operation stands in the piece of the first one that reads it: what is between two
segments is read, or given, before the cut too.

A loop stays whole, inside of a straight part, where it carries and records nothing and has no
condition, where it carries a sequence or an optional value, or where one would have to go from
segment to segment: only arrays can be kept for later.
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
    """What lies between two loops."""

    program: Program


Segment: TypeAlias = StraightSegment | LoopSegment


def split_into_segments(program: Program, watch: bool = False) -> tuple[Segment, ...] | None:
    """The program as a sequence of straight parts and loops; None if no loop can be cut out.

    Args:
        program: what ONNX Runtime can run: the last pass was made.
        watch: also give the floats of each iteration: carried ones after it, recorded ones. Of
            those whose shape is not known a number is given that is nan where they are not finite.
    """
    cuts = tuple(loop for loop in loops(program) if _can_be_cut(loop))
    while cuts:
        places = _places(program, cuts)
        kept = _without_crossings(program, cuts, places)
        if kept == cuts:
            return _Cutter(program, cuts, places, watch).segments()
        cuts = kept
    return None


def _can_be_cut(loop: Loop) -> bool:
    runs = bool(loop.carried or loop.recorded or loop.condition)
    return runs and all(is_tensor(carried.enter.dtype) for carried in loop.carried)


# --- where operations stand -----------------------------------------------------------------------


def _places(program: Program, cuts: tuple[Loop, ...]) -> Mapping[Operation, int]:
    """For each operation the number of the straight part that it stands in; 0 is before all loops.

    The loop with the number k lies after part k. An operation stands in the part of the first one
    that reads it; what the program gives is made as soon as it can be.
    """
    earliest = _earliest(program, cuts)
    given = [output.value for output in program.outputs if is_tensor(output.value.dtype)]
    wanted = {value: earliest.get(value, 0) for value in given}
    places: dict[Operation, int] = {}
    for operation in reversed(program.ops):
        if isinstance(operation, Loop) and operation in cuts:
            place = cuts.index(operation)
        else:
            readers = (wanted.get(value, len(cuts)) for value in results(operation))
            place = min(readers, default=len(cuts))
        places[operation] = place
        for value in reads(operation):
            wanted[value] = min(place, wanted.get(value, place))
    return places


def _earliest(program: Program, cuts: tuple[Loop, ...]) -> Mapping[Value, int]:
    """For each value the first part in which it is known."""
    earliest: dict[Value, int] = {}
    for operation in program.ops:
        if isinstance(operation, Loop) and operation in cuts:
            part = cuts.index(operation) + 1
        else:
            part = max((earliest.get(value, 0) for value in reads(operation)), default=0)
        earliest |= dict.fromkeys(results(operation), part)
    return earliest


def _without_crossings(
    program: Program, cuts: tuple[Loop, ...], places: Mapping[Operation, int]
) -> tuple[Loop, ...]:
    """The loops over which nothing has to be handed that is no array."""
    made = {v: operation for operation in program.ops for v in results(operation)}
    last_read = {output.value: len(cuts) for output in program.outputs}
    for operation in program.ops:
        after = 1 if operation in cuts else 0  # what a loop reads goes into it
        for value in reads(operation):
            last_read[value] = max(last_read.get(value, 0), places[operation] + after)
    spans = [
        range(places[made[value]], last)
        for value, last in last_read.items()
        if value in made and not is_tensor(value.dtype)
    ]
    return tuple(loop for k, loop in enumerate(cuts) if not any(k in span for span in spans))


# --- the segments -----------------------------------------------------------------------------------


class _Cutter:
    """Makes the pieces of one program, from the last to the first."""

    def __init__(
        self,
        program: Program,
        cuts: tuple[Loop, ...],
        places: Mapping[Operation, int],
        watch: bool,
    ) -> None:
        self.program = program
        self.cuts = cuts
        self.places = places
        self.watch = watch
        self.b = Builder.resume(program)
        self.constants = {op.value: op for op in program.ops if isinstance(op, Constant)}
        self.entries = {entry.value: entry for entry in program.inputs}

    def segments(self) -> tuple[Segment, ...]:
        given = self.entries.keys() | self.constants.keys()
        outputs = dict.fromkeys(output.value for output in self.program.outputs)
        needed = set(outputs)
        made: list[Segment | None] = []
        wanted = [value for value in outputs if value in given]  # copied by the last part
        for part in reversed(self._parts()):
            if isinstance(part, Loop):
                made.append(self._loop(part))
                needed.update(reads(part))
                continue
            wanted += [v for operation in part for v in results(operation) if v in needed]
            made.append(self._straight(part, wanted))
            needed.update(value for operation in part for value in reads(operation))
            wanted = []
        return tuple(segment for segment in reversed(made) if segment is not None)

    def _parts(self) -> list[Loop | list[Operation]]:
        straight: list[list[Operation]] = [[] for _ in range(len(self.cuts) + 1)]
        for operation in self.program.ops:
            if operation not in self.cuts and not isinstance(operation, Constant):
                straight[self.places[operation]].append(operation)
        parts: list[Loop | list[Operation]] = [straight[0]]
        for loop, after in zip(self.cuts, straight[1:], strict=True):
            parts += [loop, after]
        return parts

    def _loop(self, loop: Loop) -> LoopSegment:
        return loop_segment(self.b, self._given(captures(loop)), loop, self.watch)

    def _straight(self, ops: list[Operation], wanted: list[Value]) -> StraightSegment | None:
        if not wanted:
            return None
        inside = {value for operation in ops for value in results(operation)}
        read = (*(value for operation in ops for value in reads(operation)), *wanted)
        given = self._given(value for value in read if value not in inside)
        outputs = tuple(Output(value.name, value) for value in wanted)
        return StraightSegment(replace(given, ops=(*given.ops, *ops), outputs=outputs))

    def _given(self, read: Iterable[Value]) -> Program:
        """What a segment needs from outside: a program of constants and inputs."""
        needed = dict.fromkeys(read)
        constants = (constant for value, constant in self.constants.items() if value in needed)
        others = (value for value in needed if value not in self.constants)
        inputs = tuple(self.entries.get(value) or Input(value) for value in others)
        return replace(self.program, inputs=inputs, ops=tuple(constants), outputs=())
