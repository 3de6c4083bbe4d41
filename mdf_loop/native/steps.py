"""LLVM code of a loop over time that computes whole arrays in memory, operation by operation.

    for t in range(trip):
        for k in range(n): a[k] = f(x[k], ...)      # operations element by element, fused
        b = a @ w; c = max(a)                       # operations on whole arrays, each by its own code
        rows[t] = b; x = a

The output array of an operation is in the memory of the loop. A scalar is in a register.
"""

from __future__ import annotations

from collections.abc import Mapping

from mdf_loop.ir import (
    Carried,
    Loop,
    Op,
    Recorded,
    Scanned,
    Value,
    is_fixed,
)
from mdf_loop.native import small_arrays
from mdf_loop.native.carrying import Axes, ChangingArrays, MoreExtentsChangeError, find_changed_axes
from mdf_loop.native.fused import FusedOperations
from mdf_loop.native.loop_text import (
    COUNT_FUNCTION,
    ITERATION_COUNT_CODE,
    LOOP_FUNCTION,
    PARAMETERS,
    LoopText,
)
from mdf_loop.native.memory import MemoryWriter
from mdf_loop.native.space import ALIGNMENT
from mdf_loop.native.stacks import GrowingRows, InnerStack, KnownRows, LateRows, RowStack
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.native.writer import Cells, LocalVariable
from mdf_loop.ops import row_of
from mdf_loop.ops.native import moves
from mdf_loop.ops.native.code import (
    Cell,
    Code,
    Failure,
    NotNative,
    is_single,
)
from mdf_loop.ops.registry import qualified_name

MAX_SCRATCH_BYTES = 1 << 26
"""Maximum bytes of memory for arrays between the operations of a loop."""


def write_steps(signature: KernelSignature, width: int) -> LoopText:
    """Return the LLVM code of a loop that computes whole arrays, operation by operation.

    Raises:
        NotNative: An operation of the loop has no machine code.
    """
    changing_axes: Axes = frozenset()
    while True:
        try:
            return _write_functions(signature, width, changing_axes)
        except MoreExtentsChangeError as change:
            changing_axes |= change.axes


def _write_functions(signature: KernelSignature, width: int, changing_axes: Axes) -> LoopText:
    """Return the LLVM code of a loop whose carried arrays change shape along `changing_axes`.

    Raises:
        MoreExtentsChangeError: The extents along other axes change, too.
        NotNative: An operation of the loop has no machine code.
    """
    failures: list[Failure] = []
    writers = [KernelWriter(signature, width, failures, changing_axes)]
    functions = [writers[0].write_loop(f"define i64 @{LOOP_FUNCTION}{PARAMETERS}")]
    has_count_function = signature.counts or bool(writers[0].changing.finals)
    if has_count_function:
        writers.append(KernelWriter(signature, width, failures, changing_axes))
        write_count = writers[1].write_count if signature.counts else writers[1].write_trip_count
        functions.append(write_count(f"define i64 @{COUNT_FUNCTION}{PARAMETERS}"))
    scratch_bytes = max(writer.space.scratch_bytes for writer in writers)
    if scratch_bytes > MAX_SCRATCH_BYTES:
        raise NotNative("its arrays are large")
    declarations = {
        name: declaration
        for writer in writers
        for name, declaration in writer.function_text.declarations.items()
    }
    llvm_code = "\n".join((*declarations.values(), *functions))
    room_count = max(writer.space.room_count for writer in writers)
    output_shapes, late_extent_count = writers[0].output_shapes(), writers[0].late_extent_count
    return LoopText(
        llvm_code,
        tuple(failures),
        output_shapes,
        has_count_function,
        scratch_bytes=scratch_bytes + ALIGNMENT,
        room_count=room_count,
        late_extent_count=late_extent_count,
    )


