"""LLVM code for arrays in memory: their extents, their addresses, and loops over their elements."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

from mdf_loop.ir import Array, Op, Value
from mdf_loop.native import small_arrays
from mdf_loop.native.shapes import ValueExtents
from mdf_loop.native.space import StackSpace
from mdf_loop.native.support import KernelSignature
from mdf_loop.native.writer import FormWriter
from mdf_loop.ops.native.code import BYTES, Cell, Code, Extent, Extents, Failure, is_single


class MemoryWriter(FormWriter):
    """Base class of writers for a loop whose arrays are in memory.

    Attributes:
        wide: Writer of vector instructions.
        space: Memory of computed arrays.
        shapes: Extents of arrays.
    """

    def __init__(self, form: KernelSignature, width: int, failures: list[Failure]) -> None:
        super().__init__(form, failures)
        self.wide = Code(self.text, width, True)
        self.space = StackSpace(self.one)
        self.shapes = ValueExtents(self.one)

    # --- shapes -------------------------------------------------------------------------------

    def extents(self, value: Value) -> Extents:
        """Return the extents of an array."""
        return self.shapes.of(value)

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return the extents of an array, which must be known before the loop runs."""
        return self.shapes.fixed(value)

    def is_extent(self, number: Extent) -> bool:
        """Return True if a number is known to be an extent, and so not negative."""
        return self.shapes.has(number)

    def joined(self, op: Op) -> Extents:
        """Return the shape to which the operands of an operation are broadcast."""
        return self.shapes.joined(op)

    def shaped(self, value: Value, extents: Extents) -> None:
        """Set the extents of a computed value."""
        self.shapes.take(value, extents)

    def numbers(self, value: Value, cells: Mapping[Value, Cell]) -> Extents | None:
        """Return the elements of a small array of integers, or None for other arrays."""
        return small_arrays.numbers_of(self, value, cells)

    def few(self, value: Value, numbers: Sequence[Extent]) -> Cell:
        """Return the cell of a small array of integers in registers."""
        return small_arrays.cell_of(value, numbers)

    def alike(self, value: Value, other: Value) -> None:
        """Set the extents of a value to those of another value, which is assigned to it."""
        self.shapes.take(value, self.extents(other))

    def known(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None for a value that is computed at run time."""
        return None if value is None else self.form.known.get(value)

    # --- memory -------------------------------------------------------------------------------

    def buffer(self, value: Value) -> str:
        """Allocate memory for an array, and return its address."""
        extents = (*self.extents(value), BYTES[value.dtype])
        known = [extent for extent in extents if isinstance(extent, int)]
        if len(known) == len(extents):
            return self.bounds.array(self.space.place(math.prod(known)), value)
        room = self.space.room()
        return self.bounds.array(self.space.grown(room, extents), value, room=room)

    def table(self, numbers: Sequence[int]) -> str:
        """Return the address of a table of constant integers. The name is a hash, so equal tables share memory."""
        text = ", ".join(f"i64 {number}" for number in numbers)
        name = f"@table_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        self.text.declared[name] = f"{name} = private constant [{len(numbers)} x i64] [{text}]"
        return self.bounds.array(name, Value("a table of places", "int64", (len(numbers),)))

    def give(self, value: Value, cell: Cell, pointer: str, place: str = "0") -> None:
        """Write the store of a scalar or array to consecutive memory for values of this size, at index `place`."""
        if is_single(value):
            self.store(self.one, value.dtype, cell.registers[0], pointer, place)
            return
        size = self.shapes.bytes(value)
        if place != "0":
            pointer = self.far(pointer, self.times(place, size))
        self.copy(pointer, self.pointer_of(value, cell), size)

    def pointer_of(self, value: Value, cell: Cell) -> str:
        """Return the address of an array. An array in registers is stored first."""
        if cell.pointer:
            return cell.pointer
        pointer = self.buffer(value)
        if not cell.single:
            for place, register in enumerate(cell.registers):
                self.store(self.one, value.dtype, register, pointer, str(place))
            return pointer
        self.over(
            self.shapes.size(value), lambda code, k: self._fill(code, value.dtype, cell, pointer, k)
        )
        return pointer

    def _fill(self, code: Code, dtype: str, cell: Cell, pointer: str, place: str) -> None:
        self.store(code, dtype, code.spread(cell.registers[0], dtype), pointer, place)

    # --- loops over elements ------------------------------------------------------------------

    def over(self, count: Extent, write: Callable[[Code, str], None]) -> None:
        """Write a loop over array elements: vectors of elements, then the remaining elements one by one.

        Args:
            count: Number of elements.
            write: Writes the code for the elements from an index on, one for each lane of a writer.
        """
        width = self.wide.width
        if isinstance(count, int):
            many: Extent = count // width * width
        else:
            many = self.one.put(f"and i64 {count}, -{width}")
        if many:
            self.repeat("0", str(many), width, lambda k: write(self.wide, k))
        if count != many:
            self.repeat(str(many), str(count), 1, lambda k: write(self.one, k))

    def times(self, number: str, factor: Extent) -> str:
        """Write the product of two numbers of elements or bytes."""
        return self.one.put(f"mul i64 {number}, {factor}")

    def as_cell(self, value: Value, pointer: str) -> Cell:
        """Return the cell of a value in memory. A scalar is loaded into a register."""
        if is_single(value):
            return Cell((self.load(self.one, value.dtype, pointer),), True)
        return Cell(pointer=self.bounds.part(pointer, value))
