"""The code for one block of lanes, of one size: a function that computes all blocks, or some of them."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ir import Loop, Op, Recorded, Scanned, Value
from mdf_loop.native import machine
from mdf_loop.native.loop_text import ITERATIONS, TAKEN, extent_at
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.native.writer import Cells, FormWriter, Place
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import BYTES, Cell, Code, Extents, Failure, is_single

LINE, MANY = 64, 256
"""Bytes of a line of the cache; so many lanes have rows that are written past it."""


class LaneBlock(Struct, frozen=True):
    """Number of lanes that are computed at once: `copies` vectors of `width`."""

    width: int = 1
    copies: int = 1

    @property
    def lanes(self) -> int:
        """All of them."""
        return self.width * self.copies


NO_LANES = LaneBlock(copies=0)
"""Only single numbers are computed."""


def output_shapes(form: KernelSignature) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the outputs, rows included."""
    names = extent_names(form)
    shapes = []
    for value, rows in form.outputs:
        own = value.shape or ()
        known = [e if isinstance(e, int) else extent_at(names.index(e)) for e in own[rows:]]
        shapes.append((*[ITERATIONS] * rows, *known))
    return tuple(shapes)


class LaneBlocks(FormWriter):
    """Writes a function for blocks of one size."""

    def __init__(self, form: KernelSignature, block: LaneBlock, failures: list[Failure]) -> None:
        super().__init__(form, failures)
        self._block = block
        quick = machine.divides_quickly(block.width)
        self._wide = Code(self.text, block.width, form.many, quick_divider=quick)
        self._start = "0"
        self._count = "1"
        self._aligned: dict[str, str] = {}

    def begin(self, *, counts: bool = False) -> None:
        """Load all pointers, count the lanes."""
        super().begin(counts=counts)
        for extent in map(self.extent, self.form.lanes):
            self._count = self.one.put(f"mul i64 {self._count}, {extent}")
        shapes = dict(
            zip((value for value, _ in self.form.outputs), output_shapes(self.form), strict=True)
        )
        for value, pointer in self.stacks.items():
            self.stacks[value] = self.bounds.array(pointer, value, shapes[value])
        for recorded in self.form.loop.recorded if self.stacks else ():
            if not is_single(recorded.row):
                self._streams(self.stacks[recorded.stack], recorded.row.dtype)

    # --- functions ----------------------------------------------------------------------------

    def whole(self, head: str) -> str:
        """All iterations of a loop of single numbers, or of them alone."""
        self.begin()
        self._all("0")
        self.one.line("ret i64 0")
        return self.function(head)

    def counting(self, head: str) -> str:
        """Write a function that counts the iterations. LLVM omits everything that the count does not need."""
        self.begin(counts=True)
        self.loop(self.form.loop, self._given("0"))
        iteration_count = self.one.put(f"load i64, ptr {self.iterations}")
        self.one.line(f"ret i64 {iteration_count}")
        return self.function(head)

    def blocks(self, name: str) -> str:
        """All lanes, block by block."""
        code, lanes = self.one, self._block.lanes
        self.begin()
        last = code.put(f"sub i64 {self._count}, {lanes}")
        before = code.put(f"add i64 {self._count}, {lanes - 1}")
        count = code.put(f"sdiv i64 {before}, {lanes}")

        following = code.put("add i64 %part, 1")

        def block(number: str) -> None:
            begin = code.put(f"mul i64 {number}, {lanes}")
            over = code.put(f"icmp sgt i64 {begin}, {last}")
            self._all(code.put(f"select i1 {over}, i64 {last}, i64 {begin}"))

        self.repeat(self._share(count, "%part"), self._share(count, following), 1, block)
        code.line("ret i64 0")
        return self.function(f"define internal i64 @{name}{TAKEN}")

    def _share(self, count: str, part: str) -> str:
        """Write the number of the first block of a part."""
        before = self.one.put(f"mul i64 {count}, {part}")
        return self.one.put(f"sdiv i64 {before}, %parts")

    def _all(self, start: str) -> None:
        """All iterations of one block, and what it gives."""
        self._start = start
        after = self.loop(self.form.loop, self._given(start))
        for value, rows in self.form.outputs:
            if not rows:
                place = "0" if is_single(value) else start
                self._store(value, after[value], self.stacks[value], place)

    def _given(self, start: str) -> Cells:
        """Return the inputs of the loop for one block."""
        return {
            value: self._loaded(value, self.memory[value], "0" if is_single(value) else start)
            for value in self.form.arrays
        }

    # --- memory -------------------------------------------------------------------------------

    def _loaded(self, value: Value, pointer: str, start: str) -> Cell:
        if is_single(value):
            return Cell((self.load(self.one, value.dtype, pointer, start),), True)
        return Cell(tuple(self.load(self._wide, value.dtype, pointer, p) for p in self._at(start)))

    def _store(self, value: Value, cell: Cell, pointer: str, start: str) -> None:
        if is_single(value):
            self.store(self.one, value.dtype, cell.registers[0], pointer, start)
            return
        for k, place in enumerate(self._at(start)):
            self.store(self._wide, value.dtype, self._copy(cell, k, value.dtype), pointer, place)

    def _at(self, start: str) -> list[str]:
        """Return the start of each copy."""
        width = self._block.width
        copies = range(self._block.copies)
        return [start if k == 0 else self.one.put(f"add i64 {start}, {k * width}") for k in copies]

    def _row_start(self, number: str) -> str:
        before = self.one.put(f"mul i64 {number}, {self._count}")
        return self.one.put(f"add i64 {before}, {self._start}")

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return the block's part of a row."""
        return self._loaded(scanned.row, self.memory[scanned.rows], self._row_start(number))

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write the block's part of a row: of many lanes past the cache, which they would only empty."""
        row, stack = recorded.row, self.stacks[recorded.stack]
        if is_single(row):
            self._store(row, cell, stack, number)
            return
        start = self._row_start(number)
        size = BYTES[row.dtype] * self._block.width
        if size * self._block.copies % LINE or row.dtype == "bool":
            self._store(row, cell, stack, start)
            return
        text, code = self.text, self.one
        past, through, done = (text.name(stem) for stem in ("past", "through", "written"))
        code.line(f"br i1 {self._streams(stack, row.dtype)}, label %{past}, label %{through}")
        code.label(through)
        self._store(row, cell, stack, start)
        code.line(f"br label %{done}")
        code.label(past)
        for k, place in enumerate(self._at(start)):
            at = self.at(row.dtype, stack, place)
            register = self._copy(cell, k, row.dtype)
            self.stream(self._wide, row.dtype, register, at, min(size, LINE))
        code.line(f"br label %{done}")
        code.label(done)

    def _streams(self, stack: str, dtype: str) -> str:
        """Write the test that every block of every row begins with a cache line, and that there are many blocks."""
        if stack not in self._aligned:
            code = self.one
            begin = code.put(f"ptrtoint ptr {stack} to i64")
            size = code.put(f"mul i64 {self._count}, {BYTES[dtype]}")
            both = code.put(f"or i64 {begin}, {size}")
            rest = code.put(f"and i64 {both}, {LINE - 1}")
            even = code.put(f"icmp eq i64 {rest}, 0")
            many = code.put(f"icmp sge i64 {self._count}, {MANY}")
            self._aligned[stack] = code.put(f"and i1 {even}, {many}")
        return self._aligned[stack]

    # --- operations ---------------------------------------------------------------------------

    def _copy(self, cell: Cell, copy: int, dtype: str) -> str:
        """Return the register of one copy. A single number is broadcast to all lanes."""
        if cell.single:
            return self._wide.spread(cell.registers[0], dtype)
        return cell.registers[copy]

    def _like(self, value: Value, cell: Cell) -> Cell:
        """Return the cell of an operand as that of a value, to which the operand may be broadcast."""
        if is_single(value) or not cell.single:
            return cell
        copies = range(self._block.copies)
        return Cell(tuple(self._copy(cell, k, value.dtype) for k in copies))

    def op(self, op: Op, cells: Cells) -> None:
        """Once for a single number, else once for each copy."""
        row, output = row_of(op.op_type), op.outputs[0]
        if row.in_order:
            assert op.inputs[0] is not None
            cells[output] = self._like(output, self.cell(op.inputs[0], cells))
            return
        assert row.native is not None
        operands = [value for value in op.inputs if value is not None]
        if is_single(output):
            registers = [self.register(value, cells) for value in operands]
            cells[output] = Cell((row.native(self.one, op, *registers),), True)
            return
        copies = range(self._block.copies)
        lane_registers = [
            [self._copy(self.cell(v, cells), k, v.dtype) for v in operands] for k in copies
        ]
        cells[output] = Cell(tuple(self.vectors(self._wide, op, lane_registers)))

    def flush(self, cells: Cells) -> None:
        """Do nothing, since no operation is postponed."""

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Loops inside have none."""

    def stacked(self, loop: Loop, count: str) -> Cells:
        """Loops inside have none."""
        return {}

    def extents(self, value: Value) -> Extents:
        """Numbers, or names that are looked up."""
        return tuple(map(self.extent, value.shape or ()))

    def alike(self, value: Value, other: Value) -> None:
        """All arrays have one shape."""

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Fail where it does not hold in one of the lanes."""
        for register in cell.registers if self.stacks else ():
            wrong = self._wide.binary("xor", "bool", register, self._wide.number(True, "bool"))
            self._wide.fail_if(wrong, failure)

    def array_place(self, value: Value) -> Place:
        """Return memory for each copy."""
        kind = self._wide.type(value.dtype)
        return tuple(self._wide.place(kind) for _ in range(self._block.copies))

    def keep_array(self, value: Value, other: Value, cell: Cell, place: Place) -> None:
        """Put a block's lanes into their places."""
        kind = self._wide.type(value.dtype)
        for register, one in zip(self._like(value, cell).registers, place, strict=True):
            self._wide.line(f"store {kind} {register}, ptr {one}")

    def kept_array(self, value: Value, place: Place) -> Cell:
        """Return the lanes from their memory."""
        kind = self._wide.type(value.dtype)
        return Cell(tuple(self._wide.put(f"load {kind}, ptr {one}") for one in place))
