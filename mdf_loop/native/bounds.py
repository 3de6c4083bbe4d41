"""Optional bounds checks of all memory accesses in the machine code of a loop.

A wrong access in machine code may crash the process or corrupt its results. With `MDF_LOOP_NATIVE_CHECK=1`, a
check precedes each access to an array (inputs, outputs, rows, memory of the loop, tables):

    far = pointer - begin of the array              # unsigned: a pointer before the array is far
    if far > its bytes or its bytes - far < bytes of the access: fail

An access outside of its array then fails with an error message that names the array. Without the variable, no
checks are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from msgspec import Struct

from mdf_loop.ir import Loop, Value
from mdf_loop.native.loop_text import ITERATION_COUNT_CODE, extent_code
from mdf_loop.ops.native.code import ITEM_BYTES, Code, Extent, Extents, Failure

CHECK_VARIABLE = "MDF_LOOP_NATIVE_CHECK"
"""Environment variable that turns the bounds checks on."""

FAULT_SENTENCE = "this is a fault of mdf_loop, please report it"
"""Sentence that ends the message of a failed bounds check."""

CHECK_BEGIN, CHECK_END = "; check", "; checked"
"""Comments in the LLVM code before and after a check, followed by the pointer."""


class Bounds:
    """Emitter of bounds checks that emits nothing, used when bounds checks are off."""

    def register_array(
        self,
        register: str,
        value: Value,
        shape: Extents | None = None,
        buffer_number: int | None = None,
    ) -> str:
        """Record a pointer as the start of an array for bounds checks, and return the pointer.

        Args:
            register: Register of the pointer.
            value: The array.
            shape: Extents as in `LoopText.output_shapes`, or registers. By default, the extents of the value.
            buffer_number: Number of the growable buffer that contains the array, if any.
        """
        return register

    def register_part(self, pointer: str, value: Value) -> str:
        """Record a pointer to a part of an array, such as a row, and return the pointer."""
        return pointer

    def register_address(self, register: str, pointer: str) -> str:
        """Record an address as one in the same array as `pointer`, and return the address."""
        return register

    def check_access(self, pointer: str, size: Extent, align: int = 1) -> None:
        """Emit the bounds check of the next memory access, of `size` bytes."""


def bounds_of(code: Code, loop: Loop, extents: Callable[[Value], Extents]) -> Bounds:
    """Return the emitter of bounds checks for a loop, which is a no-op by default.

    Without the environment variable `CHECK_VARIABLE`, the emitter emits no checks.

    Args:
        code: Writer of the checks.
        loop: Loop of the kernel.
        extents: Function that returns the extents of an array.
    """
    return (
        _CheckedBounds(code, loop, extents) if os.environ.get(CHECK_VARIABLE) == "1" else Bounds()
    )


class _MemoryArea(Struct, frozen=True):
    """Array in memory, with the first address and the shape that bounds checks use.

    Attributes:
        value: The array.
        begin_address: Register of the address of the first byte.
        shape: Extents, or None for the extents of the value.
        buffer_number: Number of the growable buffer that contains the array, or None.
        enclosing_area: Memory of the array that this array is a part of, or None.
    """

    value: Value
    begin_address: str
    shape: Extents | None = None
    buffer_number: int | None = None
    enclosing_area: _MemoryArea | None = None


class _Pointer(str):
    """Name of a pointer register, with a description of the array that the pointer refers to."""

    __slots__ = ("memory_area",)
    memory_area: _MemoryArea


def _make_pointer(register: str, memory_area: _MemoryArea) -> _Pointer:
    pointer = _Pointer(register)
    pointer.memory_area = memory_area
    return pointer


def _memory_areas(pointer: str) -> Iterator[_MemoryArea]:
    """Yield the array that a pointer points into, then its enclosing arrays."""
    assert isinstance(pointer, _Pointer), f"nobody knows into which array {pointer} points"
    memory_area: _MemoryArea | None = pointer.memory_area
    while memory_area is not None:
        yield memory_area
        memory_area = memory_area.enclosing_area


class _CheckedBounds(Bounds):
    """Emitter of LLVM bounds checks before each memory access.

    Each check computes the size of the array again. An earlier computation may be in a branch that was not
    executed.
    """

    def __init__(self, code: Code, loop: Loop, extents: Callable[[Value], Extents]) -> None:
        self._scalar_code = code
        self._loop = loop
        self._extents_of = extents

    def register_array(
        self,
        register: str,
        value: Value,
        shape: Extents | None = None,
        buffer_number: int | None = None,
    ) -> str:
        """Return a pointer in `register` that remembers the extent of its array for bounds checks."""
        return _make_pointer(register, _MemoryArea(value, register, shape, buffer_number))

    def register_part(self, pointer: str, value: Value) -> str:
        """Return a pointer that remembers the part of an array that it addresses, for bounds checks."""
        memory_area = next(_memory_areas(pointer))
        if memory_area.value == value:
            return pointer
        return _make_pointer(pointer, _MemoryArea(value, pointer, enclosing_area=memory_area))

    def register_address(self, register: str, pointer: str) -> str:
        """Return an address, annotated for bounds checks with the array to which it belongs."""
        return _make_pointer(register, next(_memory_areas(pointer)))

    def check_access(self, pointer: str, size: Extent, align: int = 1) -> None:
        """Emit a check that fails for a memory access that is out of bounds or misaligned."""
        scalar_code = self._scalar_code
        scalar_code.line(f"{CHECK_BEGIN} {pointer}")
        integer_address = scalar_code.emit(f"ptrtoint ptr {pointer} to i64")
        for memory_area in _memory_areas(pointer):
            self._check_range(
                integer_address,
                size,
                memory_area,
                memory_area.begin_address,
                self._byte_count(memory_area),
            )
            if memory_area.buffer_number is not None:
                self._check_range(
                    integer_address,
                    size,
                    memory_area,
                    *self._load_buffer(memory_area.buffer_number),
                )
        if align > 1:
            misalignment = scalar_code.emit(f"and i64 {integer_address}, {align - 1}")
            is_misaligned = scalar_code.emit(f"icmp ne i64 {misalignment}, 0")
            fault_action = f"take what is no multiple of {align} bytes for one in"
            scalar_code.fail_if(
                is_misaligned, self._failure(fault_action, next(_memory_areas(pointer)))
            )
        scalar_code.line(f"{CHECK_END} {pointer}")

    def _check_range(
        self, address: str, size: Extent, memory_area: _MemoryArea, begin: str, byte_count: Extent
    ) -> None:
        """Emit a check that an access lies within `byte_count` bytes from `begin` on."""
        scalar_code = self._scalar_code
        byte_offset = scalar_code.emit(
            f"sub i64 {address}, {scalar_code.emit(f'ptrtoint ptr {begin} to i64')}"
        )
        is_beyond = scalar_code.emit(f"icmp ugt i64 {byte_offset}, {byte_count}")
        remaining_bytes = scalar_code.emit(f"sub i64 {byte_count}, {byte_offset}")
        is_too_short = scalar_code.emit(f"icmp ult i64 {remaining_bytes}, {size}")
        is_outside = scalar_code.emit(f"or i1 {is_beyond}, {is_too_short}")
        scalar_code.fail_if(is_outside, self._failure("reach outside of", memory_area))

    def _byte_count(self, memory_area: _MemoryArea) -> Extent:
        array_extents = (
            self._extents_of(memory_area.value) if memory_area.shape is None else memory_area.shape
        )
        byte_count: Extent = ITEM_BYTES[memory_area.value.dtype]
        for extent in array_extents:
            byte_count = self._scalar_code.emit(
                f"mul i64 {byte_count}, {self._decode_extent(extent)}"
            )
        return byte_count

    def _decode_extent(self, extent: Extent) -> Extent:
        """Return the number or register of an extent that may be encoded as a negative number.

        `LoopText.output_shapes` has the encoding.
        """
        if isinstance(extent, str) or extent >= 0:
            return extent
        if extent == ITERATION_COUNT_CODE:
            return "%trip"
        extent_pointer = self._scalar_code.emit(
            f"getelementptr i64, ptr %extents, i64 {extent_code(extent)}"
        )
        return self._scalar_code.emit(f"load i64, ptr {extent_pointer}")

    def _load_buffer(self, number: int) -> tuple[str, str]:
        """Emit loads of the current address and size of a growable buffer.

        Pointers into the buffer are invalid after it has grown.
        """
        scalar_code = self._scalar_code
        buffer_table = scalar_code.emit("getelementptr ptr, ptr %call, i64 2")
        buffer_table = scalar_code.emit(f"load ptr, ptr {buffer_table}")
        buffer_pointer = scalar_code.emit(
            f"getelementptr {{ptr, i64}}, ptr {buffer_table}, i64 {number}"
        )
        size_pointer = scalar_code.emit(f"getelementptr i64, ptr {buffer_pointer}, i64 1")
        return scalar_code.emit(f"load ptr, ptr {buffer_pointer}"), scalar_code.emit(
            f"load i64, ptr {size_pointer}"
        )

    def _failure(self, action: str, memory_area: _MemoryArea) -> Failure:
        return Failure(
            f"the native loop '{self._loop.name}' was about to {action} the memory of "
            f"'{memory_area.value.name}': {FAULT_SENTENCE}",
            self._loop.where,
            "native='off' computes it without machine code",
        )