class KernelWriter(MemoryWriter):
    """Emitter of LLVM functions for a loop that computes whole arrays in memory.

    Attributes:
        changing: Carried arrays whose shape changes.
        late_extent_count: Number of extents of outputs that the loop computes.
    """

    def __init__(
        self, signature: KernelSignature, width: int, failures: list[Failure], changing: Axes
    ) -> None:
        super().__init__(signature, width, failures)
        self.late_extent_count = 0
        self.changing = ChangingArrays(self, changing)
        self._stacks: dict[Value, InnerStack] = {}
        self._outputs: dict[Value, tuple[int, ...]] = {}
        self._fused = FusedOperations(self, signature.loop)

    def write_loop(self, head: str) -> str:
        """Return an LLVM function that runs all iterations of the loop."""
        self._begin_function()
        final_cells = self._write_iterations()
        for value, is_stack in self.signature.outputs:
            if not is_stack:
                self._outputs[value] = shape = self._final_shape(value)
                pointer = self.stacks[value]
                if value in self.changing.finals:
                    pointer = self.changing.allocate_output(value, pointer)
                self.store_value(
                    value, final_cells[value], self.bounds.array(pointer, value, shape)
                )
        return self._end_function(head, self.scalar_code.emit(f"load i64, ptr {self.iterations}"))

    def write_count(self, head: str) -> str:
        """Return an LLVM function that counts the iterations without writing outputs."""
        self._begin_function(counts=True)
        self._write_iterations()
        return self._end_function(head, self.scalar_code.emit(f"load i64, ptr {self.iterations}"))

    def write_trip_count(self, head: str) -> str:
        """Return an LLVM function that returns the trip count and stores initial extents."""
        self._begin_function(counts=True)
        for carried_value in self.signature.loop.carried:
            self.changing.store_extents(carried_value.final, self.extents(carried_value.initial))
        return self._end_function(head, self.scalar_code.intrinsic("smax", "int64", "%trip", "0"))

    def _begin_function(self, *, counts: bool = False) -> None:
        self.begin(counts=counts)
        register_by_name = {name: self.extent(name) for name in extent_names(self.signature)}
        self.shapes.set_inputs(register_by_name, self.signature.inputs)
        self.late_extent_count = self.changing.assign_extent_indices(
            self.signature.loop, self.shapes.input_extent_count
        )
        self.space.begin(self.pointer("%out", len(self.signature.outputs)))

    def _write_iterations(self) -> Cells:
        """Emit all iterations of the loop, and return the cells of the final carried values."""
        signature = self.signature
        final_cells = self.loop(
            signature.loop,
            {array: self.as_cell(array, self.memory[array]) for array in signature.arrays},
        )
        for value in self.changing.finals:
            self.changing.store_extents(value, self.extents(value))
        return final_cells

    def _end_function(self, head: str, end: str) -> str:
        self.scalar_code.line(f"ret i64 {end}")
        self.space.end()
        return self.function(head)

    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Return the shape of each loop output, with negative codes for run-time extents.

        Call the method after all code is emitted.
        """
        return tuple(self._outputs[value] for value, _ in self.signature.outputs)

    def _final_shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of a final carried value, with negative codes for run-time extents."""
        for carried_value in self.signature.loop.carried:
            if carried_value.final is value and value in self.changing.finals:
                initial_shape = self.shapes.encoded_shape(carried_value.initial)
                assert initial_shape is not None
                return self.changing.final_shape(value, initial_shape)
        extents = self.shapes.encoded_shape(value)
        assert extents is not None
        return extents

    # --- operations ---------------------------------------------------------------------------

    def op(self, op: Op, cells: Cells) -> None:
        """Emit an operation, or defer an elementwise operation on arrays for fusion."""
        row, output = row_of(op.op_type), op.outputs[0]
        operands = [operand for operand in op.inputs if operand is not None]
        if row.is_elementwise and row.native_code is not None and is_single(output):
            if any(not is_single(operand) for operand in operands):  # an operand may be deferred
                self.flush(cells)
            registers = [self.register(operand, cells) for operand in operands]
            cells[output] = Cell((row.native_code(self.scalar_code, op, *registers),), True)
        elif (small_array := small_arrays.compute_in_registers(self, op, cells)) is not None:
            cells[output] = small_array
        elif row.is_elementwise and row.native_code is not None:
            self._fused.defer(op, cells)
        else:
            self.flush(cells)
            cells[output] = self._write_whole_op(op, cells)

    def _write_whole_op(self, op: Op, cells: Cells) -> Cell:
        row = row_of(op.op_type)
        if row.native_array_code is not None:
            return row.native_array_code(self, op, cells)
        if row.moved_operands is None and not row.keeps_order:
            raise NotNative(f"it has {qualified_name(op.op_type)}")
        return moves.write_move(self, op, cells)

    def flush(self, cells: Cells) -> None:
        """Emit all deferred elementwise operations."""
        self._fused.flush(cells)

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Emit a check that ends the run with an error if an element of an array is false."""

        def each(code: Code, k: str) -> None:
            element = self.load(code, "bool", pointer, k)
            is_false = code.binary("xor", "bool", element, code.constant(True, "bool"))
            code.fail_if(is_false, failure)

        pointer = self.pointer_of(value, cell)
        self.for_each_element(self.shapes.size(value), each)

    # --- places -------------------------------------------------------------------------------

    def allocate_array(self, value: Value) -> LocalVariable:
        """Allocate memory for an array that is assigned more than once."""
        if value not in self.changing:
            return (self.buffer(value),)
        self.changing.allocate(value)
        return ("",)

    def store_array(self, value: Value, other: Value, cell: Cell, variable: LocalVariable) -> None:
        """Emit an assignment of the array `other` to the array `value`, by a copy in memory."""
        if value in self.changing:
            self.changing.assign(value, other, self.pointer_of(other, cell))
        else:
            self.assign_extents(value, other)
            self.store_value(value, cell, variable[0])

    def load_array(self, value: Value, variable: LocalVariable) -> Cell:
        """Return a cell with the pointer to an array in memory."""
        return self.changing.load(value) if value in self.changing else Cell(pointer=variable[0])

    def assign_carried(
        self, loop: Loop, cells: Cells, variables: Mapping[Carried, LocalVariable]
    ) -> None:
        """Emit the assignment of all carried values for the next iteration.

        An array that may be in the memory of another carried value is copied before this memory is
        overwritten.
        """
        self._check_extents(loop)
        owned_pointers = self.space.own - {variable[0] for variable in variables.values()}
        assigned_cells = dict(cells)
        for carried_value in loop.carried:
            cell = self.cell(carried_value.body_output, cells)
            if cell.pointer and cell.pointer not in {*owned_pointers, variables[carried_value][0]}:
                copy_pointer = self.buffer(carried_value.body_output)
                self.copy(copy_pointer, cell.pointer, self.shapes.bytes(carried_value.body_output))
                assigned_cells[carried_value.body_output] = Cell(pointer=copy_pointer)
        super().assign_carried(loop, assigned_cells, variables)

    def _check_extents(self, loop: Loop) -> None:
        """Raise an error if a carried array changes shape along an axis assumed constant.

        Raises:
            MoreExtentsChangeError: More extents change.
        """
        carried_extents = (
            (
                carried_value,
                self.extents(carried_value.body_input),
                self.extents(carried_value.body_output),
            )
            for carried_value in loop.carried
        )
        changed_axes = frozenset(
            axis for value_extents in carried_extents for axis in find_changed_axes(*value_extents)
        )
        if not changed_axes <= self.changing.axes:
            raise MoreExtentsChangeError(changed_axes)

    # --- rows ---------------------------------------------------------------------------------

    def assign_extents(self, value: Value, other: Value) -> None:
        """Set the extents of the array `value` to those of the array `other`."""
        if other not in self.changing:
            super().assign_extents(value, other)
        elif is_single(value):
            raise NotNative("what it carries may change its shape")
        else:
            self.shapes.replace_extents(value, self.extents(other))

    def loop(self, loop: Loop, cells: Cells) -> Cells:
        """Emit all iterations of a loop, and return the cells of the results."""
        for scanned_input in loop.scanned:
            self.shapes.record_extents(scanned_input.row, self.extents(scanned_input.rows)[1:])
        return super().loop(loop, cells)

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return a cell with the pointer to a row of a scanned array."""
        pointer, offset = (
            self.memory[scanned.rows],
            self.multiply(number, self.shapes.bytes(scanned.row)),
        )
        return self.as_cell(scanned.row, self.offset_pointer(pointer, offset))

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Prepare the memory for the scanned and recorded rows of an inner loop."""
        for scanned_input in loop.scanned:
            rows = self.cell(scanned_input.rows, cells)
            self.memory[scanned_input.rows] = self.pointer_of(scanned_input.rows, rows)
        for recorded_value in loop.recorded:
            if self._has_known_rows(loop, recorded_value):
                pointer = self.buffer(recorded_value.stack)
                shape = self.extents(recorded_value.stack)[1:]
                self._stacks[recorded_value.stack] = KnownRows(self, recorded_value, pointer, shape)
            else:
                self._stacks[recorded_value.stack] = GrowingRows(self, loop, recorded_value)

    def _has_known_rows(self, loop: Loop, recorded: Recorded) -> bool:
        """Return True if an inner loop records a number of rows that is known in advance.

        Raises:
            NotNative: The program states a number of rows that the trip count does not confirm.
        """
        if not is_fixed(recorded.stack.shape):
            return False
        trip_count = None if loop.trip_count is None else self.constant_of(loop.trip_count)
        row_count = recorded.stack.shape[0]
        if (
            loop.condition is not None
            or trip_count is None
            or max(int(trip_count.item()), 0) != row_count
        ):
            raise NotNative("a loop in it has rows, and how many is known only when it runs")
        return True

    def stack_cells(self, loop: Loop, count: str) -> Cells:
        """Return the cells of the arrays that an inner loop has recorded."""
        stacks = [recorded_value.stack for recorded_value in loop.recorded]
        pointers = {stack: self._stacks[stack].rows_pointer(count) for stack in stacks}
        return {stack: self.as_cell(stack, pointer) for stack, pointer in pointers.items()}

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Emit a store of one row of a recorded array."""
        is_inner_loop = loop is not self.signature.loop
        row_stack = self._stacks[recorded.stack] if is_inner_loop else self._output_rows(recorded)
        row_stack.record(cell, number)

    def _output_rows(self, recorded: Recorded) -> RowStack:
        """Return the memory for the rows that the outer loop records.

        An extent without a number in the program is 0 if there are no rows, for native and standard loops.
        So the first row determines this extent, even if the writer knows the extent.
        """
        extents = self.shapes.encoded_shape(recorded.row)
        if extents is not None and is_fixed(recorded.row.shape):
            self._outputs[recorded.stack] = shape = (ITERATION_COUNT_CODE, *extents)
            pointer = self.stacks[recorded.stack]
            pointer = self.bounds.array(pointer, recorded.stack, shape)
            return KnownRows(self, recorded, pointer, self.extents(recorded.row))
        late_rows = LateRows(
            self,
            self.signature.loop,
            recorded,
            self.shapes.input_extent_count + self.late_extent_count,
        )
        self._outputs[recorded.stack] = (ITERATION_COUNT_CODE, *late_rows.row_shape)
        self.late_extent_count += late_rows.count
        return late_rows
