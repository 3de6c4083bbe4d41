"""LLVM functions that compute a loop for blocks of lanes. Several threads may share the blocks."""

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
"""Bytes of a cache line, and minimum number of lanes of a row that is stored with nontemporal stores."""


class LaneBlock(Struct, frozen=True):
    """Size of a block of lanes that are computed at once: `copies` vectors of `width` lanes."""

    width: int = 1
    copies: int = 1

    @property
    def lanes(self) -> int:
        """Number of lanes in a block."""
        return self.width * self.copies


NO_LANES = LaneBlock(copies=0)
"""Block without lanes, for functions that compute only scalars."""


def output_shapes(form: KernelSignature) -> tuple[tuple[int, ...], ...]:
    """Return the encoded shape of each loop output (see `LoopText.shapes`)."""
    names = extent_names(form)
    shapes = []
    for value, rows in form.outputs:
        own = value.shape or ()
        known = [e if isinstance(e, int) else extent_at(names.index(e)) for e in own[rows:]]
        shapes.append((*[ITERATIONS] * rows, *known))
    return tuple(shapes)


class LaneBlocks(FormWriter):
    """Writer of an LLVM function that computes a loop for blocks of one size."""

    def __init__(self, form: KernelSignature, block: LaneBlock, failures: list[Failure]) -> None:
        super().__init__(form, failures)
        self._block = block
        quick = machine.divides_quickly(block.width)
        self._wide = Code(self.text, block.width, form.many, quick_divider=quick)
        self._start = "0"
        self._count = "1"
        self._aligned: dict[str, str] = {}

    def begin(self, *, counts: bool = False) -> None:
        """Write the loads of all array pointers and the computation of the number of lanes."""
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
        """Return an LLVM function that runs a loop of scalars, or computes only the scalars of a loop."""
        self.begin()
        self._all("0")
        self.one.line("ret i64 0")
        return self.function(head)

    def counting(self, head: str) -> str:
        """Return an LLVM function that counts the iterations. LLVM removes all other code."""
        self.begin(counts=True)
        self.loop(self.form.loop, self._given("0"))
        iteration_count = self.one.put(f"load i64, ptr {self.iterations}")
        self.one.line(f"ret i64 {iteration_count}")
        return self.function(head)

    def blocks(self, name: str) -> str:
        """Return an LLVM function that computes one share of all blocks of lanes.

        The last block may overlap the block before, so that it ends with the last lane.
        """
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
        """Write the computation of the index of the first block of a share."""
        before = self.one.put(f"mul i64 {count}, {part}")
        return self.one.put(f"sdiv i64 {before}, %parts")

    def _all(self, start: str) -> None:
        """Write all iterations of the block that begins at lane `start`, and the stores of its final values."""
        self._start = start
        after = self.loop(self.form.loop, self._given(start))
        for value, rows in self.form.outputs:
            if not rows:
                place = "0" if is_single(value) else start
                self._store(value, after[value], self.stacks[value], place)

    def _given(self, start: str) -> Cells:
        """Load the inputs of the loop for the block that begins at lane `start`."""
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
        """Write the index of the first lane of each vector of a block."""
        width = self._block.width
        copies = range(self._block.copies)
        return [start if k == 0 else self.one.put(f"add i64 {start}, {k * width}") for k in copies]

    def _row_start(self, number: str) -> str:
        before = self.one.put(f"mul i64 {number}, {self._count}")
        return self.one.put(f"add i64 {before}, {self._start}")

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Load the lanes of the block from a row of a scanned array."""
        return self._loaded(scanned.row, self.memory[scanned.rows], self._row_start(number))

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write the store of the lanes of the block to a recorded row.

        Large rows of aligned blocks are stored with nontemporal stores, since no iteration reads the rows again.
        """
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
        """Write the test that rows have at least `MANY` lanes, and that all blocks are aligned to cache lines."""
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
        """Return the register of one vector of a block. A scalar is broadcast to all lanes."""
        if cell.single:
            return self._wide.spread(cell.registers[0], dtype)
        return cell.registers[copy]

    def _like(self, value: Value, cell: Cell) -> Cell:
        """Return the cell of an operand. A scalar is broadcast to all lanes if `value` is an array."""
        if is_single(value) or not cell.single:
            return cell
        copies = range(self._block.copies)
        return Cell(tuple(self._copy(cell, k, value.dtype) for k in copies))

    def op(self, op: Op, cells: Cells) -> None:
        """Write an operation: once for a scalar output, else once for each vector of the block."""
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
        """Do nothing, since this writer defers no operations."""

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Do nothing, since inner loops have no scanned or recorded rows."""

    def stacked(self, loop: Loop, count: str) -> Cells:
        """Return no cells, since inner loops record no rows."""
        return {}

    def extents(self, value: Value) -> Extents:
        """Return the extents of an array. Extents with names are loaded to registers."""
        return tuple(map(self.extent, value.shape or ()))

    def alike(self, value: Value, other: Value) -> None:
        """Do nothing, since all arrays of the loop have the same shape."""

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Write a check that fails the run if the condition is false in any lane."""
        for register in cell.registers if self.stacks else ():
            wrong = self._wide.binary("xor", "bool", register, self._wide.number(True, "bool"))
            self._wide.fail_if(wrong, failure)

    def array_place(self, value: Value) -> Place:
        """Allocate local memory for each vector of a block."""
        kind = self._wide.type(value.dtype)
        return tuple(self._wide.place(kind) for _ in range(self._block.copies))

    def keep_array(self, value: Value, other: Value, cell: Cell, place: Place) -> None:
        """Store the lanes of an array to local memory."""
        kind = self._wide.type(value.dtype)
        for register, one in zip(self._like(value, cell).registers, place, strict=True):
            self._wide.line(f"store {kind} {register}, ptr {one}")

    def kept_array(self, value: Value, place: Place) -> Cell:
        """Load the lanes of an array from local memory."""
        kind = self._wide.type(value.dtype)
        return Cell(tuple(self._wide.put(f"load {kind}, ptr {one}") for one in place))
