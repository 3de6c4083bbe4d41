"""LLVM code of loops, branches and guards, for every representation of arrays.

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
from mdf_loop.native.loop_text import STOPPED
from mdf_loop.native.support import STOP, KernelSignature, extent_names
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
"""Cells of values in one scope."""
Place: TypeAlias = tuple[str, ...]
"""Registers of pointers to the local memory of a value."""


class FunctionWriter(ArrayWriter):
    """Base class of writers of the LLVM functions of a loop.

    Attributes:
        memory: Pointers to the inputs.
        stacks: Pointers to the outputs. Empty if the function only counts iterations.
        counts: True if the function only counts iterations.
    """

    def __init__(self, signature: KernelSignature, failures: list[Failure]) -> None:
        super().__init__(signature, failures)
        self.memory: dict[Value, str] = {}
        self.stacks: dict[Value, str] = {}
        self.counts = False
        self._stop_pointer = ""

    def begin(self, *, counts: bool = False) -> None:
        """Write the loads of the pointers to inputs and outputs. If `counts` is True, there are no outputs."""
        code, signature = self.scalar, self.signature
        self.counts = counts
        for k, value in enumerate(signature.inputs):
            self.memory[value] = self.bounds.array(self.pointer("%in", k), value)
        if not counts:
            for k, (value, _) in enumerate(signature.outputs):
                self.stacks[value] = self.pointer("%out", k)
        self.bounds.access(self.memory[STOP], ITEM_BYTES[STOP.dtype], ITEM_BYTES[STOP.dtype])
        address = code.emit(f"load i64, ptr {self.memory[STOP]}")
        self._stop_pointer = code.emit(f"inttoptr i64 {address} to ptr")

    def pointer(self, array: str, position: int) -> str:
        """Write the load of a pointer at an index of an array of pointers."""
        at = self.scalar.emit(f"getelementptr ptr, ptr {array}, i64 {position}")
        return self.scalar.emit(f"load ptr, ptr {at}")

    def function(self, head: str) -> str:
        """Return all written code as an LLVM function with this first line."""
        text = self.text
        return "\n".join([f"{head} {{", "entry:", *text.frame, *text.lines, "}"])

    # --- methods for arrays -----------------------------------------------------------------------

    @abstractmethod
    def op(self, op: Op, cells: Cells) -> None:
        """Write an operation, and add the cell of its output to `cells`."""

    @abstractmethod
    def allocate_array(self, value: Value) -> Place:
        """Allocate local memory for an array."""

    @abstractmethod
    def store_array(self, value: Value, other: Value, cell: Cell, place: Place) -> None:
        """Write the assignment of the array `other` to the local memory of `value`."""

    @abstractmethod
    def load_array(self, value: Value, place: Place) -> Cell:
        """Write the load of an array from its local memory, and return its cell."""

    @abstractmethod
    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return the cell of a row of a scanned array."""

    @abstractmethod
    def assign_extents(self, value: Value, other: Value) -> None:
        """Set the extents of `value` to those of `other`, which is assigned to `value`."""

    @abstractmethod
    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write the store of a row of a recorded value."""

    @abstractmethod
    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Prepare the memory of the scanned and recorded rows of an inner loop."""

    @abstractmethod
    def stack_cells(self, loop: Loop, count: str) -> Cells:
        """Return the cells of the rows that an inner loop has recorded."""

    @abstractmethod
    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Write a check that fails the run if an element of a boolean array is False."""

    @abstractmethod
    def flush(self, cells: Cells) -> None:
        """Write the deferred operations."""

    # --- values -----------------------------------------------------------------------------------

    def cell(self, value: Value, cells: Mapping[Value, Cell]) -> Cell:
        """Return the cell of a value or constant."""
        if value in cells:
            return cells[value]
        number = self.signature.numbers[value].reshape(-1)[0]
        return Cell((self.scalar.constant(number, value.dtype),), True)

    def register(self, value: Value, cells: Cells) -> str:
        """Return the register of a scalar.

        Raises:
            NotNative: The value is an array.
        """
        cell = self.cell(value, cells)
        if not cell.single:
            raise NotNative(f"'{value.name}' is an array where one number is wanted")
        return cell.registers[0]

    # --- operations -------------------------------------------------------------------------------

    def ops(self, ops: Iterable[Operation], cells: Cells) -> None:
        """Write operations in order."""
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
                cells.update(self.loop(operation, cells))
        self.flush(cells)

    def _write_op(self, op: Op, cells: Cells) -> None:
        try:
            self.op(op, cells)
        except NotNative as reason:
            reason.op = reason.op or op
            raise

    def vectors(self, code: Code, op: Op, operands: Sequence[Sequence[str]]) -> Sequence[str]:
        """Write an elementwise operation for several vectors."""
        row = row_of(op.op_type)
        assert row.native_code is not None
        if row.native_vector_code is not None:
            return row.native_vector_code(code, op, *operands)
        return [row.native_code(code, op, *each) for each in operands]

    def _write_guard(self, guard: Guard, cells: Cells) -> None:
        """Write a check that fails the run if the condition of a guard is False."""
        failure, condition = Failure(guard.message, guard.where), self.cell(guard.condition, cells)
        if condition.single:
            is_false = self.scalar.binary("xor", "bool", condition.registers[0], "true")
            self.scalar.fail_if(is_false, failure)
        else:
            self.check(guard.condition, condition, failure)
        cells[guard.output] = self.cell(guard.value, cells)
        self.assign_extents(guard.output, guard.value)

    def _write_branch(self, choice: If, cells: Cells) -> None:
        """Write a conditional branch. Only the selected branch is executed."""
        code, text = self.scalar, self.text
        labels = [text.name(stem) for stem in ("then", "otherwise", "chosen")]
        places = {value: self._allocate_variable(value) for value in choice.outputs}
        condition = self.register(choice.condition, cells)
        code.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for label, branch in zip(labels, (choice.then, choice.otherwise), strict=False):
            code.label(label)
            branch_cells = dict(cells)
            self.ops(branch.ops, branch_cells)
            for value, leaf in zip(choice.outputs, branch.outputs, strict=True):
                self._store_variable(value, leaf, branch_cells, places[value])
            code.line(f"br label %{labels[2]}")
        code.label(labels[2])
        cells.update((value, self._load_variable(value, places[value])) for value in choice.outputs)

    # --- places -----------------------------------------------------------------------------------

    def _allocate_variable(self, value: Value) -> Place:
        if is_single(value):
            return (self.scalar.allocate_local(self.scalar.type(value.dtype)),)
        return self.allocate_array(value)

    def _store_variable(self, value: Value, other: Value, cells: Cells, place: Place) -> None:
        """Write the assignment of the value `other` to the local memory of `value`."""
        if is_single(value):
            kind = self.scalar.type(value.dtype)
            self.scalar.line(f"store {kind} {self.register(other, cells)}, ptr {place[0]}")
        else:
            self.store_array(value, other, self.cell(other, cells), place)

    def _load_variable(self, value: Value, place: Place) -> Cell:
        if is_single(value):
            kind = self.scalar.type(value.dtype)
            return Cell((self.scalar.emit(f"load {kind}, ptr {place[0]}"),), True)
        return self.load_array(value, place)

    # --- loops ------------------------------------------------------------------------------------

    def repeat(self, begin: str, end: str, step: int, write: Callable[[str], None]) -> None:
        """Write a loop over the numbers from `begin` to `end` (exclusive) in steps of `step`."""
        code, text = self.scalar, self.text
        place = code.allocate_local("i64")
        test_block, body_block, end_block = (text.name(stem) for stem in ("again", "body", "done"))
        code.line(f"store i64 {begin}, ptr {place}")
        code.line(f"br label %{test_block}")
        code.label(test_block)
        number = code.emit(f"load i64, ptr {place}")
        is_less = code.emit(f"icmp slt i64 {number}, {end}")
        code.line(f"br i1 {is_less}, label %{body_block}, label %{end_block}")
        code.label(body_block)
        write(number)
        next_number = code.emit(f"add i64 {number}, {step}")
        code.line(f"store i64 {next_number}, ptr {place}")
        code.line(f"br label %{test_block}")
        code.label(end_block)

    def loop(self, loop: Loop, cells: Cells) -> Cells:
        """Write all iterations of a loop, and return the cells of its final values."""
        code, text = self.scalar, self.text
        number, go, last = (
            code.allocate_local("i64"),
            code.allocate_local("i1"),
            code.allocate_local("i1"),
        )
        for carried in loop.carried:
            self.assign_extents(carried.enter, carried.initial)
        places = {c: self._allocate_variable(c.enter) for c in loop.carried}
        initial_condition = (
            "true" if loop.condition is None else self.register(loop.condition, cells)
        )
        code.line(f"store i64 0, ptr {number}")
        for place in (go, last):
            code.line(f"store i1 {initial_condition}, ptr {place}")
        for carried in loop.carried:
            self._store_variable(carried.enter, carried.initial, cells, places[carried])
        trip = self._trip_count(loop, cells)
        if loop.condition is None:
            self._check_rows(loop, trip)
        if loop is not self.signature.loop:
            self.prepare_rows(loop, cells)
        test_block, body_block, end_block = (text.name(stem) for stem in ("again", "body", "done"))
        code.line(f"br label %{test_block}")
        code.label(test_block)
        i = code.emit(f"load i64, ptr {number}")
        is_less = code.emit(f"icmp slt i64 {i}, {trip}")
        continues = code.emit(f"and i1 {is_less}, {code.emit(f'load i1, ptr {go}')}")
        code.line(f"br i1 {continues}, label %{body_block}, label %{end_block}")
        code.label(body_block)
        self._check_stop_flag()
        self._write_iteration(loop, dict(cells), (i, go, last), places)
        next_number = code.emit(f"add i64 {i}, 1")
        code.line(f"store i64 {next_number}, ptr {number}")
        code.line(f"br label %{test_block}")
        code.label(end_block)
        final_cells: Cells = {
            c.final: self._load_variable(c.enter, places[c]) for c in loop.carried
        }
        for carried in loop.carried:
            self.assign_extents(carried.final, carried.enter)
        count = code.emit(f"load i64, ptr {number}")
        if loop is not self.signature.loop:
            final_cells.update(self.stack_cells(loop, count))
        if loop.iteration_count is not None:
            final_cells[loop.iteration_count] = Cell((count,), True)
        if loop.last_condition is not None:
            final_cells[loop.last_condition] = Cell((code.emit(f"load i1, ptr {last}"),), True)
        self.iterations = number
        return final_cells

    def _check_stop_flag(self) -> None:
        """Write an early return that is executed if the stop flag is set."""
        code, text = self.scalar, self.text
        stop_flag = code.emit(f"load volatile i64, ptr {self._stop_pointer}")
        is_set = code.emit(f"icmp ne i64 {stop_flag}, 0")
        stop_block, continue_block = text.name("stopped"), text.name("goes_on")
        code.line(f"br i1 {is_set}, label %{stop_block}, label %{continue_block}")
        code.label(stop_block)
        code.line(f"ret i64 -{STOPPED}")
        code.label(continue_block)

    def _trip_count(self, loop: Loop, cells: Cells) -> str:
        if loop is self.signature.loop:
            return "%trip"
        if loop.trip_count is not None:
            return self.register(loop.trip_count, cells)
        return str(np.iinfo(np.int64).max if loop.max_iterations is None else loop.max_iterations)

    def _write_iteration(
        self,
        loop: Loop,
        cells: Cells,
        control: tuple[str, str, str],
        places: Mapping[Carried, Place],
    ) -> None:
        i, go, last = control
        code = self.scalar
        iteration = i
        if loop.first_iteration is not None:
            iteration = code.emit(f"add i64 {i}, {self.register(loop.first_iteration, cells)}")
        cells[loop.iteration] = Cell((iteration,), True)
        cells[loop.condition_in] = Cell((code.emit(f"load i1, ptr {go}"),), True)
        for carried in loop.carried:
            cells[carried.enter] = self._load_variable(carried.enter, places[carried])
        if loop.condition is not None and loop.scanned:
            self._check_rows(loop, code.emit(f"add i64 {i}, 1"))
        for scanned in loop.scanned:
            cells[scanned.row] = self._scanned_cell(scanned, i)
        self.ops(loop.ops, cells)
        if loop is not self.signature.loop or not self.counts:
            for recorded in loop.recorded:
                self.record(loop, recorded, self.cell(recorded.row, cells), i)
        self.assign_carried(loop, cells, places)
        if loop.condition_out is not None:
            condition_out = self.register(loop.condition_out, cells)
            for place in (last, *((go,) if loop.condition is not None else ())):
                code.line(f"store i1 {condition_out}, ptr {place}")

    def assign_carried(self, loop: Loop, cells: Cells, places: Mapping[Carried, Place]) -> None:
        """Write the simultaneous assignment of all carried values for the next iteration."""
        for carried in loop.carried:
            self._store_variable(carried.enter, carried.leave, cells, places[carried])

    # --- rows -------------------------------------------------------------------------------------

    def _scanned_cell(self, scanned: Scanned, i: str) -> Cell:
        """Return the cell of the scanned row for an iteration."""
        number = i
        if scanned.is_backward:
            last = self.scalar.emit(f"sub i64 {self._row_count(scanned)}, 1")
            number = self.scalar.emit(f"sub i64 {last}, {i}")
        if not is_single(scanned.row):
            return self.array_row(scanned, number)
        pointer = self.memory[scanned.rows]
        return Cell((self.load(self.scalar, scanned.row.dtype, pointer, number),), True)

    def _row_count(self, scanned: Scanned) -> Extent:
        """Return the number of rows of a scanned array."""
        return self.extents(scanned.rows)[0]

    def extent(self, extent: int | str) -> str:
        """Return an extent as a literal, or load a named extent into a register."""
        if isinstance(extent, int):
            return str(extent)
        place = extent_names(self.signature).index(extent)
        at = self.scalar.emit(f"getelementptr i64, ptr %extents, i64 {place}")
        return self.scalar.emit(f"load i64, ptr {at}")

    def _check_rows(self, loop: Loop, row_count: str) -> None:
        """Write a check that fails the run if a scanned array has fewer than `row_count` rows."""
        for scanned in loop.scanned:
            has_too_few_rows = self.scalar.emit(
                f"icmp slt i64 {self._row_count(scanned)}, {row_count}"
            )
            sentence = f"the loop has more iterations than '{scanned.rows.name}' has rows"
            hint = "give a row for each iteration"
            self.scalar.fail_if(has_too_few_rows, Failure(sentence, loop.where, hint))
