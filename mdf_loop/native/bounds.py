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

    def array(
        self, register: str, value: Value, shape: Extents | None = None, room: int | None = None
    ) -> str:
        """Register the pointer to the first byte of an array, and return the pointer.

        Args:
            register: Register of the pointer.
            value: The array.
            shape: Extents as in `LoopText.output_shapes`, or registers. By default, the extents of the value.
            room: Number of the growable buffer that contains the array, if any.
        """
        return register

    def part(self, pointer: str, value: Value) -> str:
        """Register the pointer to a part of an array, such as a row, and return the pointer."""
        return pointer

    def derive_pointer(self, register: str, pointer: str) -> str:
        """Register an address as one in the array of `pointer`, and return the address."""
        return register

    def access(self, pointer: str, size: Extent, align: int = 1) -> None:
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


class _Memory(Struct, frozen=True):
    """Memory area of an array, for which bounds checks compute the end.

    Attributes:
        value: The array.
        begin_address: Register of the address of the first byte.
        shape: Extents, or None for the extents of the value.
        room_number: Number of the growable buffer that contains the array, or None.
        enclosing_memory: Memory of the array that this array is a part of, or None.
    """

    value: Value
    begin_address: str
    shape: Extents | None = None
    room_number: int | None = None
    enclosing_memory: _Memory | None = None


class _Pointer(str):
    """Pointer register (a string) with a description of the memory area that it points into."""

    __slots__ = ("memory",)
    memory: _Memory


def _make_pointer(register: str, memory: _Memory) -> _Pointer:
    pointer = _Pointer(register)
    pointer.memory = memory
    return pointer


def _memories(pointer: str) -> Iterator[_Memory]:
    """Yield the array that a pointer points into, then its enclosing arrays."""
    assert isinstance(pointer, _Pointer), f"nobody knows into which array {pointer} points"
    memory: _Memory | None = pointer.memory
    while memory is not None:
        yield memory
        memory = memory.enclosing_memory


class _CheckedBounds(Bounds):
    """Emitter of LLVM bounds checks before each memory access.

    Each check computes the size of the array again. An earlier computation may be in a branch that was not
    executed.
    """

    def __init__(self, code: Code, loop: Loop, extents: Callable[[Value], Extents]) -> None:
        self._code = code
        self._loop = loop
        self._extents = extents

    def array(
        self, register: str, value: Value, shape: Extents | None = None, room: int | None = None
    ) -> str:
        """Return the pointer to an array, annotated with the memory area of the array."""
        return _make_pointer(register, _Memory(value, register, shape, room))

    def part(self, pointer: str, value: Value) -> str:
        """Return the pointer to a part of an array, annotated with the memory area of the part."""
        memory = next(_memories(pointer))
        if memory.value == value:
            return pointer
        return _make_pointer(pointer, _Memory(value, pointer, enclosing_memory=memory))

    def derive_pointer(self, register: str, pointer: str) -> str:
        """Return a derived address, annotated with the memory area of the original pointer."""
        return _make_pointer(register, next(_memories(pointer)))

    def access(self, pointer: str, size: Extent, align: int = 1) -> None:
        """Emit a check that fails for a memory access that is out of bounds or misaligned."""
        code = self._code
        code.line(f"{CHECK_BEGIN} {pointer}")
        address = code.emit(f"ptrtoint ptr {pointer} to i64")
        for memory in _memories(pointer):
            self._check_range(address, size, memory, memory.begin_address, self._byte_count(memory))
            if memory.room_number is not None:
                self._check_range(address, size, memory, *self._load_room(memory.room_number))
        if align > 1:
            misalignment = code.emit(f"and i64 {address}, {align - 1}")
            is_misaligned = code.emit(f"icmp ne i64 {misalignment}, 0")
            action = f"take what is no multiple of {align} bytes for one in"
            code.fail_if(is_misaligned, self._failure(action, next(_memories(pointer))))
        code.line(f"{CHECK_END} {pointer}")

    def _check_range(
        self, address: str, size: Extent, memory: _Memory, begin: str, room: Extent
    ) -> None:
        """Emit a check that an access lies within `room` bytes from `begin` on."""
        code = self._code
        offset = code.emit(f"sub i64 {address}, {code.emit(f'ptrtoint ptr {begin} to i64')}")
        is_beyond = code.emit(f"icmp ugt i64 {offset}, {room}")
        remaining_bytes = code.emit(f"sub i64 {room}, {offset}")
        is_too_short = code.emit(f"icmp ult i64 {remaining_bytes}, {size}")
        is_outside = code.emit(f"or i1 {is_beyond}, {is_too_short}")
        code.fail_if(is_outside, self._failure("reach outside of", memory))

    def _byte_count(self, memory: _Memory) -> Extent:
        shape = self._extents(memory.value) if memory.shape is None else memory.shape
        byte_count: Extent = ITEM_BYTES[memory.value.dtype]
        for extent in shape:
            byte_count = self._code.emit(f"mul i64 {byte_count}, {self._decode_extent(extent)}")
        return byte_count

    def _decode_extent(self, extent: Extent) -> Extent:
        """Return an extent as a number or register, decoded from a negative code.

        `LoopText.output_shapes` has the encoding.
        """
        if isinstance(extent, str) or extent >= 0:
            return extent
        if extent == ITERATION_COUNT_CODE:
            return "%trip"
        extent_pointer = self._code.emit(
            f"getelementptr i64, ptr %extents, i64 {extent_code(extent)}"
        )
        return self._code.emit(f"load i64, ptr {extent_pointer}")

    def _load_room(self, number: int) -> tuple[str, str]:
        """Emit loads of the current address and size of a growable buffer.

        Pointers into the buffer are invalid after it has grown.
        """
        code = self._code
        room_table = code.emit("getelementptr ptr, ptr %call, i64 2")
        room_table = code.emit(f"load ptr, ptr {room_table}")
        room_pointer = code.emit(f"getelementptr {{ptr, i64}}, ptr {room_table}, i64 {number}")
        size_pointer = code.emit(f"getelementptr i64, ptr {room_pointer}, i64 1")
        return code.emit(f"load ptr, ptr {room_pointer}"), code.emit(
            f"load i64, ptr {size_pointer}"
        )

    def _failure(self, action: str, memory: _Memory) -> Failure:
        return Failure(
            f"the native loop '{self._loop.name}' was about to {action} the memory of "
            f"'{memory.value.name}': {FAULT_SENTENCE}",
            self._loop.where,
            "native='off' computes it without machine code",
        )
