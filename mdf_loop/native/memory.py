"""Emission of LLVM code for arrays in memory: extents, addresses, and loops over elements."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

from mdf_loop.ir import Array, Op, Value
from mdf_loop.native import small_arrays
from mdf_loop.native.shapes import ValueExtents
from mdf_loop.native.space import FunctionMemory
from mdf_loop.native.support import KernelSignature
from mdf_loop.native.writer import FunctionWriter
from mdf_loop.ops.native.code import ITEM_BYTES, Cell, Code, Extent, Extents, Failure, is_single


class MemoryWriter(FunctionWriter):
    """Base class of code emitters for loops that keep arrays in memory.

    Attributes:
        vector_code: Writer of vector instructions.
        function_memory: Memory of computed arrays.
        value_extents: Extents of arrays.
    """

    def __init__(self, signature: KernelSignature, width: int, failures: list[Failure]) -> None:
        super().__init__(signature, failures)
        self.vector_code = Code(self.function_text, width, True)
        self.function_memory = FunctionMemory(self.scalar_code)
        self.value_extents = ValueExtents(self.scalar_code)

    # --- shapes -------------------------------------------------------------------------------

    def extents(self, value: Value) -> Extents:
        """Return the extents of an array."""
        return self.value_extents.of(value)

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of an array, or raise NotNative if the shape is not constant."""
        return self.value_extents.fixed_extents(value)

    def is_extent(self, number: Extent) -> bool:
        """Return True if a number is a nonnegative constant, or the register of an array extent."""
        return self.value_extents.is_extent(number)

    def broadcast_shape(self, op: Op) -> Extents:
        """Return the common shape to which the operands of an operation are broadcast."""
        return self.value_extents.broadcast_shape(op)

    def set_extents(self, value: Value, extents: Extents) -> None:
        """Set the extents of a computed value."""
        self.value_extents.record_extents(value, extents)

    def small_integers(self, value: Value, cells: Mapping[Value, Cell]) -> Extents | None:
        """Return the elements of a small array of integers, or None for any other array."""
        return small_arrays.load_elements(self, value, cells)

    def integer_cell(self, value: Value, numbers: Sequence[Extent]) -> Cell:
        """Return a `Cell` with one register or number for each element of a small integer array."""
        return small_arrays.cell_of(value, numbers)

    def assign_extents(self, value: Value, other: Value) -> None:
        """Set the extents of an array to those of another array."""
        self.value_extents.record_extents(value, self.extents(other))

    def constant_of(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None for a value that is computed at run time."""
        return None if value is None else self.signature.constants.get(value)

    # --- memory -------------------------------------------------------------------------------

    def allocate_buffer(self, value: Value) -> str:
        """Allocate memory for an array, and return the register of the address."""
        size_factors = (*self.extents(value), ITEM_BYTES[value.dtype])
        known_factors = [factor for factor in size_factors if isinstance(factor, int)]
        if len(known_factors) == len(size_factors):
            return self.bounds.register_array(
                self.function_memory.allocate(math.prod(known_factors)), value
            )
        buffer_number = self.function_memory.add_growable_buffer()
        return self.bounds.register_array(
            self.function_memory.grow(buffer_number, size_factors),
            value,
            buffer_number=buffer_number,
        )

    def constant_table(self, numbers: Sequence[int]) -> str:
        """Return the address of a constant table of integers.

        The name of the table is a hash, so equal tables share memory.
        """
        numbers_text = ", ".join(f"i64 {number}" for number in numbers)
        table_name = f"@table_{hashlib.sha256(numbers_text.encode()).hexdigest()[:32]}"
        self.function_text.declarations[table_name] = (
            f"{table_name} = private constant [{len(numbers)} x i64] [{numbers_text}]"
        )
        return self.bounds.register_array(
            table_name, Value("a table of places", "int64", (len(numbers),))
        )

    def store_value(self, value: Value, cell: Cell, pointer: str, index: str = "0") -> None:
        """Emit a store of a scalar or array at position `index` of an array of such values."""
        if is_single(value):
            self.store(self.scalar_code, value.dtype, cell.registers[0], pointer, index)
            return
        value_bytes = self.value_extents.bytes(value)
        if index != "0":
            pointer = self.offset_pointer(pointer, self.multiply(index, value_bytes))
        self.copy(pointer, self.pointer_of(value, cell), value_bytes)

    def pointer_of(self, value: Value, cell: Cell) -> str:
        """Return the address of an array.

        An array in registers is first stored to memory.
        """
        if cell.pointer:
            return cell.pointer
        array_pointer = self.allocate_buffer(value)
        if not cell.is_scalar:
            for index, register in enumerate(cell.registers):
                self.store(self.scalar_code, value.dtype, register, array_pointer, str(index))
            return array_pointer
        self.for_each_element(
            self.value_extents.size(value),
            lambda code, k: self._fill(code, value.dtype, cell, array_pointer, k),
        )
        return array_pointer

    def _fill(self, code: Code, dtype: str, cell: Cell, pointer: str, index: str) -> None:
        self.store(code, dtype, code.broadcast(cell.registers[0], dtype), pointer, index)

    # --- loops over elements ------------------------------------------------------------------

    def for_each_element(self, count: Extent, write: Callable[[Code, str], None]) -> None:
        """Emit a loop over array elements: first vectors of elements, then single elements.

        Args:
            count: Number of elements.
            write: Writes the code for the elements from an index on, one for each lane of a writer.
        """
        vector_width = self.vector_code.lane_count
        if isinstance(count, int):
            vectorized_count: Extent = count // vector_width * vector_width
        else:
            vectorized_count = self.scalar_code.emit(f"and i64 {count}, -{vector_width}")
        if vectorized_count:
            self.repeat(
                "0", str(vectorized_count), vector_width, lambda k: write(self.vector_code, k)
            )
        if count != vectorized_count:
            self.repeat(str(vectorized_count), str(count), 1, lambda k: write(self.scalar_code, k))

    def multiply(self, number: str, factor: Extent) -> str:
        """Emit the product of two integers, such as a number of elements and a size in bytes."""
        return self.scalar_code.emit(f"mul i64 {number}, {factor}")

    def as_cell(self, value: Value, pointer: str) -> Cell:
        """Return a `Cell` with the pointer to an array, or with a scalar loaded from memory."""
        if is_single(value):
            return Cell((self.load(self.scalar_code, value.dtype, pointer),), True)
        return Cell(pointer=self.bounds.register_part(pointer, value))
