"""Optional checks that every memory access of a kernel lies inside of the array of its pointer.

A kernel is machine code: one that is wrong ends the process, or lies. With `MDF_LOOP_NATIVE_CHECK=1`
each access to an array (what is given and made, rows, the loop's own memory, tables) comes after

    far = pointer - begin of the array              # without sign: what lies before it is far
    if far > its bytes or its bytes - far < bytes of the access: fail

so a loop that is about to leave an array fails with a sentence that names it. Without the variable
nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from msgspec import Struct

from mdf_loop.ir import Loop, Value
from mdf_loop.native.loop_text import ITERATIONS, extent_at
from mdf_loop.ops.native.code import BYTES, Code, Extent, Extents, Failure

VARIABLE = "MDF_LOOP_NATIVE_CHECK"

FAULT = "this is a fault of mdf_loop, please report it"

BEGUN, ENDED = "; check", "; checked"
"""Comments around a check, with the pointer."""


class Bounds:
    """No checks: pointers are registers."""

    def array(
        self, register: str, value: Value, shape: Extents | None = None, room: int | None = None
    ) -> str:
        """Return the pointer to an array, which begins there.

        `shape` is as in `LoopText.shapes`, or of registers, if it is not that of the value; `room` the
        number of the one in which it lies.
        """
        return register

    def part(self, pointer: str, value: Value) -> str:
        """Return a pointer as one to a part of its array."""
        return pointer

    def far(self, register: str, pointer: str) -> str:
        """Return the pointer in a register that was computed from another pointer."""
        return register

    def access(self, pointer: str, size: Extent, align: int = 1) -> None:
        """Write what checks the bytes that are read or written next."""


def bounds_of(code: Code, loop: Loop, extents: Callable[[Value], Extents]) -> Bounds:
    """Return the checks of the kernel that is written. `extents` gives the extents of arrays."""
    return _Checked(code, loop, extents) if os.environ.get(VARIABLE) == "1" else Bounds()


class _Memory(Struct, frozen=True):
    """Start and enclosing memory of an array: a room, or an array that contains it."""

    value: Value
    begin: str
    shape: Extents | None = None
    room: int | None = None
    whole: _Memory | None = None


class _Pointer(str):
    """A register that knows the memory into which it points."""

    __slots__ = ("memory",)
    memory: _Memory


def _pointer(register: str, memory: _Memory) -> _Pointer:
    pointer = _Pointer(register)
    pointer.memory = memory
    return pointer


def _memories(pointer: str) -> Iterator[_Memory]:
    """Yield the array of the pointer, and the arrays around it."""
    assert isinstance(pointer, _Pointer), f"nobody knows into which array {pointer} points"
    memory: _Memory | None = pointer.memory
    while memory is not None:
        yield memory
        memory = memory.whole


class _Checked(Bounds):
    """All accesses are checked.

    How large an array is, is computed anew for each: it may have been computed where the code did not
    come along.
    """

    def __init__(self, code: Code, loop: Loop, extents: Callable[[Value], Extents]) -> None:
        self._code = code
        self._loop = loop
        self._extents = extents

    def array(
        self, register: str, value: Value, shape: Extents | None = None, room: int | None = None
    ) -> str:
        """Return the pointer with the whole array."""
        return _pointer(register, _Memory(value, register, shape, room))

    def part(self, pointer: str, value: Value) -> str:
        """Return the pointer with the part, inside of the array."""
        whole = next(_memories(pointer))
        if whole.value == value:
            return pointer
        return _pointer(pointer, _Memory(value, pointer, whole=whole))

    def far(self, register: str, pointer: str) -> str:
        """Return the pointer with the array of the other one."""
        return _pointer(register, next(_memories(pointer)))

    def access(self, pointer: str, size: Extent, align: int = 1) -> None:
        """End the function instead of an access that is none of the array, or not aligned."""
        code = self._code
        code.line(f"{BEGUN} {pointer}")
        address = code.put(f"ptrtoint ptr {pointer} to i64")
        for memory in _memories(pointer):
            self._inside(address, size, memory, memory.begin, self._bytes(memory))
            if memory.room is not None:
                self._inside(address, size, memory, *self._room(memory.room))
        if align > 1:
            rest = code.put(f"and i64 {address}, {align - 1}")
            uneven = code.put(f"icmp ne i64 {rest}, 0")
            what = f"take what is no multiple of {align} bytes for one in"
            code.fail_if(uneven, self._failure(what, next(_memories(pointer))))
        code.line(f"{ENDED} {pointer}")

    def _inside(
        self, address: str, size: Extent, memory: _Memory, begin: str, room: Extent
    ) -> None:
        """Fail where not all bytes of an access are among the `room` bytes from `begin` on."""
        code = self._code
        far = code.put(f"sub i64 {address}, {code.put(f'ptrtoint ptr {begin} to i64')}")
        beyond = code.put(f"icmp ugt i64 {far}, {room}")
        left = code.put(f"sub i64 {room}, {far}")
        short = code.put(f"icmp ult i64 {left}, {size}")
        outside = code.put(f"or i1 {beyond}, {short}")
        code.fail_if(outside, self._failure("reach outside of", memory))

    def _bytes(self, memory: _Memory) -> Extent:
        shape = self._extents(memory.value) if memory.shape is None else memory.shape
        byte_count: Extent = BYTES[memory.value.dtype]
        for extent in shape:
            byte_count = self._code.put(f"mul i64 {byte_count}, {self._number(extent)}")
        return byte_count

    def _number(self, extent: Extent) -> Extent:
        """Return an extent as a number or register, also for extents as in `LoopText.shapes`."""
        if isinstance(extent, str) or extent >= 0:
            return extent
        if extent == ITERATIONS:
            return "%trip"
        at = self._code.put(f"getelementptr i64, ptr %extents, i64 {extent_at(extent)}")
        return self._code.put(f"load i64, ptr {at}")

    def _room(self, number: int) -> tuple[str, str]:
        """Return the present start and size of a room. Arrays in a room are invalid after it has grown."""
        code = self._code
        rooms = code.put("getelementptr ptr, ptr %call, i64 2")
        rooms = code.put(f"load ptr, ptr {rooms}")
        room = code.put(f"getelementptr {{ptr, i64}}, ptr {rooms}, i64 {number}")
        size = code.put(f"getelementptr i64, ptr {room}, i64 1")
        return code.put(f"load ptr, ptr {room}"), code.put(f"load i64, ptr {size}")

    def _failure(self, what: str, memory: _Memory) -> Failure:
        return Failure(
            f"the native loop '{self._loop.name}' was about to {what} the memory of "
            f"'{memory.value.name}': {FAULT}",
            self._loop.where,
            "native='off' computes it without machine code",
        )
