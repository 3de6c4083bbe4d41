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
    BYTES,
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


class FormWriter(ArrayWriter):
    """Base class of writers of the LLVM functions of a loop.

    Attributes:
        memory: Pointers to the inputs.
        stacks: Pointers to the outputs. Empty if the function only counts iterations.
        counts: True if the function only counts iterations.
    """

    def __init__(self, form: KernelSignature, failures: list[Failure]) -> None:
        super().__init__(form, failures)
        self.memory: dict[Value, str] = {}
        self.stacks: dict[Value, str] = {}
        self.counts = False
        self._stop_pointer = ""

    def begin(self, *, counts: bool = False) -> None:
        """Write the loads of the pointers to inputs and outputs. If `counts` is True, there are no outputs."""
        code, form = self.one, self.form
        self.counts = counts
        for k, value in enumerate(form.inputs):
            self.memory[value] = self.bounds.array(self.pointer("%in", k), value)
        if not counts:
            for k, (value, _) in enumerate(form.outputs):
                self.stacks[value] = self.pointer("%out", k)
        self.bounds.access(self.memory[STOP], BYTES[STOP.dtype], BYTES[STOP.dtype])
        address = code.put(f"load i64, ptr {self.memory[STOP]}")
        self._stop_pointer = code.put(f"inttoptr i64 {address} to ptr")

    def pointer(self, array: str, position: int) -> str:
        """Write the load of a pointer at an index of an array of pointers."""
        at = self.one.put(f"getelementptr ptr, ptr {array}, i64 {position}")
        return self.one.put(f"load ptr, ptr {at}")

    def function(self, head: str) -> str:
        """Return all written code as an LLVM function with this first line."""
        text = self.text
        return "\n".join([f"{head} {{", "entry:", *text.frame, *text.lines, "}"])

    # --- methods for arrays -----------------------------------------------------------------------

    @abstractmethod
    def op(self, op: Op, cells: Cells) -> None:
        """Write an operation, and add the cell of its output to `cells`."""

    @abstractmethod
    def array_place(self, value: Value) -> Place:
        """Allocate local memory for an array."""

    @abstractmethod
    def keep_array(self, value: Value, other: Value, cell: Cell, place: Place) -> None:
        """Write the assignment of the array `other` to the local memory of `value`."""

    @abstractmethod
    def kept_array(self, value: Value, place: Place) -> Cell:
        """Write the load of an array from its local memory, and return its cell."""

    @abstractmethod
    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return the cell of a row of a scanned array."""

    @abstractmethod
    def alike(self, value: Value, other: Value) -> None:
        """Set the extents of `value` to those of `other`, which is assigned to `value`."""

    @abstractmethod
    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write the store of a row of a recorded value."""

    @abstractmethod
    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Prepare the memory of the scanned and recorded rows of an inner loop."""

    @abstractmethod
    def stacked(self, loop: Loop, count: str) -> Cells:
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
        number = self.form.numbers[value].reshape(-1)[0]
        return Cell((self.one.number(number, value.dtype),), True)

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
                self._op(operation, cells)
                continue
            self.flush(cells)
            if isinstance(operation, Guard):
                self._guard(operation, cells)
            elif isinstance(operation, If):
                self._choice(operation, cells)
            elif isinstance(operation, Loop):
                cells.update(self.loop(operation, cells))
        self.flush(cells)

    def _op(self, op: Op, cells: Cells) -> None:
        try:
            self.op(op, cells)
        except NotNative as reason:
            reason.op = reason.op or op
            raise

    def vectors(self, code: Code, op: Op, operands: Sequence[Sequence[str]]) -> Sequence[str]:
        """Write an elementwise operation for several vectors."""
        row = row_of(op.op_type)
        assert row.native is not None
        if row.native_together is not None:
            return row.native_together(code, op, *operands)
        return [row.native(code, op, *each) for each in operands]

    def _guard(self, guard: Guard, cells: Cells) -> None:
        """Write a check that fails the run if the condition of a guard is False."""
        failure, ok = Failure(guard.sentence, guard.where), self.cell(guard.ok, cells)
        if ok.single:
            wrong = self.one.binary("xor", "bool", ok.registers[0], "true")
            self.one.fail_if(wrong, failure)
        else:
            self.check(guard.ok, ok, failure)
        cells[guard.output] = self.cell(guard.value, cells)
        self.alike(guard.output, guard.value)

    def _choice(self, choice: If, cells: Cells) -> None:
        """Write a conditional branch. Only the selected branch is executed."""
        code, text = self.one, self.text
        labels = [text.name(stem) for stem in ("then", "otherwise", "chosen")]
        places = {value: self._place(value) for value in choice.outputs}
        truth = self.register(choice.condition, cells)
        code.line(f"br i1 {truth}, label %{labels[0]}, label %{labels[1]}")
        for label, branch in zip(labels, (choice.then, choice.otherwise), strict=False):
            code.label(label)
            inside = dict(cells)
            self.ops(branch.ops, inside)
            for value, leaf in zip(choice.outputs, branch.leaves, strict=True):
                self._keep(value, leaf, inside, places[value])
            code.line(f"br label %{labels[2]}")
        code.label(labels[2])
        cells.update((value, self._kept(value, places[value])) for value in choice.outputs)

    # --- places -----------------------------------------------------------------------------------

    def _place(self, value: Value) -> Place:
        if is_single(value):
            return (self.one.place(self.one.type(value.dtype)),)
        return self.array_place(value)

    def _keep(self, value: Value, other: Value, cells: Cells, place: Place) -> None:
        """Write the assignment of the value `other` to the local memory of `value`."""
        if is_single(value):
            kind = self.one.type(value.dtype)
            self.one.line(f"store {kind} {self.register(other, cells)}, ptr {place[0]}")
        else:
            self.keep_array(value, other, self.cell(other, cells), place)

    def _kept(self, value: Value, place: Place) -> Cell:
        if is_single(value):
            kind = self.one.type(value.dtype)
            return Cell((self.one.put(f"load {kind}, ptr {place[0]}"),), True)
        return self.kept_array(value, place)

    # --- loops ------------------------------------------------------------------------------------

    def repeat(self, begin: str, end: str, step: int, write: Callable[[str], None]) -> None:
        """Write a loop over the numbers from `begin` to `end` (exclusive) in steps of `step`."""
        code, text = self.one, self.text
        place = code.place("i64")
        again, body, done = (text.name(stem) for stem in ("again", "body", "done"))
        code.line(f"store i64 {begin}, ptr {place}")
        code.line(f"br label %{again}")
        code.label(again)
        number = code.put(f"load i64, ptr {place}")
        more = code.put(f"icmp slt i64 {number}, {end}")
        code.line(f"br i1 {more}, label %{body}, label %{done}")
        code.label(body)
        write(number)
        following = code.put(f"add i64 {number}, {step}")
        code.line(f"store i64 {following}, ptr {place}")
        code.line(f"br label %{again}")
        code.label(done)

    def loop(self, loop: Loop, cells: Cells) -> Cells:
        """Write all iterations of a loop, and return the cells of its final values."""
        code, text = self.one, self.text
        number, go, last = code.place("i64"), code.place("i1"), code.place("i1")
        for carried in loop.carried:
            self.alike(carried.enter, carried.initial)
        places = {c: self._place(c.enter) for c in loop.carried}
        begun = "true" if loop.condition is None else self.register(loop.condition, cells)
        code.line(f"store i64 0, ptr {number}")
        for place in (go, last):
            code.line(f"store i1 {begun}, ptr {place}")
        for carried in loop.carried:
            self._keep(carried.enter, carried.initial, cells, places[carried])
        trip = self._trip(loop, cells)
        if loop.condition is None:
            self._check_rows(loop, trip)
        if loop is not self.form.loop:
            self.prepare_rows(loop, cells)
        again, body, done = (text.name(stem) for stem in ("again", "body", "done"))
        code.line(f"br label %{again}")
        code.label(again)
        i = code.put(f"load i64, ptr {number}")
        more = code.put(f"icmp slt i64 {i}, {trip}")
        both = code.put(f"and i1 {more}, {code.put(f'load i1, ptr {go}')}")
        code.line(f"br i1 {both}, label %{body}, label %{done}")
        code.label(body)
        self._look()
        self._iteration(loop, dict(cells), (i, go, last), places)
        following = code.put(f"add i64 {i}, 1")
        code.line(f"store i64 {following}, ptr {number}")
        code.line(f"br label %{again}")
        code.label(done)
        final_cells: Cells = {c.final: self._kept(c.enter, places[c]) for c in loop.carried}
        for carried in loop.carried:
            self.alike(carried.final, carried.enter)
        count = code.put(f"load i64, ptr {number}")
        if loop is not self.form.loop:
            final_cells.update(self.stacked(loop, count))
        if loop.count is not None:
            final_cells[loop.count] = Cell((count,), True)
        if loop.last_condition is not None:
            final_cells[loop.last_condition] = Cell((code.put(f"load i1, ptr {last}"),), True)
        self.iterations = number
        return final_cells

    def _look(self) -> None:
        """Write an early return that is executed if the stop flag is set."""
        code, text = self.one, self.text
        stop_flag = code.put(f"load volatile i64, ptr {self._stop_pointer}")
        ends = code.put(f"icmp ne i64 {stop_flag}, 0")
        stopped, goes_on = text.name("stopped"), text.name("goes_on")
        code.line(f"br i1 {ends}, label %{stopped}, label %{goes_on}")
        code.label(stopped)
        code.line(f"ret i64 -{STOPPED}")
        code.label(goes_on)

    def _trip(self, loop: Loop, cells: Cells) -> str:
        if loop is self.form.loop:
            return "%trip"
        if loop.trip_count is not None:
            return self.register(loop.trip_count, cells)
        return str(np.iinfo(np.int64).max if loop.bound is None else loop.bound)

    def _iteration(
        self,
        loop: Loop,
        cells: Cells,
        control: tuple[str, str, str],
        places: Mapping[Carried, Place],
    ) -> None:
        i, go, last = control
        code = self.one
        iteration = i
        if loop.first is not None:
            iteration = code.put(f"add i64 {i}, {self.register(loop.first, cells)}")
        cells[loop.iteration] = Cell((iteration,), True)
        cells[loop.condition_in] = Cell((code.put(f"load i1, ptr {go}"),), True)
        for carried in loop.carried:
            cells[carried.enter] = self._kept(carried.enter, places[carried])
        if loop.condition is not None and loop.scanned:
            self._check_rows(loop, code.put(f"add i64 {i}, 1"))
        for scanned in loop.scanned:
            cells[scanned.row] = self._row(scanned, i)
        self.ops(loop.ops, cells)
        if loop is not self.form.loop or not self.counts:
            for recorded in loop.recorded:
                self.record(loop, recorded, self.cell(recorded.row, cells), i)
        self.leave(loop, cells, places)
        if loop.condition_out is not None:
            out = self.register(loop.condition_out, cells)
            for place in (last, *((go,) if loop.condition is not None else ())):
                code.line(f"store i1 {out}, ptr {place}")

    def leave(self, loop: Loop, cells: Cells, places: Mapping[Carried, Place]) -> None:
        """Write the simultaneous assignment of all carried values for the next iteration."""
        for carried in loop.carried:
            self._keep(carried.enter, carried.leave, cells, places[carried])

    # --- rows -------------------------------------------------------------------------------------

    def _row(self, scanned: Scanned, i: str) -> Cell:
        """Return the cell of the scanned row for an iteration."""
        number = i
        if scanned.backward:
            last = self.one.put(f"sub i64 {self._rows(scanned)}, 1")
            number = self.one.put(f"sub i64 {last}, {i}")
        if not is_single(scanned.row):
            return self.array_row(scanned, number)
        pointer = self.memory[scanned.rows]
        return Cell((self.load(self.one, scanned.row.dtype, pointer, number),), True)

    def _rows(self, scanned: Scanned) -> Extent:
        """Return the number of rows of a scanned array."""
        return self.extents(scanned.rows)[0]

    def extent(self, extent: int | str) -> str:
        """Return an extent as a literal, or load a named extent into a register."""
        if isinstance(extent, int):
            return str(extent)
        place = extent_names(self.form).index(extent)
        at = self.one.put(f"getelementptr i64, ptr %extents, i64 {place}")
        return self.one.put(f"load i64, ptr {at}")

    def _check_rows(self, loop: Loop, row_count: str) -> None:
        """Write a check that fails the run if a scanned array has fewer than `row_count` rows."""
        for scanned in loop.scanned:
            few = self.one.put(f"icmp slt i64 {self._rows(scanned)}, {row_count}")
            sentence = f"the loop has more iterations than '{scanned.rows.name}' has rows"
            hint = "give a row for each iteration"
            self.one.fail_if(few, Failure(sentence, loop.where, hint))
