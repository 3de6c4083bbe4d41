"""The code of a loop whose arrays read each other: steps outside, operations inside, arrays in memory.

    for t in range(trip):
        for k in range(n): a[k] = f(x[k], ...)      # operations element by element, fused
        b = a @ w; c = max(a)                       # operations on whole arrays, each by its own code
        rows[t] = b; x = a

An array that an operation makes has a place in the loop's memory; a single number is in a register.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from mdf_loop.ir import (
    Array,
    Carried,
    Loop,
    Op,
    Recorded,
    Scanned,
    Value,
    bodies,
    is_fixed,
    reads,
    walk,
)
from mdf_loop.native.loop_text import COUNT, FUNCTION, ITERATIONS, TAKEN, LoopText
from mdf_loop.native.shapes import Shapes, bare
from mdf_loop.native.space import LINE, Space
from mdf_loop.native.stacks import GrowingRows, InnerStack, KnownRows, LateRows, Stack
from mdf_loop.native.support import Form, extent_names
from mdf_loop.native.writer import Cells, FormWriter, Place
from mdf_loop.ops import row_of
from mdf_loop.ops.native import moves
from mdf_loop.ops.native.code import (
    BYTES,
    Cell,
    Code,
    Extent,
    Extents,
    Failure,
    NotNative,
    is_single,
)
from mdf_loop.ops.registry import title

MOST_BYTES = 1 << 26
"""The most memory that a loop has for arrays between its operations."""


def write_steps(form: Form, width: int) -> LoopText:
    """The code of such a loop.

    Raises:
        NotNative: it has an operation that has no code.
    """
    failures: list[Failure] = []
    writers = [Steps(form, width, failures)]
    parts = [writers[0].whole(f"define i64 @{FUNCTION}{TAKEN}")]
    if form.counts:
        writers.append(Steps(form, width, failures))
        parts.append(writers[1].whole(f"define i64 @{COUNT}{TAKEN}", counts=True))
    scratch = max(writer.space.scratch for writer in writers)
    if scratch > MOST_BYTES:
        raise NotNative("its arrays are large")
    declared = {name: line for each in writers for name, line in each.text.declared.items()}
    text = "\n".join((*declared.values(), *parts))
    rooms = max(writer.space.rooms for writer in writers)
    shapes, late = writers[0].outputs(), writers[0].late
    return LoopText(
        text,
        tuple(failures),
        shapes,
        form.counts,
        scratch=scratch + LINE,
        rooms=rooms,
        late=late,
    )


class Steps(FormWriter):
    """Writes the function.

    Attributes:
        wide: for as many numbers of an array as the processor computes at once.
        space: where arrays lie that are computed.
        shapes: how large they are.
        late: how many extents of outputs are computed.
    """

    def __init__(self, form: Form, width: int, failures: list[Failure]) -> None:
        super().__init__(form, failures)
        self.wide = Code(self.text, width, True)
        self.space = Space(self.one)
        self.late = 0
        self.shapes = Shapes(self.one)
        self._stacks: dict[Value, InnerStack] = {}
        self._outputs: dict[Value, tuple[int, ...]] = {}
        self._group: list[Op] = []
        self._readers = _readers(form.loop)

    def whole(self, head: str, *, counts: bool = False) -> str:
        """All of it; or what `counts` the iterations, and writes nothing."""
        code, form = self.one, self.form
        self.begin(counts=counts)
        names = {name: self.extent(name) for name in extent_names(form)}
        self.shapes.begin(names, form.inputs)
        self.space.begin(self.pointer("%out", len(form.outputs)))
        after = self.loop(form.loop, {v: self.as_cell(v, self.memory[v]) for v in form.arrays})
        for value, rows in form.outputs if not counts else ():
            if not rows:
                self._outputs[value] = self._final(value)
                pointer = self.bounds.array(self.stacks[value], value, self._outputs[value])
                self.give(value, after[value], pointer)
        made = code.put(f"load i64, ptr {self.iterations}")
        code.line(f"ret i64 {made}")
        self.space.end()
        return self.function(head)

    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each, when all is written."""
        return tuple(self._outputs[value] for value, _ in self.form.outputs)

    def _final(self, value: Value) -> tuple[int, ...]:
        """The shape of an output that is not rows: it is that of what the loop begins with."""
        told = self.shapes.told(value)
        assert told is not None
        return told

    # --- shapes -------------------------------------------------------------------------------

    def extents(self, value: Value) -> Extents:
        """The extents of an array."""
        return self.shapes.of(value)

    def shape(self, value: Value) -> tuple[int, ...]:
        """The extents of an array that is known before the loop runs."""
        return self.shapes.fixed(value)

    def alike(self, value: Value, other: Value) -> None:
        """Note that a value has the shape of another one, which it takes the place of."""
        self.shapes.take(value, self.extents(other))

    # --- memory -------------------------------------------------------------------------------

    def buffer(self, value: Value) -> str:
        """Memory for an array."""
        extents = (*self.extents(value), BYTES[value.dtype])
        known = [extent for extent in extents if isinstance(extent, int)]
        if len(known) == len(extents):
            return self.bounds.array(self.space.place(math.prod(known)), value)
        room = self.space.room()
        return self.bounds.array(self.space.grown(room, extents), value, room=room)

    def table(self, numbers: Sequence[int]) -> str:
        """Memory with known numbers, which all functions of a loop share: its name says what is in it."""
        text = ", ".join(f"i64 {number}" for number in numbers)
        name = f"@table_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        self.text.declared[name] = f"{name} = private constant [{len(numbers)} x i64] [{text}]"
        return self.bounds.array(name, Value("a table of places", "int64", (len(numbers),)))

    def give(self, value: Value, cell: Cell, pointer: str, place: str = "0") -> None:
        """Put a value into memory; of an array the `place`-th such."""
        if is_single(value):
            self.store(self.one, value.dtype, cell.registers[0], pointer, place)
            return
        size = self.shapes.bytes(value)
        if place != "0":
            pointer = self.far(pointer, self.times(place, size))
        self.copy(pointer, self.pointer_of(value, cell), size)

    def pointer_of(self, value: Value, cell: Cell) -> str:
        """Where an array is; one number in all places is put there."""
        if cell.pointer:
            return cell.pointer
        made = self.buffer(value)
        self.over(
            self.shapes.size(value), lambda code, k: self._fill(code, value.dtype, cell, made, k)
        )
        return made

    def _fill(self, code: Code, dtype: str, cell: Cell, pointer: str, place: str) -> None:
        self.store(code, dtype, code.spread(cell.registers[0], dtype), pointer, place)

    # --- loops over elements ------------------------------------------------------------------

    def over(self, count: Extent, write: Callable[[Code, str], None]) -> None:
        """Code for all elements: as many at once as can be, the rest one by one."""
        width = self.wide.width
        if isinstance(count, int):
            many: Extent = count // width * width
        else:
            many = self.one.put(f"and i64 {count}, -{width}")
        if many:
            self.repeat("0", str(many), width, lambda k: write(self.wide, k))
        if count != many:
            self.repeat(str(many), str(count), 1, lambda k: write(self.one, k))

    def times(self, number: str, factor: Extent) -> str:
        """A product of numbers of elements."""
        return self.one.put(f"mul i64 {number}, {factor}")

    def as_cell(self, value: Value, pointer: str) -> Cell:
        """What is in memory, a single number in a register."""
        if is_single(value):
            return Cell((self.load(self.one, value.dtype, pointer),), True)
        return Cell(pointer=self.bounds.part(pointer, value))

    # --- operations ---------------------------------------------------------------------------

    def op(self, op: Op, cells: Cells) -> None:
        """Put off what is computed element by element; write all else."""
        row, made = row_of(op.op_type), op.outputs[0]
        operands = [value for value in op.inputs if value is not None]
        if row.elementwise and row.native is not None and is_single(made):
            registers = [self.register(value, cells) for value in operands]
            cells[made] = Cell((row.native(self.one, op, *registers),), True)
        elif row.elementwise and row.native is not None:
            self._put_off(op, cells)
        else:
            self.flush(cells)
            cells[made] = self._whole(op, cells)

    def _whole(self, op: Op, cells: Cells) -> Cell:
        row = row_of(op.op_type)
        if row.native_whole is not None:
            return row.native_whole(self, op, cells)
        if row.moves is None and not row.in_order:
            raise NotNative(f"it has {title(op.op_type)}")
        return moves.moved(self, op, cells)

    def _put_off(self, op: Op, cells: Cells) -> None:
        made = op.outputs[0]
        self.shapes.take(made, self.shapes.joined(op))
        if self._group and self.extents(self._group[0].outputs[0]) != self.extents(made):
            self.flush(cells)
        self._group.append(op)

    def flush(self, cells: Cells) -> None:
        """One loop over elements for all operations that were put off."""
        group, self._group = self._group, []
        if not group:
            return
        inside = dict.fromkeys(op.outputs[0] for op in group)  # in order: equal loops, equal text
        mine = {id(op) for op in group}
        read = [v for op in group for v in op.inputs if v is not None and v not in inside]
        sources = {value: self._source(value, group[0].outputs[0], cells) for value in read}
        kept = {v: self.buffer(v) for v in inside if self._readers.get(v, set()) - mine}

        def write(code: Code, k: str) -> None:
            registers = {v: self._element(code, v, source, k) for v, source in sources.items()}
            for op in group:
                made = op.outputs[0]
                given = [registers[value] for value in op.inputs if value is not None]
                (registers[made],) = self.vectors(code, op, [given])
                if made in kept:
                    self.store(code, made.dtype, registers[made], kept[made], k)

        self.over(self.shapes.size(group[0].outputs[0]), write)
        cells.update((value, Cell(pointer=pointer)) for value, pointer in kept.items())

    def _source(self, value: Value, like: Value, cells: Cells) -> Cell:
        """An operand as large as the result, or one number."""
        cell = self.cell(value, cells)
        if cell.single or bare(self.extents(value)) == bare(self.extents(like)):
            return cell
        places = np.arange(math.prod(self.shape(value))).reshape(self.shape(value))
        wide = Value(value.name, value.dtype, self.shape(like))
        try:
            spread = np.broadcast_to(places, self.shape(like)).reshape(-1)
        except ValueError:
            raise NotNative(f"'{value.name}' does not fit '{like.name}'") from None
        return moves.gathered(self, wide, [(value, cell)], spread)

    def _element(self, code: Code, value: Value, cell: Cell, place: str) -> str:
        if cell.single:
            return code.spread(cell.registers[0], value.dtype)
        return self.load(code, value.dtype, cell.pointer, place)

    def known(self, value: Value | None) -> Array | None:
        """The array of a value, if it is known now."""
        return None if value is None else self.form.known.get(value)

    def check(self, cell: Cell, failure: Failure) -> None:
        """Truths of arrays have no code yet."""
        raise NotNative("it has a check of an array")

    # --- places -------------------------------------------------------------------------------

    def array_place(self, value: Value) -> Place:
        """Memory for an array."""
        return (self.buffer(value),)

    def keep_array(self, value: Value, cell: Cell, place: Place) -> None:
        """Copy an array there."""
        self.give(value, cell, place[0])

    def kept_array(self, value: Value, place: Place) -> Cell:
        """The array that is there."""
        return Cell(pointer=place[0])

    def leave(self, loop: Loop, cells: Cells, places: Mapping[Carried, Place]) -> None:
        """All at once: what may lie in the place of another one is put aside before that is written."""
        own = self.space.own - {place[0] for place in places.values()}
        aside = dict(cells)
        for carried in loop.carried:
            cell = self.cell(carried.leave, cells)
            if cell.pointer and cell.pointer not in {*own, places[carried][0]}:
                apart = self.buffer(carried.leave)
                self.copy(apart, cell.pointer, self.shapes.bytes(carried.leave))
                aside[carried.leave] = Cell(pointer=apart)
        super().leave(loop, aside, places)

    # --- rows ---------------------------------------------------------------------------------

    def loop(self, loop: Loop, cells: Cells) -> Cells:
        """All iterations; what the loop gives, but its rows."""
        for scanned in loop.scanned:
            self.shapes.take(scanned.row, self.extents(scanned.rows)[1:])
        return super().loop(loop, cells)

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """The row where it is."""
        pointer, far = self.memory[scanned.rows], self.times(number, self.shapes.bytes(scanned.row))
        return self.as_cell(scanned.row, self.far(pointer, far))

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Those that are scanned lie in memory; recorded ones have some of their own."""
        for scanned in loop.scanned:
            rows = self.cell(scanned.rows, cells)
            self.memory[scanned.rows] = self.pointer_of(scanned.rows, rows)
        for recorded in loop.recorded:
            if self._has_known_rows(loop, recorded):
                pointer = self.buffer(recorded.stack)
                self._stacks[recorded.stack] = KnownRows(self, recorded, pointer)
            else:
                self._stacks[recorded.stack] = GrowingRows(self, loop, recorded)

    def _has_known_rows(self, loop: Loop, recorded: Recorded) -> bool:
        """Whether a loop inside surely has as many rows as the program says."""
        if not is_fixed(recorded.stack.shape):
            return False
        trip = None if loop.trip_count is None else self.known(loop.trip_count)
        extent = recorded.stack.shape[0]
        if loop.condition is not None or trip is None or max(int(trip.item()), 0) != extent:
            raise NotNative("a loop in it has rows, and how many is known only when it runs")
        return True

    def stacked(self, loop: Loop, count: str) -> Cells:
        """What is in that memory."""
        stacks = [recorded.stack for recorded in loop.recorded]
        pointers = {stack: self._stacks[stack].all(count) for stack in stacks}
        return {stack: self.as_cell(stack, pointer) for stack, pointer in pointers.items()}

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write a row."""
        inside = loop is not self.form.loop
        stack = self._stacks[recorded.stack] if inside else self._output(recorded)
        stack.record(cell, number)

    def _output(self, recorded: Recorded) -> Stack:
        """Rows of the outermost loop."""
        told = self.shapes.told(recorded.row)
        if told is not None:
            self._outputs[recorded.stack] = shape = (ITERATIONS, *told)
            pointer = self.stacks[recorded.stack]
            return KnownRows(self, recorded, self.bounds.array(pointer, recorded.stack, shape))
        stack = LateRows(self, self.form.loop, recorded, self.shapes.given + self.late)
        self._outputs[recorded.stack] = (ITERATIONS, *stack.told)
        self.late += stack.count
        return stack


def _readers(loop: Loop) -> Mapping[Value, set[int]]:
    """Of each value the operations that read it, by their identity; bodies read what they give."""
    found: dict[Value, set[int]] = {}

    def note(values: Iterable[Value], reader: object) -> None:
        for value in values:
            found.setdefault(value, set()).add(id(reader))

    for operation in (loop, *walk(loop.ops)):
        note(reads(operation), operation)
        for body in bodies(operation):
            note(body.outputs, operation)
    return found
