"""The code of a loop whose arrays read each other: steps outside, operations inside, arrays in memory.

    for t in range(trip):
        for k in range(n): a[k] = f(x[k], ...)      # operations element by element, fused
        b = a @ w; c = max(a)                       # operations on whole arrays, each by its own code
        rows[t] = b; x = a

An array that an operation makes has a place in the loop's memory; a single number is in a register.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mdf_loop.ir import Array, Carried, Loop, Op, Recorded, Scanned, Value, bodies, reads, walk
from mdf_loop.native.support import Form, bare, is_single
from mdf_loop.native.writer import COUNT, FUNCTION, TAKEN, Cells, FormWriter, LoopText, Place
from mdf_loop.ops import row_of
from mdf_loop.ops.native import moves
from mdf_loop.ops.native.code import BYTES, STORED, Cell, Code, Failure, NotNative
from mdf_loop.ops.registry import title

LINE = 64
"""Bytes: where arrays begin."""

MOST_BYTES = 1 << 26
"""The most memory that a loop has for arrays between its operations."""


def write_steps(form: Form, width: int) -> LoopText:
    """The code of such a loop.

    i64 loop(i64 trip, i64* extents, ptr* in, ptr* out)

    Raises:
        NotNative: it has an operation that has no code.
    """
    failures: list[Failure] = []
    writers = [_Steps(form, width, failures)]
    parts = [writers[0].whole(f"define i64 @{FUNCTION}{TAKEN}")]
    if form.counts:
        writers.append(_Steps(form, width, failures))
        parts.append(writers[1].whole(f"define i64 @{COUNT}{TAKEN}", counts=True))
    scratch = max(writer.scratch for writer in writers)
    if scratch > MOST_BYTES:
        raise NotNative("its arrays are large")
    declared = {name: line for each in writers for name, line in each.text.declared.items()}
    text = "\n".join((*declared.values(), *parts))
    return LoopText(text, tuple(failures), form.counts, scratch + LINE)


class _Steps(FormWriter):
    """Writes the function.

    Attributes:
        wide: for as many numbers of an array as the processor computes at once.
        scratch: bytes of memory for arrays.
    """

    def __init__(self, form: Form, width: int, failures: list[Failure]) -> None:
        super().__init__(form, failures)
        self.wide = Code(self.text, width, True)
        self.scratch = 0
        self._memory = ""
        self._buffers: list[str] = []
        self._group: list[Op] = []
        self._readers = _readers(form.loop)

    def whole(self, head: str, *, counts: bool = False) -> str:
        """All of it; or what `counts` the iterations, and writes nothing."""
        code, form = self.one, self.form
        self.begin(counts=counts)
        self._memory = self._aligned(self.pointer("%out", len(form.outputs)))
        begin = len(self.text.lines)
        cells: Cells = {}
        for value in form.arrays:
            pointer = self.memory[value]
            single = is_single(value)
            cells[value] = (
                Cell((self.load(code, value.dtype, pointer),), True)
                if single
                else Cell(pointer=pointer)
            )
        after = self.loop(form.loop, cells)
        for value, rows in form.outputs if not counts else ():
            if not rows:
                self.give(value, after[value], self.stacks[value])
        made = code.put(f"load i64, ptr {self.iterations}")
        code.line(f"ret i64 {made}")
        self.text.lines[begin:begin] = self._buffers
        return self.function(head)

    def _aligned(self, pointer: str) -> str:
        code = self.one
        number = code.put(f"ptrtoint ptr {pointer} to i64")
        over = code.put(f"add i64 {number}, {LINE - 1}")
        return code.put(f"inttoptr i64 {code.put(f'and i64 {over}, -{LINE}')} to ptr")

    # --- memory -------------------------------------------------------------------------------

    def buffer(self, value: Value) -> str:
        """Memory for an array."""
        begin = self.scratch
        self.scratch += -(-_bytes(value) // LINE) * LINE
        register = self.text.name("%buffer")
        self._buffers.append(f"  {register} = getelementptr i8, ptr {self._memory}, i64 {begin}")
        return register

    def give(self, value: Value, cell: Cell, pointer: str, place: str = "0") -> None:
        """Put a value into memory; of an array the `place`-th such."""
        if is_single(value):
            self.store(self.one, value.dtype, cell.registers[0], pointer, place)
            return
        if place != "0":
            far = self.one.put(f"mul i64 {place}, {_bytes(value)}")
            pointer = self.one.put(f"getelementptr i8, ptr {pointer}, i64 {far}")
        self.copy(pointer, self.pointer_of(value, cell), _bytes(value))

    def copy(self, target: str, source: str, size: int) -> None:
        """Copy bytes."""
        name = "llvm.memmove.p0.p0.i64"
        self.text.declared[name] = f"declare void @{name}(ptr, ptr, i64, i1)"
        if target != source and size:
            self.one.line(f"call void @{name}(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def pointer_of(self, value: Value, cell: Cell) -> str:
        """Where an array is; one number in all places is put there."""
        if cell.pointer:
            return cell.pointer
        made = self.buffer(value)
        size = math.prod(_shape(value))
        self.over(size, lambda code, k: self._fill(code, value.dtype, cell, made, k))
        return made

    def _fill(self, code: Code, dtype: str, cell: Cell, pointer: str, place: str) -> None:
        self.store(code, dtype, code.spread(cell.registers[0], dtype), pointer, place)

    # --- loops over elements ------------------------------------------------------------------

    def over(self, count: int, write: Callable[[Code, str], None]) -> None:
        """Code for all elements: as many at once as can be, the rest one by one."""
        width = self.wide.width
        many = count // width * width
        if many:
            self.repeat("0", str(many), width, lambda k: write(self.wide, k))
        if count > many:
            self.repeat(str(many), str(count), 1, lambda k: write(self.one, k))

    def times(self, number: str, factor: int) -> str:
        """A product of numbers of elements."""
        return self.one.put(f"mul i64 {number}, {factor}")

    def at(self, dtype: str, pointer: str, place: str) -> str:
        """Where an element is."""
        return self.one.put(f"getelementptr {STORED[dtype]}, ptr {pointer}, i64 {place}")

    def as_cell(self, value: Value, pointer: str) -> Cell:
        """What is in memory, a single number in a register."""
        if is_single(value):
            return Cell((self.load(self.one, value.dtype, pointer),), True)
        return Cell(pointer=pointer)

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
        if self._group and _shape(self._group[0].outputs[0]) != _shape(op.outputs[0]):
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

        self.over(math.prod(_shape(group[0].outputs[0])), write)
        cells.update((value, Cell(pointer=pointer)) for value, pointer in kept.items())

    def _source(self, value: Value, like: Value, cells: Cells) -> Cell:
        """An operand as large as the result, or one number."""
        cell = self.cell(value, cells)
        if cell.single or bare(value) == bare(like):
            return cell
        places = np.arange(math.prod(_shape(value))).reshape(_shape(value))
        wide = Value(value.name, value.dtype, like.shape)
        spread = np.broadcast_to(places, _shape(like)).reshape(-1)
        return moves.gathered(self, wide, [(value, cell)], spread)

    def _element(self, code: Code, value: Value, cell: Cell, place: str) -> str:
        if cell.single:
            return code.spread(cell.registers[0], value.dtype)
        return self.load(code, value.dtype, cell.pointer, place)

    def shape(self, value: Value) -> tuple[int, ...]:
        """The extents of an array."""
        return _shape(value)

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
        own = {line.split()[0] for line in self._buffers}
        own -= {place[0] for place in places.values()}
        aside = dict(cells)
        for carried in loop.carried:
            cell = self.cell(carried.leave, cells)
            if cell.pointer and cell.pointer not in {*own, places[carried][0]}:
                apart = self.buffer(carried.leave)
                self.copy(apart, cell.pointer, _bytes(carried.leave))
                aside[carried.leave] = Cell(pointer=apart)
        super().leave(loop, aside, places)

    # --- rows ---------------------------------------------------------------------------------

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """The row where it is."""
        far = self.one.put(f"mul i64 {number}, {_bytes(scanned.row)}")
        pointer = self.memory[scanned.rows]
        return Cell(pointer=self.one.put(f"getelementptr i8, ptr {pointer}, i64 {far}"))

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Those that are scanned lie in memory; recorded ones have some of their own."""
        for scanned in loop.scanned:
            rows = self.cell(scanned.rows, cells)
            self.memory[scanned.rows] = self.pointer_of(scanned.rows, rows)
        trip = None if loop.trip_count is None else self.known(loop.trip_count)
        for recorded in loop.recorded:
            extent = _shape(recorded.stack)[0]
            if loop.condition is not None or trip is None or max(int(trip.item()), 0) != extent:
                raise NotNative("a loop in it has rows, and how many is known only when it runs")
            self.stacks[recorded.stack] = self.buffer(recorded.stack)

    def stacked(self, loop: Loop) -> Cells:
        """What is in that memory."""
        stacks = [recorded.stack for recorded in loop.recorded]
        return {stack: self.as_cell(stack, self.stacks[stack]) for stack in stacks}

    def record(self, recorded: Recorded, cell: Cell, number: str) -> None:
        """Copy a row."""
        self.give(recorded.row, cell, self.stacks[recorded.stack], number)


def _shape(value: Value) -> tuple[int, ...]:
    extents = value.shape or ()
    if value.shape is None or not all(isinstance(extent, int) for extent in extents):
        raise NotNative(f"the shape of '{value.name}' is known only when it runs")
    return tuple(int(extent) for extent in extents)


def _bytes(value: Value) -> int:
    return math.prod(_shape(value)) * BYTES[value.dtype]


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
