"""Emission of LLVM code for loops, branches and run-time assertions.

While code is written, each value has a `Cell`: the register of a scalar, or an array in the representation of
a subclass. A value that is assigned several times (a carried value, the output of a branch) is in local
memory, which LLVM turns into registers where possible.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from mdf_loop.ir import Carried, Guard, If, Loop, Op, Operation, Recorded, Scanned, Value
from mdf_loop.native.array_writer import ArrayWriter
from mdf_loop.native.loop_text import STOPPED_CODE
from mdf_loop.native.support import STOP_FLAG, KernelSignature, extent_names
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    Cell,
    Code,
    Extent,
    Failure,
    NotNative,
    is_single,
)

Cells: TypeAlias = dict[Value, Cell]
"""Storage (registers or a pointer) of each value in one scope."""
LocalVariable: TypeAlias = tuple[str, ...]
"""Registers of pointers to the local memory of a value."""


class FunctionWriter(ArrayWriter):
    """Base class of emitters of the LLVM functions of a loop.

    Attributes:
        input_pointers: Pointers to the inputs.
        output_pointers: Pointers to the outputs. Empty if the function only counts iterations.
        is_counting: True if the function only counts iterations.
    """

    def __init__(self, signature: KernelSignature, failures: list[Failure]) -> None:
        super().__init__(signature, failures)
        self.input_pointers: dict[Value, str] = {}
        self.output_pointers: dict[Value, str] = {}
        self.is_counting = False
        self._stop_flag_pointer = ""

    def begin(self, *, is_counting: bool = False) -> None:
        """Emit loads of the pointers to all inputs and outputs.

        If `is_counting` is True, there are no outputs.
        """
        scalar_code, signature = self.scalar_code, self.signature
        self.is_counting = is_counting
        for k, value in enumerate(signature.inputs):
            self.input_pointers[value] = self.bounds.register_array(
                self.load_pointer("%in", k), value
            )
        if not is_counting:
            for k, (value, _) in enumerate(signature.outputs):
                self.output_pointers[value] = self.load_pointer("%out", k)
        self.bounds.check_access(
            self.input_pointers[STOP_FLAG], ITEM_BYTES[STOP_FLAG.dtype], ITEM_BYTES[STOP_FLAG.dtype]
        )
        flag_address = scalar_code.emit(f"load i64, ptr {self.input_pointers[STOP_FLAG]}")
        self._stop_flag_pointer = scalar_code.emit(f"inttoptr i64 {flag_address} to ptr")

    def load_pointer(self, array: str, position: int) -> str:
        """Emit a load of the pointer at index `position` of an array of pointers."""
        pointer_address = self.scalar_code.emit(f"getelementptr ptr, ptr {array}, i64 {position}")
        return self.scalar_code.emit(f"load ptr, ptr {pointer_address}")

    def finish_function(self, head: str) -> str:
        """Return the emitted code as an LLVM function whose first line is `head`."""
        function_text = self.function_text
        return "\n".join(
            [
                f"{head} {{",
                "entry:",
                *function_text.allocation_lines,
                *function_text.instruction_lines,
                "}",
            ]
        )

    # --- methods for arrays -----------------------------------------------------------------------

    @abstractmethod
    def op(self, op: Op, cells: Cells) -> None:
        """Emit an operation, and add the registers or pointer of its output to `cells`."""

    @abstractmethod
    def allocate_array(self, value: Value) -> LocalVariable:
        """Allocate local memory for an array that is assigned more than once."""

    @abstractmethod
    def store_array(self, value: Value, other: Value, cell: Cell, variable: LocalVariable) -> None:
        """Emit an assignment of the array `other` to the local memory of `value`."""

    @abstractmethod
    def load_array(self, value: Value, variable: LocalVariable) -> Cell:
        """Emit a load of an array from the local memory of the array."""

    @abstractmethod
    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return the registers or the pointer of one row of a scanned array."""

    @abstractmethod
    def assign_extents(self, value: Value, other: Value) -> None:
        """Set the extents of the array `value` to those of the array `other`."""

    @abstractmethod
    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Emit a store of one row of a recorded array."""

    @abstractmethod
    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Prepare the memory for the scanned and recorded rows of an inner loop."""

    @abstractmethod
    def recorded_array_cells(self, loop: Loop, count: str) -> Cells:
        """Return the registers or pointers of the arrays that an inner loop has recorded."""

    @abstractmethod
    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Emit a check that ends the run with an error if an element of an array is false."""

    @abstractmethod
    def flush(self, cells: Cells) -> None:
        """Emit all deferred elementwise operations."""

    # --- values -----------------------------------------------------------------------------------

    def cell(self, value: Value, cells: Mapping[Value, Cell]) -> Cell:
        """Return the registers or the pointer of a value or constant."""
        if value in cells:
            return cells[value]
        constant_number = self.signature.scalar_constants[value].reshape(-1)[0]
        return Cell((self.scalar_code.constant(constant_number, value.dtype),), True)

    def register_of(self, value: Value, cells: Cells) -> str:
        """Return the register of a scalar, or raise NotNative for an array.

        Raises:
            NotNative: The value is an array.
        """
        value_cell = self.cell(value, cells)
        if not value_cell.is_scalar:
            raise NotNative(f"'{value.name}' is an array where one number is wanted")
        return value_cell.registers[0]

    # --- operations -------------------------------------------------------------------------------

    def ops(self, ops: Iterable[Operation], cells: Cells) -> None:
        """Emit LLVM code of operations, in order."""
        for operation in ops:
            if isinstance(operation, Op):
                self._write_op(operation, cells)
                continue
            self.flush(cells)
            if isinstance(operation, Guard):
                self._write_guard(operation, cells)
            elif isinstance(operation, If):
                self._write_branch(operation, cells)
            elif isinstance(operation, Loop):
                cells.update(self.emit_loop(operation, cells))
        self.flush(cells)

    def _write_op(self, op: Op, cells: Cells) -> None:
        try:
            self.op(op, cells)
        except NotNative as reason:
            reason.op = reason.op or op
            raise

    def emit_vectors(self, code: Code, op: Op, operands: Sequence[Sequence[str]]) -> Sequence[str]:
        """Emit an elementwise operation on several vectors of elements."""
        operation_row = row_of(op.op_type)
        assert operation_row.native_code is not None
        if operation_row.native_vector_code is not None:
            return operation_row.native_vector_code(code, op, *operands)
        return [operation_row.native_code(code, op, *registers) for registers in operands]

    def _write_guard(self, guard: Guard, cells: Cells) -> None:
        """Emit a run-time assertion, which ends the run with an error if its condition is false."""
        guard_failure, condition_cell = (
            Failure(guard.message, guard.where),
            self.cell(guard.condition, cells),
        )
        if condition_cell.is_scalar:
            is_false = self.scalar_code.binary("xor", "bool", condition_cell.registers[0], "true")
            self.scalar_code.fail_if(is_false, guard_failure)
        else:
            self.check(guard.condition, condition_cell, guard_failure)
        cells[guard.output] = self.cell(guard.value, cells)
        self.assign_extents(guard.output, guard.value)

    def _write_branch(self, choice: If, cells: Cells) -> None:
        """Emit a conditional (`If`), of which only the selected branch is executed."""
        scalar_code, function_text = self.scalar_code, self.function_text
        block_labels = [function_text.new_name(stem) for stem in ("then", "otherwise", "chosen")]
        output_variables = {value: self._allocate_variable(value) for value in choice.outputs}
        condition = self.register_of(choice.condition, cells)
        scalar_code.line(f"br i1 {condition}, label %{block_labels[0]}, label %{block_labels[1]}")
        for label, branch in zip(block_labels, (choice.then, choice.otherwise), strict=False):
            scalar_code.label(label)
            branch_cells = dict(cells)
            self.ops(branch.ops, branch_cells)
            for value, branch_output in zip(choice.outputs, branch.outputs, strict=True):
                self._store_variable(value, branch_output, branch_cells, output_variables[value])
            scalar_code.line(f"br label %{block_labels[2]}")
        scalar_code.label(block_labels[2])
        cells.update(
            (value, self._load_variable(value, output_variables[value])) for value in choice.outputs
        )

    # --- places -----------------------------------------------------------------------------------

    def _allocate_variable(self, value: Value) -> LocalVariable:
        if is_single(value):
            return (self.scalar_code.allocate_local(self.scalar_code.type(value.dtype)),)
        return self.allocate_array(value)

    def _store_variable(
        self, value: Value, other: Value, cells: Cells, variable: LocalVariable
    ) -> None:
        """Emit an assignment of the value `other` to the local memory of `value`."""
        if is_single(value):
            llvm_type = self.scalar_code.type(value.dtype)
            self.scalar_code.line(
                f"store {llvm_type} {self.register_of(other, cells)}, ptr {variable[0]}"
            )
        else:
            self.store_array(value, other, self.cell(other, cells), variable)

    def _load_variable(self, value: Value, variable: LocalVariable) -> Cell:
        if is_single(value):
            llvm_type = self.scalar_code.type(value.dtype)
            return Cell((self.scalar_code.emit(f"load {llvm_type}, ptr {variable[0]}"),), True)
        return self.load_array(value, variable)

    # --- loops ------------------------------------------------------------------------------------

    def repeat(self, begin: str, end: str, step: int, write: Callable[[str], None]) -> None:
        """Emit a counting loop from `begin` to `end` (exclusive) in steps of `step`."""
        scalar_code, function_text = self.scalar_code, self.function_text
        loop_number_pointer = scalar_code.allocate_local("i64")
        test_block, body_block, end_block = (
            function_text.new_name(stem) for stem in ("again", "body", "done")
        )
        scalar_code.line(f"store i64 {begin}, ptr {loop_number_pointer}")
        scalar_code.line(f"br label %{test_block}")
        scalar_code.label(test_block)
        loop_number = scalar_code.emit(f"load i64, ptr {loop_number_pointer}")
        is_below_end = scalar_code.emit(f"icmp slt i64 {loop_number}, {end}")
        scalar_code.line(f"br i1 {is_below_end}, label %{body_block}, label %{end_block}")
        scalar_code.label(body_block)
        write(loop_number)
        next_number = scalar_code.emit(f"add i64 {loop_number}, {step}")
        scalar_code.line(f"store i64 {next_number}, ptr {loop_number_pointer}")
        scalar_code.line(f"br label %{test_block}")
        scalar_code.label(end_block)

    def emit_loop(self, loop: Loop, cells: Cells) -> Cells:
        """Emit all iterations of a loop, and return the registers or pointers of its results."""
        scalar_code, function_text = self.scalar_code, self.function_text
        iteration_pointer, condition_pointer, last_condition_pointer = (
            scalar_code.allocate_local("i64"),
            scalar_code.allocate_local("i1"),
            scalar_code.allocate_local("i1"),
        )
        for carried_value in loop.carried:
            self.assign_extents(carried_value.body_input, carried_value.initial)
        carried_variables = {
            carried_value: self._allocate_variable(carried_value.body_input)
            for carried_value in loop.carried
        }
        initial_condition = (
            "true" if loop.condition is None else self.register_of(loop.condition, cells)
        )
        scalar_code.line(f"store i64 0, ptr {iteration_pointer}")
        for flag_pointer in (condition_pointer, last_condition_pointer):
            scalar_code.line(f"store i1 {initial_condition}, ptr {flag_pointer}")
        for carried_value in loop.carried:
            self._store_variable(
                carried_value.body_input,
                carried_value.initial,
                cells,
                carried_variables[carried_value],
            )
        trip_count = self._trip_count(loop, cells)
        if loop.condition is None:
            self._check_rows(loop, trip_count)
        if loop is not self.signature.loop:
            self.prepare_rows(loop, cells)
        test_block, body_block, end_block = (
            function_text.new_name(stem) for stem in ("again", "body", "done")
        )
        scalar_code.line(f"br label %{test_block}")
        scalar_code.label(test_block)
        iteration_index = scalar_code.emit(f"load i64, ptr {iteration_pointer}")
        is_below_trip_count = scalar_code.emit(f"icmp slt i64 {iteration_index}, {trip_count}")
        has_next_iteration = scalar_code.emit(
            f"and i1 {is_below_trip_count}, {scalar_code.emit(f'load i1, ptr {condition_pointer}')}"
        )
        scalar_code.line(f"br i1 {has_next_iteration}, label %{body_block}, label %{end_block}")
        scalar_code.label(body_block)
        self._check_stop_flag()
        self._write_iteration(
            loop,
            dict(cells),
            (iteration_index, condition_pointer, last_condition_pointer),
            carried_variables,
        )
        next_iteration = scalar_code.emit(f"add i64 {iteration_index}, 1")
        scalar_code.line(f"store i64 {next_iteration}, ptr {iteration_pointer}")
        scalar_code.line(f"br label %{test_block}")
        scalar_code.label(end_block)
        final_cells: Cells = {
            carried_value.final: self._load_variable(
                carried_value.body_input, carried_variables[carried_value]
            )
            for carried_value in loop.carried
        }
        for carried_value in loop.carried:
            self.assign_extents(carried_value.final, carried_value.body_input)
        iteration_count = scalar_code.emit(f"load i64, ptr {iteration_pointer}")
        if loop is not self.signature.loop:
            final_cells.update(self.recorded_array_cells(loop, iteration_count))
        if loop.iteration_count is not None:
            final_cells[loop.iteration_count] = Cell((iteration_count,), True)
        if loop.last_condition is not None:
            final_cells[loop.last_condition] = Cell(
                (scalar_code.emit(f"load i1, ptr {last_condition_pointer}"),), True
            )
        self.iteration_count_pointer = iteration_pointer
        return final_cells

    def _check_stop_flag(self) -> None:
        """Emit an early return that is taken if the stop flag is set."""
        scalar_code, function_text = self.scalar_code, self.function_text
        stop_flag = scalar_code.emit(f"load volatile i64, ptr {self._stop_flag_pointer}")
        is_stop_requested = scalar_code.emit(f"icmp ne i64 {stop_flag}, 0")
        stop_block, continue_block = (
            function_text.new_name("stopped"),
            function_text.new_name("goes_on"),
        )
        scalar_code.line(f"br i1 {is_stop_requested}, label %{stop_block}, label %{continue_block}")
        scalar_code.label(stop_block)
        scalar_code.line(f"ret i64 -{STOPPED_CODE}")
        scalar_code.label(continue_block)

    def _trip_count(self, loop: Loop, cells: Cells) -> str:
        if loop is self.signature.loop:
            return "%trip"
        if loop.trip_count is not None:
            return self.register_of(loop.trip_count, cells)
        return str(np.iinfo(np.int64).max if loop.max_iterations is None else loop.max_iterations)

    def _write_iteration(
        self,
        loop: Loop,
        cells: Cells,
        control: tuple[str, str, str],
        variables: Mapping[Carried, LocalVariable],
    ) -> None:
        iteration_index, condition_pointer, last_condition_pointer = control
        scalar_code = self.scalar_code
        iteration_number = iteration_index
        if loop.first_iteration is not None:
            iteration_number = scalar_code.emit(
                f"add i64 {iteration_index}, {self.register_of(loop.first_iteration, cells)}"
            )
        cells[loop.iteration] = Cell((iteration_number,), True)
        cells[loop.condition_in] = Cell(
            (scalar_code.emit(f"load i1, ptr {condition_pointer}"),), True
        )
        for carried_value in loop.carried:
            cells[carried_value.body_input] = self._load_variable(
                carried_value.body_input, variables[carried_value]
            )
        if loop.condition is not None and loop.scanned:
            self._check_rows(loop, scalar_code.emit(f"add i64 {iteration_index}, 1"))
        for scanned_input in loop.scanned:
            cells[scanned_input.row] = self._scanned_cell(scanned_input, iteration_index)
        self.ops(loop.ops, cells)
        if loop is not self.signature.loop or not self.is_counting:
            for recorded_value in loop.recorded:
                self.record(
                    loop, recorded_value, self.cell(recorded_value.row, cells), iteration_index
                )
        self.assign_carried(loop, cells, variables)
        if loop.condition_out is not None:
            condition_out = self.register_of(loop.condition_out, cells)
            for flag_pointer in (
                last_condition_pointer,
                *((condition_pointer,) if loop.condition is not None else ()),
            ):
                scalar_code.line(f"store i1 {condition_out}, ptr {flag_pointer}")

    def assign_carried(
        self, loop: Loop, cells: Cells, variables: Mapping[Carried, LocalVariable]
    ) -> None:
        """Emit the assignment of all carried values for the next iteration."""
        for carried_value in loop.carried:
            self._store_variable(
                carried_value.body_input, carried_value.body_output, cells, variables[carried_value]
            )

    # --- rows -------------------------------------------------------------------------------------

    def _scanned_cell(self, scanned: Scanned, iteration: str) -> Cell:
        """Emit a load of the row that an iteration reads from a scanned array."""
        row_index = iteration
        if scanned.is_backward:
            last_index = self.scalar_code.emit(f"sub i64 {self._row_count(scanned)}, 1")
            row_index = self.scalar_code.emit(f"sub i64 {last_index}, {iteration}")
        if not is_single(scanned.row):
            return self.array_row(scanned, row_index)
        rows_pointer = self.input_pointers[scanned.rows]
        return Cell(
            (self.load(self.scalar_code, scanned.row.dtype, rows_pointer, row_index),), True
        )

    def _row_count(self, scanned: Scanned) -> Extent:
        """Return the number of rows of a scanned array, as a number or a register."""
        return self.extents(scanned.rows)[0]

    def extent(self, extent: int | str) -> str:
        """Return an extent as an LLVM literal, or emit a load of a named extent."""
        if isinstance(extent, int):
            return str(extent)
        extent_index = extent_names(self.signature).index(extent)
        extent_pointer = self.scalar_code.emit(
            f"getelementptr i64, ptr %extents, i64 {extent_index}"
        )
        return self.scalar_code.emit(f"load i64, ptr {extent_pointer}")

    def _check_rows(self, loop: Loop, row_count: str) -> None:
        """Emit a check that ends the run if a scanned array has fewer than `row_count` rows."""
        for scanned_input in loop.scanned:
            has_too_few_rows = self.scalar_code.emit(
                f"icmp slt i64 {self._row_count(scanned_input)}, {row_count}"
            )
            error_sentence = (
                f"the loop has more iterations than '{scanned_input.rows.name}' has rows"
            )
            error_hint = "give a row for each iteration"
            self.scalar_code.fail_if(
                has_too_few_rows, Failure(error_sentence, loop.where, error_hint)
            )
