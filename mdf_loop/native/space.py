"""Memory management for arrays in the machine code of a loop.

An array of known size has a fixed place in memory that is allocated before the loop. Any other array has a
growable buffer ("room"). The structure `Call` of trampoline.c owns the buffers and frees them after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.native.loop_text import NO_MEMORY_CODE
from mdf_loop.ops.native.code import Code, Extent

ALIGNMENT = 64
"""Alignment of arrays in bytes."""

_GROW_FUNCTION = """define internal ptr @room(ptr %call, i64 %number, i64 %bytes) {
  %field = getelementptr ptr, ptr %call, i64 2
  %rooms = load ptr, ptr %field
  %room = getelementptr {ptr, i64}, ptr %rooms, i64 %number
  %size = getelementptr {ptr, i64}, ptr %room, i64 0, i32 1
  %has = load i64, ptr %size
  %nothing = icmp eq i64 %bytes, 0
  %wanted = select i1 %nothing, i64 1, i64 %bytes
  %fits = icmp ule i64 %wanted, %has
  br i1 %fits, label %enough, label %few
enough:
  %memory = load ptr, ptr %room
  ret ptr %memory
few:
  %grow = load ptr, ptr %call
  %made = call ptr %grow(ptr %call, i64 %number, i64 %wanted)
  ret ptr %made
}"""
"""LLVM function that grows a buffer to at least `%bytes` bytes and keeps its content.

The function returns null if the allocation fails.
"""

_PRODUCT_FUNCTION = """define internal i64 @product(i64 %a, i64 %b) {
  %both = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %a, i64 %b)
  %number = extractvalue {i64, i1} %both, 0
  %over = extractvalue {i64, i1} %both, 1
  %large = icmp ugt i64 %number, 4611686018427387904
  %none = or i1 %over, %large
  %made = select i1 %none, i64 4611686018427387904, i64 %number
  ret i64 %made
}
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)"""
"""LLVM function that multiplies two numbers of bytes. The product saturates at 2**62."""


class FunctionMemory:
    """Memory of one LLVM function: buffers of fixed size, and growable buffers.

    Attributes:
        scratch_bytes: Bytes of all fixed places.
        growable_buffer_count: Number of growable buffers.
        unshared_pointers: Registers of pointers to memory that contains one array only.
    """

    def __init__(self, code: Code) -> None:
        self.scratch_bytes = 0
        self.growable_buffer_count = 0
        self.unshared_pointers: set[str] = set()
        self._scalar_code = code
        self._address_lines: list[str] = []
        self._insertion_line = 0
        self._base_pointer = ""

    def begin(self, pointer: str) -> None:
        """Emit code that aligns the start of the memory block that holds all fixed-size buffers.

        `end` inserts the addresses of the buffers after this code.
        """
        scalar_code = self._scalar_code
        raw_address = scalar_code.emit(f"ptrtoint ptr {pointer} to i64")
        padded_address = scalar_code.emit(f"add i64 {raw_address}, {ALIGNMENT - 1}")
        aligned_address = scalar_code.emit(f"and i64 {padded_address}, -{ALIGNMENT}")
        self._base_pointer = scalar_code.emit(f"inttoptr i64 {aligned_address} to ptr")
        self._insertion_line = len(scalar_code.function_text.instruction_lines)

    def end(self) -> None:
        """Insert the address computations of all fixed-size buffers at the place set by `begin`."""
        self._scalar_code.function_text.instruction_lines[
            self._insertion_line : self._insertion_line
        ] = self._address_lines

    def allocate(self, size: int) -> str:
        """Allocate a buffer of `size` bytes, and return the register of its address."""
        address_register = self._scalar_code.function_text.new_name("%buffer")
        address_instruction = (
            f"getelementptr i8, ptr {self._base_pointer}, i64 {self.scratch_bytes}"
        )
        self._address_lines.append(f"  {address_register} = {address_instruction}")
        self.scratch_bytes += -(-size // ALIGNMENT) * ALIGNMENT
        self.unshared_pointers.add(address_register)
        return address_register

    def add_growable_buffer(self) -> int:
        """Add a growable buffer to the function, and return the number of the buffer."""
        self.growable_buffer_count += 1
        return self.growable_buffer_count - 1

    def grow(self, buffer_number: int, factors: Sequence[Extent]) -> str:
        """Emit code that grows a buffer to a number of bytes, and return the buffer's address."""
        scalar_code, function_text = self._scalar_code, self._scalar_code.function_text
        function_text.declarations["@room"] = _GROW_FUNCTION
        buffer_pointer = scalar_code.emit(
            f"call ptr @room(ptr %call, i64 {buffer_number}, i64 {self._multiply(factors)})"
        )
        self.fail_if_null(buffer_pointer)
        self.unshared_pointers.add(buffer_pointer)
        return buffer_pointer

    def load_address(self, buffer_number: int) -> str:
        """Emit a load of the current address of a growable buffer."""
        return self._scalar_code.emit(f"call ptr @room(ptr %call, i64 {buffer_number}, i64 0)")

    def fail_if_null(self, pointer: str) -> None:
        """Emit an early return if a pointer is null, since a memory allocation failed."""
        scalar_code, function_text = self._scalar_code, self._scalar_code.function_text
        null_block, valid_block = function_text.new_name("none"), function_text.new_name("some")
        scalar_code.line(
            f"br i1 {scalar_code.emit(f'icmp eq ptr {pointer}, null')}, label %{null_block}, label %{valid_block}"
        )
        scalar_code.label(null_block)
        scalar_code.line(f"ret i64 -{NO_MEMORY_CODE}")
        scalar_code.label(valid_block)

    def _multiply(self, factors: Sequence[Extent]) -> Extent:
        """Emit a product of extents and sizes in bytes, which saturates on overflow."""
        self._scalar_code.function_text.declarations["@product"] = _PRODUCT_FUNCTION
        factor_product: Extent = 1
        for factor in factors:
            if isinstance(factor_product, int) and isinstance(factor, int):
                factor_product *= factor
            else:
                factor_product = self._scalar_code.emit(
                    f"call i64 @product(i64 {factor_product}, i64 {factor})"
                )
        return factor_product
