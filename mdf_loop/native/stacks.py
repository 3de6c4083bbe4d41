"""Memory for the rows that the machine code of a loop records.

    KnownRows     a known number of rows of a known shape       contiguous
    GrowingRows   one row for each iteration of an inner loop   in a buffer that grows with each row
    LateRows      rows of the outer loop, whose shape only      in an output that is allocated when the
                  the first iteration determines                first row exists

All rows of a value have the same shape. The run fails otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from mdf_loop.emit.row_shapes import build_row_shape_error
from mdf_loop.ir import Loop, Recorded, Value
from mdf_loop.native.bounds import Bounds
from mdf_loop.native.loop_text import ITERATION_COUNT_CODE, extent_code
from mdf_loop.native.shapes import ValueExtents, unknown_shape
from mdf_loop.native.space import StackSpace
from mdf_loop.native.support import KernelSignature
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    Cell,
    Code,
    Extent,
    Extents,
    Failure,
    Text,
    is_single,
)


class RowsWriter(Protocol):
    """Interface of the code emitter that writes recorded rows to memory."""

    signature: KernelSignature
    function_text: Text
    scalar_code: Code
    bounds: Bounds
    space: StackSpace
    shapes: ValueExtents

    def pointer(self, array: str, position: int) -> str:
        """Emit a load of the pointer at index `position` of an array of pointers."""

    def store_value(self, value: Value, cell: Cell, pointer: str, index: str = "0") -> None:
        """Emit a store of a scalar or array at position `index` of an array of such values."""

    def copy(self, target: str, source: str, size: Extent) -> None:
        """Emit a copy of `size` bytes."""


def allocate_output(writer: RowsWriter, value: Value) -> str:
    """Emit the allocation of a loop output of known shape, and return its address."""
    output_index = [value for value, _ in writer.signature.outputs].index(value)
    allocate_pointer = writer.pointer("%call", 1)
    pointer = writer.scalar_code.emit(f"call ptr {allocate_pointer}(ptr %call, i64 {output_index})")
    writer.space.fail_if_null(pointer)
    return pointer


class RowStack(Protocol):
    """Interface of the memory for the recorded rows of one value."""

    def record(self, cell: Cell, number: str) -> None:
        """Emit a store of a recorded row at index `number`."""


class InnerStack(RowStack, Protocol):
    """Interface of the memory for the recorded rows of one value in an inner loop."""

    def rows_pointer(self, count: str) -> str:
        """Return the register of the address of all recorded rows."""


class KnownRows:
    """Memory for recorded rows whose shape is known before the loop runs."""

    def __init__(
        self, writer: RowsWriter, recorded: Recorded, pointer: str, shape: Extents
    ) -> None:
        self._pointer = pointer
        self._writer = writer
        self._row = recorded.row
        self._shape = shape

    def record(self, cell: Cell, number: str) -> None:
        """Emit a store of a recorded row at index `number`."""
        if not is_single(self._row) and self._writer.shapes.of(self._row) != self._shape:
            raise unknown_shape(self._row)
        self._writer.store_value(self._row, cell, self._pointer, number)

    def rows_pointer(self, count: str) -> str:
        """Return the register of the address of all recorded rows."""
        return self._pointer


class _FirstRowShape:
    """Base class of memory for recorded rows whose shape is that of the first row."""

    def __init__(self, writer: RowsWriter, loop: Loop, recorded: Recorded) -> None:
        self._writer = writer
        self._loop = loop
        self._recorded = recorded

    def _check_shape(
        self, number: str, recorded_extents: list[str], first: Callable[[], None]
    ) -> None:
        """Emit code that stores the first row's extents, and checks the extents of later rows.

        Args:
            number: Register of the index of the row.
            recorded_extents: Pointers to the extents that are not known in advance.
            first: Writes further code for the first row.
        """
        code, function_text = self._writer.scalar_code, self._writer.function_text
        unknown_extents = [extent for extent, is_stated in self._extents() if not is_stated]
        first_block, later_block, end_block = (
            function_text.name(stem) for stem in ("first", "later", "compared")
        )
        is_first = code.emit(f"icmp eq i64 {number}, 0")
        code.line(f"br i1 {is_first}, label %{first_block}, label %{later_block}")
        code.label(first_block)
        for extent, pointer in zip(unknown_extents, recorded_extents, strict=True):
            code.line(f"store i64 {extent}, ptr {pointer}")
        first()
        code.line(f"br label %{end_block}")
        code.label(later_block)
        first_extents = [code.emit(f"load i64, ptr {pointer}") for pointer in recorded_extents]
        has_other_extent = "false"
        for first_extent, later_extent in zip(first_extents, unknown_extents, strict=True):
            has_other_extent = code.emit(
                f"or i1 {has_other_extent}, {code.compare('ne', 'int64', first_extent, str(later_extent))}"
            )
        code.fail_if(has_other_extent, self._failure(), (*first_extents, *unknown_extents))
        code.line(f"br label %{end_block}")
        code.label(end_block)

    def _extents(self) -> Iterator[tuple[Extent, bool]]:
        """Yield each extent of a row, with True if the program declares it as a number."""
        row = self._recorded.row
        for extent, stated_extent in zip(self._writer.shapes.of(row), row.shape or (), strict=True):
            if isinstance(stated_extent, int) and extent != stated_extent:
                raise unknown_shape(row)
            yield extent, isinstance(stated_extent, int)

    def _failure(self) -> Failure:
        recorded_value = self._recorded
        shape_text = f"[{', '.join(str(extent) if is_stated else NUMBER_PLACEHOLDER for extent, is_stated in self._extents())}]"
        error = build_row_shape_error(
            [recorded_value.name or recorded_value.row.name],
            shape_text,
            shape_text,
            self._loop.where,
        )
        finding = error.findings[0]
        return Failure(finding.what, finding.where, finding.hint, type(error))


class GrowingRows(_FirstRowShape):
    """Growable memory for the recorded rows of one value in an inner loop."""

    def __init__(self, writer: RowsWriter, loop: Loop, recorded: Recorded) -> None:
        super().__init__(writer, loop, recorded)
        self._room = writer.space.new_room()
        self._extent_pointers: dict[int, str] = {}
        for axis, extent in enumerate(recorded.row.shape or ()):
            if not isinstance(extent, int):
                self._extent_pointers[axis] = writer.scalar_code.allocate_local("i64")
                writer.scalar_code.line(f"store i64 0, ptr {self._extent_pointers[axis]}")

    def record(self, cell: Cell, number: str) -> None:
        """Emit code that grows the buffer and stores a recorded row at index `number`."""
        writer, row = self._writer, self._recorded.row
        if self._extent_pointers:
            self._check_shape(number, [*self._extent_pointers.values()], lambda: None)
        row_count = writer.scalar_code.emit(f"add i64 {number}, 1")
        shape = (row_count, *(extent for extent, _ in self._extents()))
        pointer = writer.space.grow(self._room, (*shape, ITEM_BYTES[row.dtype]))
        pointer = writer.bounds.array(pointer, self._recorded.stack, shape, self._room)
        writer.store_value(row, cell, pointer, number)

    def rows_pointer(self, count: str) -> str:
        """Return the register of the address of all recorded rows."""
        writer, extent_pointers, stack = self._writer, self._extent_pointers, self._recorded.stack
        row_extents = (
            self._first_row_extent(extent, extent_pointers[axis], count)
            if axis in extent_pointers
            else extent
            for axis, extent in enumerate(self._recorded.row.shape or ())
        )
        writer.shapes.record_extents(stack, (count, *row_extents))
        return writer.bounds.array(writer.space.grow(self._room, (0,)), stack, room=self._room)

    def _first_row_extent(self, stated_extent: int | str, extent_place: str, count: str) -> Extent:
        """Emit a load of one extent of the first recorded row.

        Without rows, the extent is that of the program, or 0.
        """
        code = self._writer.scalar_code
        extent = code.emit(f"load i64, ptr {extent_place}")
        program_extent = self._writer.shapes.resolve_extent(stated_extent)
        if program_extent is None:
            return extent
        has_rows = code.emit(f"icmp ne i64 {count}, 0")
        return code.emit(f"select i1 {has_rows}, i64 {extent}, i64 {program_extent}")


class LateRows(_FirstRowShape):
    """Memory for recorded rows of the outer loop, which is allocated with the first row.

    Args:
        writer: Writer of the code.
        loop: The outer loop.
        recorded: The recorded value.
        late: Index in `%extents` of the first extent that the first row determines.
    """

    def __init__(self, writer: RowsWriter, loop: Loop, recorded: Recorded, late: int) -> None:
        super().__init__(writer, loop, recorded)
        stated_flags = [is_stated for _, is_stated in self._extents()]
        self._extent_indices = range(late, late + stated_flags.count(False))
        self._pointer = writer.scalar_code.allocate_local("ptr")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a recorded row, with negative codes for run-time extents."""
        extent_indices = iter(self._extent_indices)
        row_extents = self._recorded.row.shape or ()
        return tuple(
            extent if isinstance(extent, int) else extent_code(next(extent_indices))
            for extent in row_extents
        )

    @property
    def count(self) -> int:
        """Number of row extents that are known only after the first row."""
        return len(self._extent_indices)

    def record(self, cell: Cell, number: str) -> None:
        """Emit a store of a recorded row at index `number`; the first row allocates the output."""
        writer, code = self._writer, self._writer.scalar_code
        extent_pointers = [
            code.emit(f"getelementptr i64, ptr %extents, i64 {index}")
            for index in self._extent_indices
        ]
        self._check_shape(number, extent_pointers, self._allocate_output)
        pointer = code.emit(f"load ptr, ptr {self._pointer}")
        pointer = writer.bounds.array(
            pointer, self._recorded.stack, (ITERATION_COUNT_CODE, *self.row_shape)
        )
        writer.store_value(self._recorded.row, cell, pointer, number)

    def _allocate_output(self) -> None:
        """Emit the allocation of a loop output with the extents of the first row."""
        pointer = allocate_output(self._writer, self._recorded.stack)
        self._writer.scalar_code.line(f"store ptr {pointer}, ptr {self._pointer}")
