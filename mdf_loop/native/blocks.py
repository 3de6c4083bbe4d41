"""Emission of LLVM functions that run a loop over time on blocks of array elements."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ir import Loop, Op, Recorded, Scanned, Value
from mdf_loop.native import machine
from mdf_loop.native.loop_text import ITERATION_COUNT_CODE, PARAMETERS, extent_code
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.native.writer import Cells, FunctionWriter, LocalVariable
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import ITEM_BYTES, Cell, Code, Extents, Failure, is_single

CACHE_LINE_BYTES, MIN_STREAMED_LANES = 64, 256
"""Bytes of a cache line, and minimum number of lanes of a row that is stored with nontemporal stores."""


class LaneBlock(Struct, frozen=True):
    """Block of array elements (lanes) that are computed together, as several vectors."""

    vector_width: int = 1
    vector_count: int = 1

    @property
    def lanes(self) -> int:
        """Number of lanes (array elements) in a block."""
        return self.vector_width * self.vector_count


NO_LANES = LaneBlock(vector_count=0)
"""Block without lanes, for functions that compute only scalars."""


def output_shapes(signature: KernelSignature) -> tuple[tuple[int, ...], ...]:
    """Return the shape of each loop output, with run-time extents encoded as negative numbers.

    `LoopText.output_shapes` has the encoding.
    """
    runtime_extents = extent_names(signature)
    encoded_shapes = []
    for value, is_recorded in signature.outputs:
        value_shape = value.shape or ()
        encoded_extents = [
            extent if isinstance(extent, int) else extent_code(runtime_extents.index(extent))
            for extent in value_shape[is_recorded:]
        ]
        encoded_shapes.append((*[ITERATION_COUNT_CODE] * is_recorded, *encoded_extents))
    return tuple(encoded_shapes)


class LaneBlocks(FunctionWriter):
    """Emitter of LLVM functions that run a loop over time on blocks of array elements (lanes)."""

    def __init__(
        self, signature: KernelSignature, lane_block: LaneBlock, failures: list[Failure]
    ) -> None:
        super().__init__(signature, failures)
        self._lane_block = lane_block
        has_quick_divider = machine.divides_quickly(lane_block.vector_width)
        self._vector_code = Code(
            self.function_text,
            lane_block.vector_width,
            signature.computes_arrays,
            has_quick_divider=has_quick_divider,
        )
        self._block_start = "0"
        self._lane_count = "1"
        self._stream_tests: dict[str, str] = {}

    def begin(self, *, is_counting: bool = False) -> None:
        """Emit loads of all array pointers, and a computation of the number of array elements."""
        super().begin(is_counting=is_counting)
        for extent in map(self.extent, self.signature.lane_shape):
            self._lane_count = self.scalar_code.emit(f"mul i64 {self._lane_count}, {extent}")
        encoded_shapes = dict(
            zip(
                (value for value, _ in self.signature.outputs),
                output_shapes(self.signature),
                strict=True,
            )
        )
        for value, pointer in self.output_pointers.items():
            self.output_pointers[value] = self.bounds.register_array(
                pointer, value, encoded_shapes[value]
            )
        for recorded_value in self.signature.loop.recorded if self.output_pointers else ():
            if not is_single(recorded_value.row):
                self._write_stream_test(
                    self.output_pointers[recorded_value.stack], recorded_value.row.dtype
                )

    # --- functions ----------------------------------------------------------------------------

    def write_loop(self, head: str) -> str:
        """Return an LLVM function that computes the scalar values of a loop.

        For a loop of arrays, the function computes only the scalars.
        """
        self.begin()
        self._write_iterations("0")
        self.scalar_code.line("ret i64 0")
        return self.finish_function(head)

    def write_count(self, head: str) -> str:
        """Return an LLVM function that counts the iterations of the loop.

        LLVM removes all other code.
        """
        self.begin(is_counting=True)
        self.emit_loop(self.signature.loop, self._load_inputs("0"))
        iteration_count = self.scalar_code.emit(f"load i64, ptr {self.iteration_count_pointer}")
        self.scalar_code.line(f"ret i64 {iteration_count}")
        return self.finish_function(head)

    def write_blocks(self, name: str) -> str:
        """Return an LLVM function that computes one thread's share of the blocks of elements.

        The last block may overlap the block before, so that it ends with the last lane.
        """
        scalar_code, lane_count = self.scalar_code, self._lane_block.lanes
        self.begin()
        last_block_start = scalar_code.emit(f"sub i64 {self._lane_count}, {lane_count}")
        rounded_count = scalar_code.emit(f"add i64 {self._lane_count}, {lane_count - 1}")
        block_count = scalar_code.emit(f"sdiv i64 {rounded_count}, {lane_count}")

        next_part_index = scalar_code.emit("add i64 %part, 1")

        def block(number: str) -> None:
            block_start = scalar_code.emit(f"mul i64 {number}, {lane_count}")
            is_beyond = scalar_code.emit(f"icmp sgt i64 {block_start}, {last_block_start}")
            self._write_iterations(
                scalar_code.emit(
                    f"select i1 {is_beyond}, i64 {last_block_start}, i64 {block_start}"
                )
            )

        self.repeat(
            self._write_share_begin(block_count, "%part"),
            self._write_share_begin(block_count, next_part_index),
            1,
            block,
        )
        scalar_code.line("ret i64 0")
        return self.finish_function(f"define internal i64 @{name}{PARAMETERS}")

    def _write_share_begin(self, count: str, part: str) -> str:
        """Emit a computation of the index of the first block in a thread's share."""
        scaled_share = self.scalar_code.emit(f"mul i64 {count}, {part}")
        return self.scalar_code.emit(f"sdiv i64 {scaled_share}, %parts")

    def _write_iterations(self, start: str) -> None:
        """Emit the loop over all iterations for the block of elements that begins at `start`."""
        self._block_start = start
        final_registers = self.emit_loop(self.signature.loop, self._load_inputs(start))
        for value, is_recorded in self.signature.outputs:
            if not is_recorded:
                start_index = "0" if is_single(value) else start
                self._store_cell(
                    value, final_registers[value], self.output_pointers[value], start_index
                )

    def _load_inputs(self, start: str) -> Cells:
        """Emit loads of the loop's inputs for the block of elements that begins at `start`."""
        return {
            value: self._load_value(
                value, self.input_pointers[value], "0" if is_single(value) else start
            )
            for value in self.signature.unscanned_arrays
        }

    # --- memory -------------------------------------------------------------------------------

    def _load_value(self, value: Value, pointer: str, start: str) -> Cell:
        if is_single(value):
            return Cell((self.load(self.scalar_code, value.dtype, pointer, start),), True)
        return Cell(
            tuple(
                self.load(self._vector_code, value.dtype, pointer, vector_start)
                for vector_start in self._vector_starts(start)
            )
        )

    def _store_cell(self, value: Value, cell: Cell, pointer: str, start: str) -> None:
        if is_single(value):
            self.store(self.scalar_code, value.dtype, cell.registers[0], pointer, start)
            return
        for k, vector_start in enumerate(self._vector_starts(start)):
            self.store(
                self._vector_code,
                value.dtype,
                self._vector_register(cell, k, value.dtype),
                pointer,
                vector_start,
            )

    def _vector_starts(self, start: str) -> list[str]:
        """Emit the index of the first element of each vector in a block."""
        vector_width = self._lane_block.vector_width
        vector_indices = range(self._lane_block.vector_count)
        return [
            start if k == 0 else self.scalar_code.emit(f"add i64 {start}, {k * vector_width}")
            for k in vector_indices
        ]

    def _row_start(self, number: str) -> str:
        row_offset = self.scalar_code.emit(f"mul i64 {number}, {self._lane_count}")
        return self.scalar_code.emit(f"add i64 {row_offset}, {self._block_start}")

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Emit a load of a block of elements from a row of a scanned array."""
        return self._load_value(
            scanned.row, self.input_pointers[scanned.rows], self._row_start(number)
        )

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Emit a store of a block of elements to a row of a recorded array.

        Large rows of aligned blocks are stored with nontemporal stores, since no iteration reads the rows again.
        """
        recorded_row, stack_pointer = recorded.row, self.output_pointers[recorded.stack]
        if is_single(recorded_row):
            self._store_cell(recorded_row, cell, stack_pointer, number)
            return
        first_lane = self._row_start(number)
        vector_bytes = ITEM_BYTES[recorded_row.dtype] * self._lane_block.vector_width
        if (
            vector_bytes * self._lane_block.vector_count % CACHE_LINE_BYTES
            or recorded_row.dtype == "bool"
        ):
            self._store_cell(recorded_row, cell, stack_pointer, first_lane)
            return
        function_text, scalar_code = self.function_text, self.scalar_code
        nontemporal_store_block, cached_store_block, end_block = (
            function_text.new_name(stem) for stem in ("past", "through", "written")
        )
        scalar_code.line(
            f"br i1 {self._write_stream_test(stack_pointer, recorded_row.dtype)}, label %{nontemporal_store_block}, label %{cached_store_block}"
        )
        scalar_code.label(cached_store_block)
        self._store_cell(recorded_row, cell, stack_pointer, first_lane)
        scalar_code.line(f"br label %{end_block}")
        scalar_code.label(nontemporal_store_block)
        for k, vector_start in enumerate(self._vector_starts(first_lane)):
            vector_pointer = self.element_address(recorded_row.dtype, stack_pointer, vector_start)
            register = self._vector_register(cell, k, recorded_row.dtype)
            self.stream(
                self._vector_code,
                recorded_row.dtype,
                register,
                vector_pointer,
                min(vector_bytes, CACHE_LINE_BYTES),
            )
        scalar_code.line(f"br label %{end_block}")
        scalar_code.label(end_block)

    def _write_stream_test(self, stack_pointer: str, dtype: str) -> str:
        """Emit a test whether recorded rows are suitable for nontemporal stores.

        Rows must have at least `MIN_STREAMED_LANES` lanes, and all blocks must be aligned to cache lines.
        """
        if stack_pointer not in self._stream_tests:
            scalar_code = self.scalar_code
            stack_address = scalar_code.emit(f"ptrtoint ptr {stack_pointer} to i64")
            row_bytes = scalar_code.emit(f"mul i64 {self._lane_count}, {ITEM_BYTES[dtype]}")
            address_and_size = scalar_code.emit(f"or i64 {stack_address}, {row_bytes}")
            misalignment = scalar_code.emit(f"and i64 {address_and_size}, {CACHE_LINE_BYTES - 1}")
            is_aligned = scalar_code.emit(f"icmp eq i64 {misalignment}, 0")
            has_enough_lanes = scalar_code.emit(
                f"icmp sge i64 {self._lane_count}, {MIN_STREAMED_LANES}"
            )
            self._stream_tests[stack_pointer] = scalar_code.emit(
                f"and i1 {is_aligned}, {has_enough_lanes}"
            )
        return self._stream_tests[stack_pointer]

    # --- operations ---------------------------------------------------------------------------

    def _vector_register(self, cell: Cell, vector_index: int, dtype: str) -> str:
        """Return the register of one vector of a value, after broadcasting a scalar to a vector."""
        if cell.is_scalar:
            return self._vector_code.broadcast(cell.registers[0], dtype)
        return cell.registers[vector_index]

    def _broadcast_cell(self, value: Value, cell: Cell) -> Cell:
        """Return the vector registers of a value, broadcast from a scalar if necessary."""
        if is_single(value) or not cell.is_scalar:
            return cell
        vector_indices = range(self._lane_block.vector_count)
        return Cell(tuple(self._vector_register(cell, k, value.dtype) for k in vector_indices))

    def op(self, op: Op, cells: Cells) -> None:
        """Emit an operation once for scalars, or for each vector of a block of elements."""
        operation_row, op_output = row_of(op.op_type), op.outputs[0]
        if operation_row.keeps_order:
            assert op.inputs[0] is not None
            cells[op_output] = self._broadcast_cell(op_output, self.cell(op.inputs[0], cells))
            return
        assert operation_row.native_code is not None
        operands = [operand for operand in op.inputs if operand is not None]
        if is_single(op_output):
            registers = [self.register_of(value, cells) for value in operands]
            cells[op_output] = Cell(
                (operation_row.native_code(self.scalar_code, op, *registers),), True
            )
            return
        vector_indices = range(self._lane_block.vector_count)
        lane_registers = [
            [
                self._vector_register(self.cell(operand, cells), k, operand.dtype)
                for operand in operands
            ]
            for k in vector_indices
        ]
        cells[op_output] = Cell(tuple(self.emit_vectors(self._vector_code, op, lane_registers)))

    def flush(self, cells: Cells) -> None:
        """Do nothing, because this emitter never defers operations."""

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Do nothing, because inner loops that scan or record arrays require another emitter."""

    def recorded_array_cells(self, loop: Loop, count: str) -> Cells:
        """Return an empty dict, because inner loops that record arrays require another emitter."""
        return {}

    def extents(self, value: Value) -> Extents:
        """Return the extents of an array, and emit loads of extents known only at run time."""
        return tuple(map(self.extent, value.shape or ()))

    def assign_extents(self, value: Value, other: Value) -> None:
        """Do nothing, because all arrays of the loop have the same shape."""

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Emit a check that ends the run with an error if a condition is false in any lane."""
        for register in cell.registers if self.output_pointers else ():
            is_false = self._vector_code.binary(
                "xor", "bool", register, self._vector_code.constant(True, "bool")
            )
            self._vector_code.fail_if(is_false, failure)

    def allocate_array(self, value: Value) -> LocalVariable:
        """Emit allocations of local memory (`alloca`) for all vectors of a block of elements."""
        vector_type = self._vector_code.type(value.dtype)
        return tuple(
            self._vector_code.allocate_local(vector_type)
            for _ in range(self._lane_block.vector_count)
        )

    def store_array(self, value: Value, other: Value, cell: Cell, variable: LocalVariable) -> None:
        """Emit stores of a block of array elements to local memory (`alloca`)."""
        vector_type = self._vector_code.type(value.dtype)
        for register, pointer in zip(
            self._broadcast_cell(value, cell).registers, variable, strict=True
        ):
            self._vector_code.line(f"store {vector_type} {register}, ptr {pointer}")

    def load_array(self, value: Value, variable: LocalVariable) -> Cell:
        """Emit loads of a block of array elements from local memory (`alloca`)."""
        vector_type = self._vector_code.type(value.dtype)
        return Cell(
            tuple(
                self._vector_code.emit(f"load {vector_type}, ptr {pointer}") for pointer in variable
            )
        )
