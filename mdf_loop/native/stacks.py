"""Memory for the rows that the machine code of a loop records.

    KnownRows      a known number of rows of a known shape       contiguous
    GrowingRows    one row for each iteration of an inner loop   in a buffer that grows with each row
    DeferredRows   rows of the outer loop, whose shape only      in an output that is allocated when the
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
from mdf_loop.native.space import FunctionMemory
from mdf_loop.native.support import KernelSignature
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    Cell,
    Code,
    Extent,
    Extents,
    Failure,
    FunctionText,
    is_single,
)


class RowsWriter(Protocol):
    """Interface of the code emitter that writes recorded rows to memory."""

    signature: KernelSignature
    function_text: FunctionText
    scalar_code: Code
    bounds: Bounds
    function_memory: FunctionMemory
    value_extents: ValueExtents

    def load_pointer(self, array: str, position: int) -> str:
        """Emit a load of the pointer at index `position` of an array of pointers."""

    def store_value(self, value: Value, cell: Cell, pointer: str, index: str = "0") -> None:
        """Emit a store of a scalar or array at position `index` of an array of such values."""

    def copy(self, target: str, source: str, size: Extent) -> None:
        """Emit a copy of `size` bytes."""


def allocate_output(writer: RowsWriter, value: Value) -> str:
    """Emit the allocation of a loop output of known shape, and return its address."""
    output_index = [value for value, _ in writer.signature.outputs].index(value)
    allocate_pointer = writer.load_pointer("%call", 1)
    output_pointer = writer.scalar_code.emit(
        f"call ptr {allocate_pointer}(ptr %call, i64 {output_index})"
    )
    writer.function_memory.fail_if_null(output_pointer)
    return output_pointer


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
        self._rows_pointer = pointer
        self._writer = writer
        self._row = recorded.row
        self._row_shape = shape

    def record(self, cell: Cell, number: str) -> None:
        """Emit a store of a recorded row at index `number`."""
        if not is_single(self._row) and self._writer.value_extents.of(self._row) != self._row_shape:
            raise unknown_shape(self._row)
        self._writer.store_value(self._row, cell, self._rows_pointer, number)

    def rows_pointer(self, count: str) -> str:
        """Return the register of the address of all recorded rows."""
        return self._rows_pointer


class _FirstRowShape:
    """Base class of memory for recorded rows, which must all have the shape of the first row."""

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
        scalar_code, function_text = self._writer.scalar_code, self._writer.function_text
        unknown_extents = [extent for extent, is_constant in self._extents() if not is_constant]
        first_block, later_block, end_block = (
            function_text.new_name(stem) for stem in ("first", "later", "compared")
        )
        is_first_row = scalar_code.emit(f"icmp eq i64 {number}, 0")
        scalar_code.line(f"br i1 {is_first_row}, label %{first_block}, label %{later_block}")
        scalar_code.label(first_block)
        for extent, pointer in zip(unknown_extents, recorded_extents, strict=True):
            scalar_code.line(f"store i64 {extent}, ptr {pointer}")
        first()
        scalar_code.line(f"br label %{end_block}")
        scalar_code.label(later_block)
        first_row_extents = [
            scalar_code.emit(f"load i64, ptr {pointer}") for pointer in recorded_extents
        ]
        differs_from_first_row = "false"
        for first_row_extent, later_row_extent in zip(
            first_row_extents, unknown_extents, strict=True
        ):
            differs_from_first_row = scalar_code.emit(
                f"or i1 {differs_from_first_row}, {scalar_code.compare('ne', 'int64', first_row_extent, str(later_row_extent))}"
            )
        scalar_code.fail_if(
            differs_from_first_row, self._failure(), (*first_row_extents, *unknown_extents)
        )
        scalar_code.line(f"br label %{end_block}")
        scalar_code.label(end_block)

    def _extents(self) -> Iterator[tuple[Extent, bool]]:
        """Yield each extent of a row, with True if the program declares it as a number."""
        recorded_row = self._recorded.row
        for extent, stated_extent in zip(
            self._writer.value_extents.of(recorded_row), recorded_row.shape or (), strict=True
        ):
            if isinstance(stated_extent, int) and extent != stated_extent:
                raise unknown_shape(recorded_row)
            yield extent, isinstance(stated_extent, int)

    def _failure(self) -> Failure:
        recorded_value = self._recorded
        shape_text = f"[{', '.join(str(extent) if is_constant else NUMBER_PLACEHOLDER for extent, is_constant in self._extents())}]"
        shape_error = build_row_shape_error(
            [recorded_value.name or recorded_value.row.name],
            shape_text,
            shape_text,
            self._loop.where,
        )
        shape_finding = shape_error.findings[0]
        return Failure(
            shape_finding.what, shape_finding.where, shape_finding.hint, type(shape_error)
        )


class GrowingRows(_FirstRowShape):
    """Growable memory for the recorded rows of one value in an inner loop."""

    def __init__(self, writer: RowsWriter, loop: Loop, recorded: Recorded) -> None:
        super().__init__(writer, loop, recorded)
        self._buffer_number = writer.function_memory.add_growable_buffer()
        self._extent_pointers: dict[int, str] = {}
        for axis, extent in enumerate(recorded.row.shape or ()):
            if not isinstance(extent, int):
                self._extent_pointers[axis] = writer.scalar_code.allocate_local("i64")
                writer.scalar_code.line(f"store i64 0, ptr {self._extent_pointers[axis]}")

    def record(self, cell: Cell, number: str) -> None:
        """Emit code that grows the buffer and stores a recorded row at index `number`."""
        writer, recorded_row = self._writer, self._recorded.row
        if self._extent_pointers:
            self._check_shape(number, [*self._extent_pointers.values()], lambda: None)
        row_count = writer.scalar_code.emit(f"add i64 {number}, 1")
        rows_shape = (row_count, *(extent for extent, _ in self._extents()))
        buffer_pointer = writer.function_memory.grow(
            self._buffer_number, (*rows_shape, ITEM_BYTES[recorded_row.dtype])
        )
        buffer_pointer = writer.bounds.register_array(
            buffer_pointer, self._recorded.stack, rows_shape, self._buffer_number
        )
        writer.store_value(recorded_row, cell, buffer_pointer, number)

    def rows_pointer(self, count: str) -> str:
        """Return the register of the address of all recorded rows."""
        writer, extent_pointers, stack = self._writer, self._extent_pointers, self._recorded.stack
        row_extents = (
            self._first_row_extent(extent, extent_pointers[axis], count)
            if axis in extent_pointers
            else extent
            for axis, extent in enumerate(self._recorded.row.shape or ())
        )
        writer.value_extents.record_extents(stack, (count, *row_extents))
        return writer.bounds.register_array(
            writer.function_memory.grow(self._buffer_number, (0,)),
            stack,
            buffer_number=self._buffer_number,
        )

    def _first_row_extent(self, stated_extent: int | str, extent_place: str, count: str) -> Extent:
        """Emit a load of one extent of the first recorded row.

        Without rows, the extent is that of the program, or 0.
        """
        scalar_code = self._writer.scalar_code
        row_extent = scalar_code.emit(f"load i64, ptr {extent_place}")
        program_extent = self._writer.value_extents.resolve_extent(stated_extent)
        if program_extent is None:
            return row_extent
        has_rows = scalar_code.emit(f"icmp ne i64 {count}, 0")
        return scalar_code.emit(f"select i1 {has_rows}, i64 {row_extent}, i64 {program_extent}")


class DeferredRows(_FirstRowShape):
    """Memory for recorded rows of the outer loop, which is allocated with the first row.

    Args:
        writer: Writer of the code.
        loop: The outer loop.
        recorded: The recorded value.
        first_extent_index: Index in `%extents` of the first extent that the first row determines.
    """

    def __init__(
        self, writer: RowsWriter, loop: Loop, recorded: Recorded, first_extent_index: int
    ) -> None:
        super().__init__(writer, loop, recorded)
        constant_extent_flags = [is_constant for _, is_constant in self._extents()]
        self._extent_indices = range(
            first_extent_index, first_extent_index + constant_extent_flags.count(False)
        )
        self._rows_pointer_variable = writer.scalar_code.allocate_local("ptr")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a recorded row, with run-time extents encoded as negative numbers."""
        extent_indices = iter(self._extent_indices)
        row_extents = self._recorded.row.shape or ()
        return tuple(
            extent if isinstance(extent, int) else extent_code(next(extent_indices))
            for extent in row_extents
        )

    @property
    def extent_count(self) -> int:
        """Number of row extents that are known only after the first row."""
        return len(self._extent_indices)

    def record(self, cell: Cell, number: str) -> None:
        """Emit a store of a recorded row at index `number`; the first row allocates the output."""
        writer, scalar_code = self._writer, self._writer.scalar_code
        extent_pointers = [
            scalar_code.emit(f"getelementptr i64, ptr %extents, i64 {index}")
            for index in self._extent_indices
        ]
        self._check_shape(number, extent_pointers, self._allocate_output)
        output_pointer = scalar_code.emit(f"load ptr, ptr {self._rows_pointer_variable}")
        output_pointer = writer.bounds.register_array(
            output_pointer, self._recorded.stack, (ITERATION_COUNT_CODE, *self.row_shape)
        )
        writer.store_value(self._recorded.row, cell, output_pointer, number)

    def _allocate_output(self) -> None:
        """Emit the allocation of a loop output whose rows have the extents of the first row."""
        output_pointer = allocate_output(self._writer, self._recorded.stack)
        self._writer.scalar_code.line(
            f"store ptr {output_pointer}, ptr {self._rows_pointer_variable}"
        )
