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
from collections.abc import Callable, Mapping, Sequence

from mdf_loop.ir import (
    Array,
    Carried,
    Loop,
    Op,
    Recorded,
    Scanned,
    Value,
    is_fixed,
)
from mdf_loop.native import few
from mdf_loop.native.fused import Fused
from mdf_loop.native.loop_text import COUNT, FUNCTION, ITERATIONS, TAKEN, LoopText
from mdf_loop.native.shapes import Shapes
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
        self.shapes = Shapes(self.one, form.loop.where)
        self._stacks: dict[Value, InnerStack] = {}
        self._outputs: dict[Value, tuple[int, ...]] = {}
        self._fused = Fused(self, form.loop)

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

    def is_extent(self, number: Extent) -> bool:
        """Whether a number is surely that of an axis: not below zero."""
        return self.shapes.has(number)

    def joined(self, op: Op) -> Extents:
        """The shape that the operands of an operation are broadcast to."""
        return self.shapes.joined(op)

    def shaped(self, value: Value, extents: Extents) -> None:
        """Let a value that is made have these extents."""
        self.shapes.take(value, extents)

    def numbers(self, value: Value, cells: Mapping[Value, Cell]) -> Extents | None:
        """The elements of a few whole numbers; None if they are no such."""
        return few.numbers_of(self, value, cells)

    def few(self, value: Value, numbers: Sequence[Extent]) -> Cell:
        """A few whole numbers, in registers."""
        return few.cell_of(value, numbers)

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
        """Where an array is; what is in registers is put there."""
        if cell.pointer:
            return cell.pointer
        made = self.buffer(value)
        if not cell.single:
            for place, register in enumerate(cell.registers):
                self.store(self.one, value.dtype, register, made, str(place))
            return made
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
        elif (few_numbers := few.computed(self, op, cells)) is not None:
            cells[made] = few_numbers
        elif row.elementwise and row.native is not None:
            self._fused.put_off(op, cells)
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

    def flush(self, cells: Cells) -> None:
        """Write the operations that were put off."""
        self._fused.flush(cells)

    def known(self, value: Value | None) -> Array | None:
        """The array of a value, if it is known now."""
        return None if value is None else self.form.known.get(value)

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Fail where one of an array's truths does not hold."""

        def each(code: Code, k: str) -> None:
            truth = self.load(code, "bool", pointer, k)
            wrong = code.binary("xor", "bool", truth, code.number(True, "bool"))
            code.fail_if(wrong, failure)

        pointer = self.pointer_of(value, cell)
        self.over(self.shapes.size(value), each)

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
