"""LLVM functions that compute a loop for blocks of lanes. Several threads may share the blocks."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ir import Loop, Op, Recorded, Scanned, Value
from mdf_loop.native import machine
from mdf_loop.native.loop_text import ITERATIONS, PARAMETERS, extent_code
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.native.writer import Cells, FunctionWriter, Place
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import ITEM_BYTES, Cell, Code, Extents, Failure, is_single

CACHE_LINE_BYTES, MIN_STREAMED_LANES = 64, 256
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


def output_shapes(signature: KernelSignature) -> tuple[tuple[int, ...], ...]:
    """Return the encoded shape of each loop output (see `LoopText.shapes`)."""
    names = extent_names(signature)
    shapes = []
    for value, rows in signature.outputs:
        shape = value.shape or ()
        encoded_extents = [
            e if isinstance(e, int) else extent_code(names.index(e)) for e in shape[rows:]
        ]
        shapes.append((*[ITERATIONS] * rows, *encoded_extents))
    return tuple(shapes)


class LaneBlocks(FunctionWriter):
    """Writer of an LLVM function that computes a loop for blocks of one size."""

    def __init__(
        self, signature: KernelSignature, block: LaneBlock, failures: list[Failure]
    ) -> None:
        super().__init__(signature, failures)
        self._block = block
        quick = machine.divides_quickly(block.width)
        self._vector = Code(self.text, block.width, signature.vectorized, quick_divider=quick)
        self._start = "0"
        self._count = "1"
        self._aligned: dict[str, str] = {}

    def begin(self, *, counts: bool = False) -> None:
        """Write the loads of all array pointers and the computation of the number of lanes."""
        super().begin(counts=counts)
        for extent in map(self.extent, self.signature.lanes):
            self._count = self.scalar.emit(f"mul i64 {self._count}, {extent}")
        shapes = dict(
            zip(
                (value for value, _ in self.signature.outputs),
                output_shapes(self.signature),
                strict=True,
            )
        )
        for value, pointer in self.stacks.items():
            self.stacks[value] = self.bounds.array(pointer, value, shapes[value])
        for recorded in self.signature.loop.recorded if self.stacks else ():
            if not is_single(recorded.row):
                self._write_stream_test(self.stacks[recorded.stack], recorded.row.dtype)

    # --- functions ----------------------------------------------------------------------------

    def write_loop(self, head: str) -> str:
        """Return an LLVM function that runs a loop of scalars, or computes only the scalars of a loop."""
        self.begin()
        self._write_iterations("0")
        self.scalar.line("ret i64 0")
        return self.function(head)

    def write_count(self, head: str) -> str:
        """Return an LLVM function that counts the iterations. LLVM removes all other code."""
        self.begin(counts=True)
        self.loop(self.signature.loop, self._load_inputs("0"))
        iteration_count = self.scalar.emit(f"load i64, ptr {self.iterations}")
        self.scalar.line(f"ret i64 {iteration_count}")
        return self.function(head)

    def write_blocks(self, name: str) -> str:
        """Return an LLVM function that computes one share of all blocks of lanes.

        The last block may overlap the block before, so that it ends with the last lane.
        """
        code, lanes = self.scalar, self._block.lanes
        self.begin()
        last = code.emit(f"sub i64 {self._count}, {lanes}")
        rounded_count = code.emit(f"add i64 {self._count}, {lanes - 1}")
        count = code.emit(f"sdiv i64 {rounded_count}, {lanes}")

        next_part = code.emit("add i64 %part, 1")

        def block(number: str) -> None:
            start = code.emit(f"mul i64 {number}, {lanes}")
            is_beyond = code.emit(f"icmp sgt i64 {start}, {last}")
            self._write_iterations(code.emit(f"select i1 {is_beyond}, i64 {last}, i64 {start}"))

        self.repeat(
            self._write_share_begin(count, "%part"),
            self._write_share_begin(count, next_part),
            1,
            block,
        )
        code.line("ret i64 0")
        return self.function(f"define internal i64 @{name}{PARAMETERS}")

    def _write_share_begin(self, count: str, part: str) -> str:
        """Write the computation of the index of the first block of a share."""
        product = self.scalar.emit(f"mul i64 {count}, {part}")
        return self.scalar.emit(f"sdiv i64 {product}, %parts")

    def _write_iterations(self, start: str) -> None:
        """Write all iterations of the block that begins at lane `start`, and the stores of its final values."""
        self._start = start
        final_cells = self.loop(self.signature.loop, self._load_inputs(start))
        for value, rows in self.signature.outputs:
            if not rows:
                place = "0" if is_single(value) else start
                self._store_cell(value, final_cells[value], self.stacks[value], place)

    def _load_inputs(self, start: str) -> Cells:
        """Load the inputs of the loop for the block that begins at lane `start`."""
        return {
            value: self._load_value(value, self.memory[value], "0" if is_single(value) else start)
            for value in self.signature.arrays
        }

    # --- memory -------------------------------------------------------------------------------

    def _load_value(self, value: Value, pointer: str, start: str) -> Cell:
        if is_single(value):
            return Cell((self.load(self.scalar, value.dtype, pointer, start),), True)
        return Cell(
            tuple(
                self.load(self._vector, value.dtype, pointer, p) for p in self._vector_starts(start)
            )
        )

    def _store_cell(self, value: Value, cell: Cell, pointer: str, start: str) -> None:
        if is_single(value):
            self.store(self.scalar, value.dtype, cell.registers[0], pointer, start)
            return
        for k, place in enumerate(self._vector_starts(start)):
            self.store(
                self._vector,
                value.dtype,
                self._vector_register(cell, k, value.dtype),
                pointer,
                place,
            )

    def _vector_starts(self, start: str) -> list[str]:
        """Write the index of the first lane of each vector of a block."""
        width = self._block.width
        copies = range(self._block.copies)
        return [
            start if k == 0 else self.scalar.emit(f"add i64 {start}, {k * width}") for k in copies
        ]

    def _row_start(self, number: str) -> str:
        row_offset = self.scalar.emit(f"mul i64 {number}, {self._count}")
        return self.scalar.emit(f"add i64 {row_offset}, {self._start}")

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Load the lanes of the block from a row of a scanned array."""
        return self._load_value(scanned.row, self.memory[scanned.rows], self._row_start(number))

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write the store of the lanes of the block to a recorded row.

        Large rows of aligned blocks are stored with nontemporal stores, since no iteration reads the rows again.
        """
        row, stack = recorded.row, self.stacks[recorded.stack]
        if is_single(row):
            self._store_cell(row, cell, stack, number)
            return
        start = self._row_start(number)
        size = ITEM_BYTES[row.dtype] * self._block.width
        if size * self._block.copies % CACHE_LINE_BYTES or row.dtype == "bool":
            self._store_cell(row, cell, stack, start)
            return
        text, code = self.text, self.scalar
        streamed_block, cached_block, end_block = (
            text.name(stem) for stem in ("past", "through", "written")
        )
        code.line(
            f"br i1 {self._write_stream_test(stack, row.dtype)}, label %{streamed_block}, label %{cached_block}"
        )
        code.label(cached_block)
        self._store_cell(row, cell, stack, start)
        code.line(f"br label %{end_block}")
        code.label(streamed_block)
        for k, place in enumerate(self._vector_starts(start)):
            at = self.element_address(row.dtype, stack, place)
            register = self._vector_register(cell, k, row.dtype)
            self.stream(self._vector, row.dtype, register, at, min(size, CACHE_LINE_BYTES))
        code.line(f"br label %{end_block}")
        code.label(end_block)

    def _write_stream_test(self, stack: str, dtype: str) -> str:
        """Write the test that rows have at least `MIN_STREAMED_LANES` lanes, and that all blocks are aligned to cache lines."""
        if stack not in self._aligned:
            code = self.scalar
            begin = code.emit(f"ptrtoint ptr {stack} to i64")
            size = code.emit(f"mul i64 {self._count}, {ITEM_BYTES[dtype]}")
            address_and_size = code.emit(f"or i64 {begin}, {size}")
            misalignment = code.emit(f"and i64 {address_and_size}, {CACHE_LINE_BYTES - 1}")
            is_aligned = code.emit(f"icmp eq i64 {misalignment}, 0")
            has_enough_lanes = code.emit(f"icmp sge i64 {self._count}, {MIN_STREAMED_LANES}")
            self._aligned[stack] = code.emit(f"and i1 {is_aligned}, {has_enough_lanes}")
        return self._aligned[stack]

    # --- operations ---------------------------------------------------------------------------

    def _vector_register(self, cell: Cell, copy: int, dtype: str) -> str:
        """Return the register of one vector of a block. A scalar is broadcast to all lanes."""
        if cell.single:
            return self._vector.broadcast(cell.registers[0], dtype)
        return cell.registers[copy]

    def _broadcast_cell(self, value: Value, cell: Cell) -> Cell:
        """Return the cell of an operand. A scalar is broadcast to all lanes if `value` is an array."""
        if is_single(value) or not cell.single:
            return cell
        copies = range(self._block.copies)
        return Cell(tuple(self._vector_register(cell, k, value.dtype) for k in copies))

    def op(self, op: Op, cells: Cells) -> None:
        """Write an operation: once for a scalar output, else once for each vector of the block."""
        row, output = row_of(op.op_type), op.outputs[0]
        if row.keeps_order:
            assert op.inputs[0] is not None
            cells[output] = self._broadcast_cell(output, self.cell(op.inputs[0], cells))
            return
        assert row.native_code is not None
        operands = [value for value in op.inputs if value is not None]
        if is_single(output):
            registers = [self.register(value, cells) for value in operands]
            cells[output] = Cell((row.native_code(self.scalar, op, *registers),), True)
            return
        copies = range(self._block.copies)
        lane_registers = [
            [self._vector_register(self.cell(v, cells), k, v.dtype) for v in operands]
            for k in copies
        ]
        cells[output] = Cell(tuple(self.vectors(self._vector, op, lane_registers)))

    def flush(self, cells: Cells) -> None:
        """Do nothing, since this writer defers no operations."""

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Do nothing, since inner loops have no scanned or recorded rows."""

    def stack_cells(self, loop: Loop, count: str) -> Cells:
        """Return no cells, since inner loops record no rows."""
        return {}

    def extents(self, value: Value) -> Extents:
        """Return the extents of an array. Extents with names are loaded to registers."""
        return tuple(map(self.extent, value.shape or ()))

    def assign_extents(self, value: Value, other: Value) -> None:
        """Do nothing, since all arrays of the loop have the same shape."""

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Write a check that fails the run if the condition is false in any lane."""
        for register in cell.registers if self.stacks else ():
            wrong = self._vector.binary(
                "xor", "bool", register, self._vector.constant(True, "bool")
            )
            self._vector.fail_if(wrong, failure)

    def allocate_array(self, value: Value) -> Place:
        """Allocate local memory for each vector of a block."""
        kind = self._vector.type(value.dtype)
        return tuple(self._vector.allocate_local(kind) for _ in range(self._block.copies))

    def store_array(self, value: Value, other: Value, cell: Cell, place: Place) -> None:
        """Store the lanes of an array to local memory."""
        kind = self._vector.type(value.dtype)
        for register, one in zip(self._broadcast_cell(value, cell).registers, place, strict=True):
            self._vector.line(f"store {kind} {register}, ptr {one}")

    def load_array(self, value: Value, place: Place) -> Cell:
        """Load the lanes of an array from local memory."""
        kind = self._vector.type(value.dtype)
        return Cell(tuple(self._vector.emit(f"load {kind}, ptr {one}") for one in place))
