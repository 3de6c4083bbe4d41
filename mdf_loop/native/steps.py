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
from mdf_loop.native.stacks import DeferredRows, GrowingRows, InnerStack, KnownRows, RowStack
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
            changing_axes |= change.changing_axes


def _write_functions(signature: KernelSignature, width: int, changing_axes: Axes) -> LoopText:
    """Return the LLVM code of a loop whose carried arrays change shape along `changing_axes`.

    Raises:
        MoreExtentsChangeError: The extents along other axes change, too.
        NotNative: An operation of the loop has no machine code.
    """
    failures: list[Failure] = []
    kernel_writers = [KernelWriter(signature, width, failures, changing_axes)]
    llvm_functions = [kernel_writers[0].write_loop(f"define i64 @{LOOP_FUNCTION}{PARAMETERS}")]
    has_count_function = signature.needs_iteration_count or bool(
        kernel_writers[0].changing_arrays.final_extent_indices
    )
    if has_count_function:
        kernel_writers.append(KernelWriter(signature, width, failures, changing_axes))
        write_count = (
            kernel_writers[1].write_count
            if signature.needs_iteration_count
            else kernel_writers[1].write_trip_count
        )
        llvm_functions.append(write_count(f"define i64 @{COUNT_FUNCTION}{PARAMETERS}"))
    scratch_bytes = max(writer.function_memory.scratch_bytes for writer in kernel_writers)
    if scratch_bytes > MAX_SCRATCH_BYTES:
        raise NotNative("its arrays are large")
    declarations = {
        name: declaration
        for writer in kernel_writers
        for name, declaration in writer.function_text.declarations.items()
    }
    llvm_code = "\n".join((*declarations.values(), *llvm_functions))
    growable_buffer_count = max(
        writer.function_memory.growable_buffer_count for writer in kernel_writers
    )
    output_shapes, computed_extent_count = (
        kernel_writers[0].output_shapes(),
        kernel_writers[0].computed_extent_count,
    )
    return LoopText(
        llvm_code,
        tuple(failures),
        output_shapes,
        has_count_function,
        scratch_bytes=scratch_bytes + ALIGNMENT,
        growable_buffer_count=growable_buffer_count,
        computed_extent_count=computed_extent_count,
    )


