"""LLVM code of a loop whose arrays read each other: the loop over time is outside, arrays are in memory.

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
from mdf_loop.native.carrying import Axes, ChangingArrays, MoreExtentsChangeError, compare
from mdf_loop.native.fused import FusedOperations
from mdf_loop.native.loop_text import COUNT, FUNCTION, ITERATIONS, TAKEN, LoopText
from mdf_loop.native.memory import MemoryWriter
from mdf_loop.native.space import LINE
from mdf_loop.native.stacks import GrowingRows, InnerStack, KnownRows, LateRows, RowStack
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.native.writer import Cells, Place
from mdf_loop.ops import row_of
from mdf_loop.ops.native import moves
from mdf_loop.ops.native.code import (
    Cell,
    Code,
    Failure,
    NotNative,
    is_single,
)
from mdf_loop.ops.registry import title

MOST_BYTES = 1 << 26
"""Maximum bytes of memory for arrays between the operations of a loop."""


def write_steps(form: KernelSignature, width: int) -> LoopText:
    """Return the LLVM code of a loop in steps.

    Raises:
        NotNative: An operation of the loop has no machine code.
    """
    changing: Axes = frozenset()
    while True:
        try:
            return _written(form, width, changing)
        except MoreExtentsChangeError as more:
            changing |= more.axes


def _written(form: KernelSignature, width: int, changing: Axes) -> LoopText:
    """Return the LLVM code for carried arrays whose extents change along the axes `changing` only.

    Raises:
        MoreExtentsChangeError: The extents along other axes change, too.
        NotNative: An operation of the loop has no machine code.
    """
    failures: list[Failure] = []
    writers = [KernelWriter(form, width, failures, changing)]
    parts = [writers[0].whole(f"define i64 @{FUNCTION}{TAKEN}")]
    counts = form.counts or bool(writers[0].changing.finals)
    if counts:
        writers.append(KernelWriter(form, width, failures, changing))
        count = writers[1].counting if form.counts else writers[1].unchanged
        parts.append(count(f"define i64 @{COUNT}{TAKEN}"))
    scratch = max(writer.space.scratch for writer in writers)
    if scratch > MOST_BYTES:
        raise NotNative("its arrays are large")
    declared = {name: line for each in writers for name, line in each.text.declared.items()}
    text = "\n".join((*declared.values(), *parts))
    rooms = max(writer.space.rooms for writer in writers)
    shapes, late = writers[0].outputs(), writers[0].late
    return LoopText(
        text,
        tuple(failures),
        shapes,
        counts,
        scratch=scratch + LINE,
        rooms=rooms,
        late=late,
    )


class KernelWriter(MemoryWriter):
    """Writer of the LLVM functions of a loop in steps.

    Attributes:
        changing: Carried arrays whose shape changes.
        late: Number of extents of outputs that the loop computes.
    """

    def __init__(
        self, form: KernelSignature, width: int, failures: list[Failure], changing: Axes
    ) -> None:
        super().__init__(form, width, failures)
        self.late = 0
        self.changing = ChangingArrays(self, changing)
        self._stacks: dict[Value, InnerStack] = {}
        self._outputs: dict[Value, tuple[int, ...]] = {}
        self._fused = FusedOperations(self, form.loop)

    def whole(self, head: str) -> str:
        """Return an LLVM function that runs the loop."""
        self._begin()
        after = self._all()
        for value, rows in self.form.outputs:
            if not rows:
                self._outputs[value] = shape = self._final(value)
                pointer = self.stacks[value]
                if value in self.changing.finals:
                    pointer = self.changing.output(value, pointer)
                self.give(value, after[value], self.bounds.array(pointer, value, shape))
        return self._end(head, self.one.put(f"load i64, ptr {self.iterations}"))

    def counting(self, head: str) -> str:
        """Return an LLVM function that counts the iterations, and writes no outputs."""
        self._begin(counts=True)
        self._all()
        return self._end(head, self.one.put(f"load i64, ptr {self.iterations}"))

    def unchanged(self, head: str) -> str:
        """Return an LLVM function that returns the trip count, and stores the initial extents of carried values."""
        self._begin(counts=True)
        for carried in self.form.loop.carried:
            self.changing.tell_extents(carried.final, self.extents(carried.initial))
        return self._end(head, self.one.intrinsic("smax", "int64", "%trip", "0"))

    def _begin(self, *, counts: bool = False) -> None:
        self.begin(counts=counts)
        names = {name: self.extent(name) for name in extent_names(self.form)}
        self.shapes.begin(names, self.form.inputs)
        self.late = self.changing.tell(self.form.loop, self.shapes.given)
        self.space.begin(self.pointer("%out", len(self.form.outputs)))

    def _all(self) -> Cells:
        """Write all iterations, and return the cells of the final values."""
        form = self.form
        after = self.loop(form.loop, {v: self.as_cell(v, self.memory[v]) for v in form.arrays})
        for value in self.changing.finals:
            self.changing.tell_extents(value, self.extents(value))
        return after

    def _end(self, head: str, end: str) -> str:
        self.one.line(f"ret i64 {end}")
        self.space.end()
        return self.function(head)

    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """Return the encoded shape of each output. Call the method after all code is written."""
        return tuple(self._outputs[value] for value, _ in self.form.outputs)

    def _final(self, value: Value) -> tuple[int, ...]:
        """Return the shape of a final value: the shape of the initial value, or a computed shape."""
        for carried in self.form.loop.carried:
            if carried.final is value and value in self.changing.finals:
                known = self.shapes.told(carried.initial)
                assert known is not None
                return self.changing.told(value, known)
        extents = self.shapes.told(value)
        assert extents is not None
        return extents

    # --- operations ---------------------------------------------------------------------------

    def op(self, op: Op, cells: Cells) -> None:
        """Write an operation. Elementwise operations on arrays are deferred, so that they can be fused."""
        row, output = row_of(op.op_type), op.outputs[0]
        operands = [value for value in op.inputs if value is not None]
        if row.elementwise and row.native is not None and is_single(output):
            if any(not is_single(value) for value in operands):  # an operand may be deferred
                self.flush(cells)
            registers = [self.register(value, cells) for value in operands]
            cells[output] = Cell((row.native(self.one, op, *registers),), True)
        elif (few_numbers := small_arrays.computed(self, op, cells)) is not None:
            cells[output] = few_numbers
        elif row.elementwise and row.native is not None:
            self._fused.put_off(op, cells)
        else:
            self.flush(cells)
            cells[output] = self._whole(op, cells)

    def _whole(self, op: Op, cells: Cells) -> Cell:
        row = row_of(op.op_type)
        if row.native_whole is not None:
            return row.native_whole(self, op, cells)
        if row.moves is None and not row.in_order:
            raise NotNative(f"it has {title(op.op_type)}")
        return moves.moved(self, op, cells)

    def flush(self, cells: Cells) -> None:
        """Write the deferred operations."""
        self._fused.flush(cells)

    def check(self, value: Value, cell: Cell, failure: Failure) -> None:
        """Write a check that fails the run if an element of a boolean array is False."""

        def each(code: Code, k: str) -> None:
            truth = self.load(code, "bool", pointer, k)
            wrong = code.binary("xor", "bool", truth, code.number(True, "bool"))
            code.fail_if(wrong, failure)

        pointer = self.pointer_of(value, cell)
        self.over(self.shapes.size(value), each)

    # --- places -------------------------------------------------------------------------------

    def array_place(self, value: Value) -> Place:
        """Allocate memory for an array."""
        if value not in self.changing:
            return (self.buffer(value),)
        self.changing.begin(value)
        return ("",)

    def keep_array(self, value: Value, other: Value, cell: Cell, place: Place) -> None:
        """Write the assignment of the array `other` to `value`, by a copy to the memory of `value`."""
        if value in self.changing:
            self.changing.put(value, other, self.pointer_of(other, cell))
        else:
            self.alike(value, other)
            self.give(value, cell, place[0])

    def kept_array(self, value: Value, place: Place) -> Cell:
        """Return the cell of an array in memory."""
        return self.changing.got(value) if value in self.changing else Cell(pointer=place[0])

    def leave(self, loop: Loop, cells: Cells, places: Mapping[Carried, Place]) -> None:
        """Write the simultaneous assignment of all carried values for the next iteration.

        An array that may be in the memory of another carried value is copied before this memory is
        overwritten.
        """
        self._see_changes(loop)
        own = self.space.own - {place[0] for place in places.values()}
        aside = dict(cells)
        for carried in loop.carried:
            cell = self.cell(carried.leave, cells)
            if cell.pointer and cell.pointer not in {*own, places[carried][0]}:
                apart = self.buffer(carried.leave)
                self.copy(apart, cell.pointer, self.shapes.bytes(carried.leave))
                aside[carried.leave] = Cell(pointer=apart)
        super().leave(loop, aside, places)

    def _see_changes(self, loop: Loop) -> None:
        """Raise an error if a carried array may change an extent that was assumed constant.

        Raises:
            MoreExtentsChangeError: More extents change.
        """
        pairs = ((c, self.extents(c.enter), self.extents(c.leave)) for c in loop.carried)
        changed_axes = frozenset(axis for pair in pairs for axis in compare(*pair))
        if not changed_axes <= self.changing.axes:
            raise MoreExtentsChangeError(changed_axes)

    # --- rows ---------------------------------------------------------------------------------

    def alike(self, value: Value, other: Value) -> None:
        """Set the extents of `value` to those of `other`, which is assigned to `value`."""
        if other not in self.changing:
            super().alike(value, other)
        elif is_single(value):
            raise NotNative("what it carries may change its shape")
        else:
            self.shapes.have(value, self.extents(other))

    def loop(self, loop: Loop, cells: Cells) -> Cells:
        """Write all iterations, and return the cells of the final values."""
        for scanned in loop.scanned:
            self.shapes.take(scanned.row, self.extents(scanned.rows)[1:])
        return super().loop(loop, cells)

    def array_row(self, scanned: Scanned, number: str) -> Cell:
        """Return the cell of a row in the memory of the scanned array."""
        pointer, far = self.memory[scanned.rows], self.times(number, self.shapes.bytes(scanned.row))
        return self.as_cell(scanned.row, self.far(pointer, far))

    def prepare_rows(self, loop: Loop, cells: Cells) -> None:
        """Prepare the memory of the scanned and recorded rows of an inner loop."""
        for scanned in loop.scanned:
            rows = self.cell(scanned.rows, cells)
            self.memory[scanned.rows] = self.pointer_of(scanned.rows, rows)
        for recorded in loop.recorded:
            if self._has_known_rows(loop, recorded):
                pointer = self.buffer(recorded.stack)
                shape = self.extents(recorded.stack)[1:]
                self._stacks[recorded.stack] = KnownRows(self, recorded, pointer, shape)
            else:
                self._stacks[recorded.stack] = GrowingRows(self, loop, recorded)

    def _has_known_rows(self, loop: Loop, recorded: Recorded) -> bool:
        """Return True if the program states the number of rows of an inner loop, equal to the trip count.

        Raises:
            NotNative: The program states a number of rows that the trip count does not confirm.
        """
        if not is_fixed(recorded.stack.shape):
            return False
        trip = None if loop.trip_count is None else self.known(loop.trip_count)
        extent = recorded.stack.shape[0]
        if loop.condition is not None or trip is None or max(int(trip.item()), 0) != extent:
            raise NotNative("a loop in it has rows, and how many is known only when it runs")
        return True

    def stacked(self, loop: Loop, count: str) -> Cells:
        """Return the cells of the recorded rows of an inner loop."""
        stacks = [recorded.stack for recorded in loop.recorded]
        pointers = {stack: self._stacks[stack].all(count) for stack in stacks}
        return {stack: self.as_cell(stack, pointer) for stack, pointer in pointers.items()}

    def record(self, loop: Loop, recorded: Recorded, cell: Cell, number: str) -> None:
        """Write the store of a row of a recorded value."""
        inside = loop is not self.form.loop
        stack = self._stacks[recorded.stack] if inside else self._output(recorded)
        stack.record(cell, number)

    def _output(self, recorded: Recorded) -> RowStack:
        """Return the memory for the recorded rows of the outer loop.

        An extent without a number in the program is 0 if there are no rows, for native and standard loops.
        So the first row determines this extent, even if the writer knows the extent.
        """
        extents = self.shapes.told(recorded.row)
        if extents is not None and is_fixed(recorded.row.shape):
            self._outputs[recorded.stack] = shape = (ITERATIONS, *extents)
            pointer = self.stacks[recorded.stack]
            pointer = self.bounds.array(pointer, recorded.stack, shape)
            return KnownRows(self, recorded, pointer, self.extents(recorded.row))
        stack = LateRows(self, self.form.loop, recorded, self.shapes.given + self.late)
        self._outputs[recorded.stack] = (ITERATIONS, *stack.told)
        self.late += stack.count
        return stack
