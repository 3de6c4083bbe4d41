"""The code of a loop with lanes: each is integrated alone, so time is inside.

    for block of V lanes:                    # V = width x copies, which hide the arithmetic's latency
        x = initial of the block             # in registers
        for t in range(trip):
            x = body(x); rows[t, block] = x
        final of the block = x

No lane reads another one, so this is exact. Single numbers are computed once for each block. The
last block is moved back to end with the last lane: some lanes are computed twice, alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from mdf_loop.ir import Carried, Guard, If, Loop, Op, Operation, Scanned, Value
from mdf_loop.native.support import STOP, Form, is_single
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import BYTES, STORED, Code, Failure, Text

COPIES = 4
"""Vectors of lanes side by side in a block (measured: one 117, four 44 us a step of 100 000 cells)."""

MOST_COPIED = 60
"""Operations of a body from which on there is one vector in a block: registers are few."""

FUNCTION = "loop"

STOPPED = 99999
"""What the function gives where it was told to stop."""

NOTHING: Mapping[Value, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Block:
    """How many lanes are computed at once: `copies` vectors of `width`."""

    width: int = 1
    copies: int = 1

    @property
    def lanes(self) -> int:
        """All of them."""
        return self.width * self.copies


@dataclass(frozen=True, slots=True)
class LoopText:
    """The text of a loop's code, and why it may fail."""

    text: str
    failures: tuple[Failure, ...]


def write_lanes(form: Form, width: int) -> LoopText:
    """The code of a loop with lanes, or of single numbers.

    i64 loop(i64 trip, i64* extents, ptr* in, ptr* out)
    """
    if not form.lanes:
        one = _Writer(form, _Block())
        one.write(FUNCTION)
        return _kernel((one.text,), "")
    count = _known_count(form)
    block = _block(form, width if count is None else _power_below(min(width, max(count, 1))), count)
    wide = _Writer(form, block)
    wide.write("wide")
    if count is not None and count >= block.lanes:
        return _kernel((wide.text,), _either(form, "wide", "wide", 1))
    narrow = _Writer(form, _Block(), wide.text.failures)
    narrow.write("narrow")
    return _kernel((wide.text, narrow.text), _either(form, "wide", "narrow", block.lanes))


def _known_count(form: Form) -> int | None:
    extents = [extent for extent in form.lanes if isinstance(extent, int)]
    return math.prod(extents) if len(extents) == len(form.lanes) else None


def _power_below(number: int) -> int:
    return int(2 ** int(math.log2(number)))