class KernelWriter(MemoryWriter):
    """Emitter of LLVM functions for a loop that computes whole arrays in memory.

    Attributes:
        changing_arrays: Carried arrays whose shape changes.
        computed_extent_count: Number of extents of outputs that the loop computes.
    """

    def __init__(
        self, signature: KernelSignature, width: int, failures: list[Failure], changing_axes: Axes
    ) -> None:
        super().__init__(signature, width, failures)
        self.computed_extent_count = 0
        self.changing_arrays = ChangingArrays(self, changing_axes)
        self._inner_row_stacks: dict[Value, InnerStack] = {}
        self._encoded_output_shapes: dict[Value, tuple[int, ...]] = {}
        self._fused_operations = FusedOperations(self, signature.loop)

    def write_loop(self, head: str) -> str:
        """Return an LLVM function that runs all iterations of the loop."""
        self._begin_function()
        final_cells = self._write_iterations()
        for value, is_recorded in self.signature.outputs:
            if not is_recorded:
                self._encoded_output_shapes[value] = output_shape = self._final_shape(value)
                output_pointer = self.output_pointers[value]
                if value in self.changing_arrays.final_extent_indices:
                    output_pointer = self.changing_arrays.allocate_output(value, output_pointer)
                self.store_value(
                    value,
                    final_cells[value],
                    self.bounds.register_array(output_pointer, value, output_shape),
                )
        return self._end_function(
            head, self.scalar_code.emit(f"load i64, ptr {self.iteration_count_pointer}")
        )

    def write_count(self, head: str) -> str:
        """Return an LLVM function that counts the iterations without writing outputs."""
        self._begin_function(is_counting=True)
        self._write_iterations()
        return self._end_function(
            head, self.scalar_code.emit(f"load i64, ptr {self.iteration_count_pointer}")
        )

    def write_trip_count(self, head: str) -> str:
        """Return an LLVM function that returns the trip count and stores initial extents."""
        self._begin_function(is_counting=True)
        for carried_value in self.signature.loop.carried:
            self.changing_arrays.store_extents(
                carried_value.final, self.extents(carried_value.initial)
            )
        return self._end_function(head, self.scalar_code.intrinsic("smax", "int64", "%trip", "0"))

    def _begin_function(self, *, is_counting: bool = False) -> None:
        self.begin(is_counting=is_counting)
        register_by_name = {name: self.extent(name) for name in extent_names(self.signature)}
        self.value_extents.set_inputs(register_by_name, self.signature.inputs)
        self.computed_extent_count = self.changing_arrays.assign_extent_indices(
            self.signature.loop, self.value_extents.input_extent_count
        )
        self.function_memory.begin(self.load_pointer("%out", len(self.signature.outputs)))

    def _write_iterations(self) -> Cells:
        """Emit all iterations of the loop, and return the registers or pointers of its results."""
        signature = self.signature
        final_value_cells = self.emit_loop(
            signature.loop,
            {
                array: self.as_cell(array, self.input_pointers[array])
                for array in signature.unscanned_arrays
            },
        )
        for value in self.changing_arrays.final_extent_indices:
            self.changing_arrays.store_extents(value, self.extents(value))
        return final_value_cells

    def _end_function(self, head: str, end: str) -> str:
        self.scalar_code.line(f"ret i64 {end}")
        self.function_memory.end()
        return self.finish_function(head)

    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Return the shape of each loop output, with run-time extents encoded as negative numbers.

        Call the method after all code is emitted.
        """
        return tuple(self._encoded_output_shapes[value] for value, _ in self.signature.outputs)

    def _final_shape(self, value: Value) -> tuple[int, ...]:
        """Return a carried value's final shape, with run-time extents as negative numbers."""
        for carried_value in self.signature.loop.carried:
            if carried_value.final is value and value in self.changing_arrays.final_extent_indices:
                initial_shape = self.value_extents.encoded_shape(carried_value.initial)
                assert initial_shape is not None
                return self.changing_arrays.final_shape(value, initial_shape)
        encoded_extents = self.value_extents.encoded_shape(value)
        assert encoded_extents is not None
        return encoded_extents

    # --- operations ---------------------------------------------------------------------------

    def op(self, op: Op, cells: Cells) -> None:
        """Emit an operation, or defer an elementwise operation on arrays for fusion."""
        operation_row, op_output = row_of(op.op_type), op.outputs[0]
        operands = [operand for operand in op.inputs if operand is not None]
        if (
            operation_row.is_elementwise
            and operation_row.native_code is not None
            and is_single(op_output)
        ):
            if any(not is_single(operand) for operand in operands):  # an operand may be deferred
                self.flush(cells)
            registers = [self.register_of(operand, cells) for operand in operands]
            cells[op_output] = Cell(
                (operation_row.native_code(self.scalar_code, op, *registers),), True
            )
        elif (small_array := small_arrays.compute_in_registers(self, op, cells)) is not None:
            cells[op_output] = small_array
        elif operation_row.is_elementwise and operation_row.native_code is not None:
            self._fused_operations.defer(op, cells)
        else:
            self.flush(cells)
            cells[op_output] = self._write_whole_op(op, cells)

    def _write_whole_op(self, op: Op, cells: Cells) -> Cell:
        operation_row = row_of(op.op_type)
        if operation_row.native_array_code is not None:
            return operation_row.native_array_code(self, op, cells)
        if operation_row.moved_operands is None and not operation_row.keeps_order:
            raise NotNative(f"it has {qualified_name(op.op_type)}")
        return moves.write_move(self, op, cells)

    def flush(self, cells: Cells) -> None:
        """Emit all deferred elementwise operations."""
        self._fused_operations.flush(cells)

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Emit a check that ends the run with an error if an element of an array is false."""

        def each(code: Code, k: str) -> None:
            loaded_bool = self.load(code, "bool", array_pointer, k)
            is_false = code.binary("xor", "bool", loaded_bool, code.constant(True, "bool"))
            code.fail_if(is_false, failure)

        array_pointer = self.pointer_of(value, cell)
        self.for_each_element(self.value_extents.size(value), each)

    # --- places -------------------------------------------------------------------------------

    def allocate_array(self, value: Value) -> LocalVariable:
        """Allocate memory for an array that is assigned more than once."""
        if value not in self.changing_arrays:
            return (self.allocate_buffer(value),)
        self.changing_arrays.allocate(value)
        return ("",)

    def store_array(self, value: Value, other: Value, cell: Cell, variable: LocalVariable) -> None:
        """Emit an assignment of the array `other` to the array `value`, by a copy in memory."""
        if value in self.changing_arrays:
            self.changing_arrays.assign(value, other, self.pointer_of(other, cell))
        else:
            self.assign_extents(value, other)
            self.store_value(value, cell, variable[0])

    def load_array(self, value: Value, variable: LocalVariable) -> Cell:
        """Return the pointer to an array in memory, in a `Cell`."""
        return (
            self.changing_arrays.load(value)
            if value in self.changing_arrays
            else Cell(pointer=variable[0])
        )

    def assign_carried(
        self, loop: Loop, cells: Cells, variables: Mapping[Carried, LocalVariable]
    ) -> None:
        """Emit the assignment of all carried values for the next iteration.

        An array that may be in the memory of another carried value is copied before this memory is
        overwritten.
        """
        self._check_extents(loop)
        owned_pointers = self.function_memory.unshared_pointers - {
            variable[0] for variable in variables.values()
        }
        assigned_cells = dict(cells)
        for carried_value in loop.carried:
            output_cell = self.cell(carried_value.body_output, cells)
            if output_cell.pointer and output_cell.pointer not in {
                *owned_pointers,
                variables[carried_value][0],
            }:
                copy_pointer = self.allocate_buffer(carried_value.body_output)
                self.copy(
                    copy_pointer,
                    output_cell.pointer,
                    self.value_extents.bytes(carried_value.body_output),
                )
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
        if not changed_axes <= self.changing_arrays.changing_axes:
            raise MoreExtentsChangeError(changed_axes)

    # --- rows ---------------------------------------------------------------------------------

    def assign_extents(self, value: Value, other: Value) -> None:
        """Set the extents of the array `value` to those of the array `other`."""
        if other not in self.changing_arrays:
            super().assign_extents(value, other)
        elif is_single(value):
            raise NotNative("what it carries may change its shape")
        else:
            self.value_extents.replace_extents(value, self.extents(other))

    def emit_loop(self, loop: Loop, cells: Cells) -> Cells:
        """Emit all iterations of a loop, and return the registers or pointers of its results."""
        for scanned_input in loop.scanned:
            self.value_extents.record_extents(
                scanned_input.row, self.extents(scanned_input.rows)[1:]
            )
        return super().emit_loop(loop, cells)

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return the pointer to a row of a scanned array, or the register of a scalar row."""
        rows_pointer, row_offset = (
            self.input_pointers[scanned.rows],
            self.multiply(number, self.value_extents.bytes(scanned.row)),
        )
        return self.as_cell(scanned.row, self.offset_pointer(rows_pointer, row_offset))

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Prepare the memory for the scanned and recorded rows of an inner loop."""
        for scanned_input in loop.scanned:
            rows_cell = self.cell(scanned_input.rows, cells)
            self.input_pointers[scanned_input.rows] = self.pointer_of(scanned_input.rows, rows_cell)
        for recorded_value in loop.recorded:
            if self._has_known_rows(loop, recorded_value):
                rows_pointer = self.allocate_buffer(recorded_value.stack)
                row_shape = self.extents(recorded_value.stack)[1:]
                self._inner_row_stacks[recorded_value.stack] = KnownRows(
                    self, recorded_value, rows_pointer, row_shape
                )
            else:
                self._inner_row_stacks[recorded_value.stack] = GrowingRows(
                    self, loop, recorded_value
                )

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

    def recorded_array_cells(self, loop: Loop, count: str) -> Cells:
        """Return the registers or pointers of the arrays that an inner loop has recorded."""
        recorded_arrays = [recorded_value.stack for recorded_value in loop.recorded]
        rows_pointers = {
            stack: self._inner_row_stacks[stack].rows_pointer(count) for stack in recorded_arrays
        }
        return {stack: self.as_cell(stack, pointer) for stack, pointer in rows_pointers.items()}

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Emit a store of one row of a recorded array."""
        is_inner_loop = loop is not self.signature.loop
        row_stack = (
            self._inner_row_stacks[recorded.stack] if is_inner_loop else self._output_rows(recorded)
        )
        row_stack.record(cell, number)

    def _output_rows(self, recorded: Recorded) -> RowStack:
        """Return the memory for the rows that the outer loop records.

        An extent without a number in the program is 0 if there are no rows, for native and standard loops.
        So the first row determines this extent, even if the writer knows the extent.
        """
        row_extents = self.value_extents.encoded_shape(recorded.row)
        if row_extents is not None and is_fixed(recorded.row.shape):
            self._encoded_output_shapes[recorded.stack] = output_shape = (
                ITERATION_COUNT_CODE,
                *row_extents,
            )
            output_pointer = self.output_pointers[recorded.stack]
            output_pointer = self.bounds.register_array(
                output_pointer, recorded.stack, output_shape
            )
            return KnownRows(self, recorded, output_pointer, self.extents(recorded.row))
        deferred_rows = DeferredRows(
            self,
            self.signature.loop,
            recorded,
            self.value_extents.input_extent_count + self.computed_extent_count,
        )
        self._encoded_output_shapes[recorded.stack] = (
            ITERATION_COUNT_CODE,
            *deferred_rows.row_shape,
        )
        self.computed_extent_count += deferred_rows.extent_count
        return deferred_rows