def _block(form: Form, width: int, count: int | None) -> _Block:
    """Large enough to keep the processor busy, small enough for its registers."""
    copies = COPIES if len(form.loop.ops) <= MOST_COPIED else 1
    if count is not None:
        copies = max(1, min(copies, count // width))
    return _Block(width, copies)


def _either(form: Form, large: str, small: str, least: int) -> str:
    """The function that counts the lanes and takes the code for so many."""
    lines = [f"define i64 @{FUNCTION}(i64 %trip, ptr %extents, ptr %in, ptr %out) {{"]
    total = str(math.prod(e for e in form.lanes if isinstance(e, int)))
    for k, name in enumerate(e for e in form.lanes if isinstance(e, str)):
        at = extent_names(form).index(name)
        lines.append(f"  %p{k} = getelementptr i64, ptr %extents, i64 {at}")
        lines.append(f"  %e{k} = load i64, ptr %p{k}")
        lines.append(f"  %n{k} = mul i64 {total}, %e{k}")
        total = f"%n{k}"
    given = f"(i64 %trip, i64 {total}, ptr %extents, ptr %in, ptr %out)"
    lines += [
        f"  %large = icmp sge i64 {total}, {least}",
        "  br i1 %large, label %l, label %s",
        f"l:\n  %a = call i64 @{large}{given}\n  ret i64 %a",
        f"s:\n  %b = call i64 @{small}{given}\n  ret i64 %b\n}}",
    ]
    return "\n".join(lines)


def extent_names(form: Form) -> list[str]:
    """The extents that are known only when it runs, in order."""
    shapes = (value.shape or () for value in form.inputs)
    return list(dict.fromkeys(e for shape in shapes for e in shape if isinstance(e, str)))


def _kernel(texts: tuple[Text, ...], entry: str) -> LoopText:
    declared = {name: line for text in texts for name, line in text.declared.items()}
    lines = [line for text in texts for line in text.lines]
    return LoopText("\n".join((*declared.values(), *lines, entry)), tuple(texts[0].failures))


# --- the function ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cell:
    """The registers of a value: one if it is a single number, else one for each copy."""

    registers: tuple[str, ...]
    single: bool


Cells = dict[Value, _Cell]


class _Writer:
    """Writes the function for blocks of one size."""

    def __init__(self, form: Form, block: _Block, failures: list[Failure] | None = None) -> None:
        self.text = Text(failures=[] if failures is None else failures)
        many = bool(form.lanes)
        self.form = form
        self.block = block
        self.one = Code(self.text, 1, many)
        self.wide = Code(self.text, block.width, many)
        self.memory: dict[Value, str] = {}
        self.told = ""

    def write(self, name: str) -> None:
        """The whole function; of single numbers it is the loop's own."""
        code, form = self.one, self.form
        count = "i64 %n, " if form.lanes else ""
        head = f"define {'internal ' if form.lanes else ''}i64 @{name}(i64 %trip, {count}"
        lines = self.text.lines
        for k, value in enumerate(form.inputs):
            self.memory[value] = self._pointer("%in", k)
        outs = [self._pointer("%out", k) for k in range(len(form.outputs))]
        address = code.put(f"load i64, ptr {self.memory[STOP]}")
        self.told = code.put(f"inttoptr i64 {address} to ptr")
        self._check_rows()
        if form.lanes:
            self._blocks(outs)
        else:
            self._block("0", outs)
        code.line("ret i64 0")
        opening = [f"{head}ptr %extents, ptr noalias %in, ptr noalias %out) {{", "entry:"]
        self.text.lines = [*opening, *self.text.frame, *lines, "}"]

    def _pointer(self, array: str, position: int) -> str:
        at = self.one.put(f"getelementptr ptr, ptr {array}, i64 {position}")
        return self.one.put(f"load ptr, ptr {at}")

    def _blocks(self, outs: list[str]) -> None:
        """All lanes, block by block."""
        code, lanes = self.one, self.block.lanes
        begin = code.place("i64")
        code.line(f"store i64 0, ptr {begin}")
        last = code.put(f"sub i64 %n, {lanes}")
        code.line("br label %next_block")
        code.label("next_block")
        at = code.put(f"load i64, ptr {begin}")
        some = code.put(f"icmp slt i64 {at}, %n")
        code.line(f"br i1 {some}, label %some_block, label %no_block")
        code.label("some_block")
        over = code.put(f"icmp sgt i64 {at}, {last}")
        start = code.put(f"select i1 {over}, i64 {last}, i64 {at}")
        self._block(start, outs)
        behind = code.put(f"add i64 {at}, {lanes}")
        code.line(f"store i64 {behind}, ptr {begin}")
        code.line("br label %next_block")
        code.label("no_block")

    def _block(self, start: str, outs: list[str]) -> None:
        """All iterations of one block, and what it gives."""
        form, loop = self.form, self.form.loop
        cells: Cells = {}
        for value in form.arrays:
            place = "0" if is_single(value) else start
            cells[value] = self._loaded(value, self.memory[value], place)
        stacks = dict(zip((value for value, _ in form.outputs), outs, strict=True))
        after = self._loop(loop, cells, start, stacks)
        for value, rows in form.outputs:
            if not rows:
                place = "0" if is_single(value) else start
                self._store(value, after[value], stacks[value], place)

    # --- memory -------------------------------------------------------------------------------

    def _loaded(self, value: Value, pointer: str, start: str) -> _Cell:
        """What is in memory for the block; of a single number where it `start`s."""
        if is_single(value):
            return _Cell((self._read(self.one, value.dtype, pointer, start),), True)
        width = self.block.width
        places = (self._offset(start, k * width) for k in range(self.block.copies))
        read = (self._read(self.wide, value.dtype, pointer, place) for place in places)
        return _Cell(tuple(read), False)

    def _offset(self, start: str, more: int) -> str:
        return start if more == 0 else self.one.put(f"add i64 {start}, {more}")

    def _read(self, code: Code, dtype: str, pointer: str, place: str) -> str:
        at = code.put(f"getelementptr {STORED[dtype]}, ptr {pointer}, i64 {place}")
        made = code.put(f"load {code.stored(dtype)}, ptr {at}, align {BYTES[dtype]}")
        if dtype != "bool":
            return made
        return code.put(f"trunc {code.stored(dtype)} {made} to {code.type(dtype)}")

    def _store(self, value: Value, cell: _Cell, pointer: str, place: str) -> None:
        if is_single(value):
            self._put(self.one, value.dtype, cell.registers[0], pointer, place)
            return
        for k in range(self.block.copies):
            at = self._offset(place, k * self.block.width)
            self._put(self.wide, value.dtype, self._wide(cell, k, value.dtype), pointer, at)

    def _put(self, code: Code, dtype: str, register: str, pointer: str, place: str) -> None:
        kind = code.stored(dtype)
        if dtype == "bool":
            register = code.put(f"zext {code.type(dtype)} {register} to {kind}")
        at = code.put(f"getelementptr {STORED[dtype]}, ptr {pointer}, i64 {place}")
        code.line(f"store {kind} {register}, ptr {at}, align {BYTES[dtype]}")

    # --- values -------------------------------------------------------------------------------

    def _cell(self, value: Value, cells: Cells) -> _Cell:
        if value in cells:
            return cells[value]
        number = self.form.numbers[value].reshape(-1)[0]
        return _Cell((self.one.number(number, value.dtype),), True)

    def _wide(self, cell: _Cell, copy: int, dtype: str) -> str:
        """The register of one copy, a single number in all lanes."""
        return self.wide.spread(cell.registers[0], dtype) if cell.single else cell.registers[copy]

    # --- operations ---------------------------------------------------------------------------

    def _ops(self, ops: Iterable[Operation], cells: Cells) -> None:
        for operation in ops:
            if isinstance(operation, Op):
                cells[operation.outputs[0]] = self._op(operation, cells)
            elif isinstance(operation, Guard):
                self._guard(operation, cells)
            elif isinstance(operation, If):
                self._choice(operation, cells)
            elif isinstance(operation, Loop):
                cells.update(self._loop(operation, cells))

    def _op(self, op: Op, cells: Cells) -> _Cell:
        row = row_of(op.op_type)
        if row.in_order:
            assert op.inputs[0] is not None
            return self._like(op.outputs[0], self._cell(op.inputs[0], cells))
        assert row.native is not None
        operands = [(v, self._cell(v, cells)) for v in op.inputs if v is not None]
        if is_single(op.outputs[0]):
            return _Cell((row.native(self.one, op, *(c.registers[0] for _, c in operands)),), True)
        made = [
            row.native(self.wide, op, *(self._wide(c, k, v.dtype) for v, c in operands))
            for k in range(self.block.copies)
        ]
        return _Cell(tuple(made), False)

    def _like(self, value: Value, cell: _Cell) -> _Cell:
        """The cell as that of a value, which may be broadcast."""
        if is_single(value) or not cell.single:
            return cell
        copies = range(self.block.copies)
        return _Cell(tuple(self._wide(cell, k, value.dtype) for k in copies), False)

    def _guard(self, guard: Guard, cells: Cells) -> None:
        failure = Failure(guard.sentence, guard.where)
        cell = self._cell(guard.ok, cells)
        code = self.one if cell.single else self.wide
        for register in cell.registers:
            wrong = code.binary("xor", "bool", register, code.number(True, "bool"))
            code.fail_if(wrong, failure)
        cells[guard.made] = self._cell(guard.value, cells)

    def _choice(self, choice: If, cells: Cells) -> None:
        """Only the branch that is chosen is computed."""
        code, text = self.one, self.text
        labels = [text.name(stem) for stem in ("then", "otherwise", "chosen")]
        places = {value: self._place(value) for value in choice.outputs}
        truth = self._cell(choice.condition, cells).registers[0]
        code.line(f"br i1 {truth}, label %{labels[0]}, label %{labels[1]}")
        for label, branch in zip(labels, (choice.then, choice.otherwise), strict=False):
            code.label(label)
            inside = dict(cells)
            self._ops(branch.ops, inside)
            for value, leaf in zip(choice.outputs, branch.leaves, strict=True):
                self._keep(value, self._cell(leaf, inside), places[value])
            code.line(f"br label %{labels[2]}")
        code.label(labels[2])
        cells.update((value, self._kept(value, places[value])) for value in choice.outputs)

    # --- places: what is different each time that code is reached ---------------------------------

    def _place(self, value: Value) -> tuple[str, ...]:
        code, copies = (self.one, 1) if is_single(value) else (self.wide, self.block.copies)
        return tuple(code.place(code.type(value.dtype)) for _ in range(copies))

    def _keep(self, value: Value, cell: _Cell, places: tuple[str, ...]) -> None:
        like = self._like(value, cell)
        code = self.one if is_single(value) else self.wide
        for register, place in zip(like.registers, places, strict=True):
            code.line(f"store {code.type(value.dtype)} {register}, ptr {place}")

    def _kept(self, value: Value, places: tuple[str, ...]) -> _Cell:
        code = self.one if is_single(value) else self.wide
        read = (code.put(f"load {code.type(value.dtype)}, ptr {place}") for place in places)
        return _Cell(tuple(read), is_single(value))

    # --- loops --------------------------------------------------------------------------------

    def _loop(
        self, loop: Loop, cells: Cells, start: str = "", stacks: Mapping[Value, str] = NOTHING
    ) -> Cells:
        """All iterations; what the loop gives, but its rows."""
        code, text = self.one, self.text
        number, go = code.place("i64"), code.place("i1")
        places = {c: self._place(c.enter) for c in loop.carried}
        begun = self._condition(loop.condition, cells)
        code.line(f"store i64 0, ptr {number}")
        code.line(f"store i1 {begun}, ptr {go}")
        last = code.place("i1")
        code.line(f"store i1 {begun}, ptr {last}")
        for carried in loop.carried:
            self._keep(carried.enter, self._cell(carried.initial, cells), places[carried])
        trip = self._trip(loop, cells)
        again, body, done = (text.name(stem) for stem in ("again", "body", "done"))
        code.line(f"br label %{again}")
        code.label(again)
        i = code.put(f"load i64, ptr {number}")
        more = code.put(f"icmp slt i64 {i}, {trip}")
        goes = code.put(f"load i1, ptr {go}")
        both = code.put(f"and i1 {more}, {goes}")
        code.line(f"br i1 {both}, label %{body}, label %{done}")
        code.label(body)
        self._look()
        self._iteration(loop, dict(cells), (i, go, last), places, start, stacks)
        following = code.put(f"add i64 {i}, 1")
        code.line(f"store i64 {following}, ptr {number}")
        code.line(f"br label %{again}")
        code.label(done)
        made: Cells = {c.final: self._kept(c.enter, places[c]) for c in loop.carried}
        if loop.count is not None:
            made[loop.count] = _Cell((code.put(f"load i64, ptr {number}"),), True)
        if loop.last_condition is not None:
            made[loop.last_condition] = _Cell((code.put(f"load i1, ptr {last}"),), True)
        return made

    def _look(self) -> None:
        """End all if somebody wants that."""
        code, text = self.one, self.text
        told = code.put(f"load volatile i64, ptr {self.told}")
        ends = code.put(f"icmp ne i64 {told}, 0")
        stopped, goes_on = text.name("stopped"), text.name("goes_on")
        code.line(f"br i1 {ends}, label %{stopped}, label %{goes_on}")
        code.label(stopped)
        code.line(f"ret i64 {STOPPED}")
        code.label(goes_on)

    def _condition(self, value: Value | None, cells: Cells) -> str:
        return "true" if value is None else self._cell(value, cells).registers[0]

    def _trip(self, loop: Loop, cells: Cells) -> str:
        if loop is self.form.loop:
            return "%trip"
        if loop.trip_count is not None:
            return self._cell(loop.trip_count, cells).registers[0]
        return str(np.iinfo(np.int64).max if loop.bound is None else loop.bound)

    def _iteration(
        self,
        loop: Loop,
        cells: Cells,
        control: tuple[str, str, str],
        places: Mapping[Carried, tuple[str, ...]],
        start: str,
        stacks: Mapping[Value, str],
    ) -> None:
        i, go, last = control
        code = self.one
        iteration = i
        if loop.first is not None:
            before = self._cell(loop.first, cells).registers[0]
            iteration = code.put(f"add i64 {i}, {before}")
        cells[loop.iteration] = _Cell((iteration,), True)
        cells[loop.condition_in] = _Cell((code.put(f"load i1, ptr {go}"),), True)
        for carried in loop.carried:
            cells[carried.enter] = self._kept(carried.enter, places[carried])
        for scanned in loop.scanned:
            cells[scanned.row] = self._row(scanned, i, start)
        self._ops(loop.ops, cells)
        for recorded in loop.recorded:
            at = self._row_place(recorded.row, i, start)
            self._store(recorded.row, self._cell(recorded.row, cells), stacks[recorded.stack], at)
        for carried in loop.carried:
            self._keep(carried.enter, self._cell(carried.leave, cells), places[carried])
        if loop.condition_out is not None:
            out = self._cell(loop.condition_out, cells).registers[0]
            code.line(f"store i1 {out}, ptr {last}")
            if loop.condition is not None:
                code.line(f"store i1 {out}, ptr {go}")

    # --- rows ---------------------------------------------------------------------------------

    def _row_place(self, row: Value, number: str, start: str) -> str:
        """Where the block's part of a row begins."""
        if is_single(row):
            return number
        before = self.one.put(f"mul i64 {number}, %n")
        return self.one.put(f"add i64 {before}, {start}")

    def _row(self, scanned: Scanned, i: str, start: str) -> _Cell:
        """The row of an iteration."""
        number = i
        if scanned.backward:
            last = self.one.put(f"sub i64 {self._rows(scanned)}, 1")
            number = self.one.put(f"sub i64 {last}, {i}")
        place = self._row_place(scanned.row, number, start)
        return self._loaded(scanned.row, self.memory[scanned.rows], place)

    def _rows(self, scanned: Scanned) -> str:
        """How many rows there are."""
        assert scanned.rows.shape is not None
        return self._extent(scanned.rows.shape[0])

    def _extent(self, extent: int | str) -> str:
        if isinstance(extent, int):
            return str(extent)
        place = extent_names(self.form).index(extent)
        at = self.one.put(f"getelementptr i64, ptr %extents, i64 {place}")
        return self.one.put(f"load i64, ptr {at}")

    def _check_rows(self) -> None:
        """Fail where there are fewer rows than iterations."""
        for scanned in self.form.loop.scanned:
            few = self.one.put(f"icmp slt i64 {self._rows(scanned)}, %trip")
            sentence = f"the loop has more iterations than '{scanned.rows.name}' has rows"
            failure = Failure(sentence, self.form.loop.where, "give a row for each iteration")
            self.one.fail_if(few, failure)
