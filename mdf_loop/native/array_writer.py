"""LLVM code that reads and writes arrays in memory.

Only this module writes memory accesses to arrays, so that every access can be bounds-checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mdf_loop.ir import Value
from mdf_loop.native.bounds import bounds_of
from mdf_loop.native.support import KernelSignature
from mdf_loop.ops.native.code import ITEM_BYTES, MEMORY_TYPES, Code, Extent, Extents, Failure, Text


class ArrayWriter(ABC):
    """Base class that writes loads, stores and copies of arrays.

    Attributes:
        scalar: Writer of scalar instructions.
        bounds: Writer of bounds checks, which records the array of each pointer.
    """

    def __init__(self, signature: KernelSignature, failures: list[Failure]) -> None:
        self.signature = signature
        self.text = Text(failures=failures)
        self.scalar = Code(self.text, 1, signature.vectorized)
        self.bounds = bounds_of(self.scalar, signature.loop, self.extents)

    @abstractmethod
    def extents(self, value: Value) -> Extents:
        """Return the extents of an array."""

    def offset_pointer(self, pointer: str, number: Extent, kind: str = "i8") -> str:
        """Write the address computation `pointer + number`, in elements of the LLVM type `kind`.

        All derived pointers are computed here, so that the bounds checks know the array of each pointer.
        """
        register = self.scalar.emit(f"getelementptr {kind}, ptr {pointer}, i64 {number}")
        return self.bounds.derive_pointer(register, pointer)

    def element_address(self, dtype: str, pointer: str, place: str) -> str:
        """Write the address computation for the array element at index `place`."""
        return self.offset_pointer(pointer, place, MEMORY_TYPES[dtype])

    def load(self, code: Code, dtype: str, pointer: str, place: str = "0") -> str:
        """Write a load of consecutive array elements, one for each lane of `code`."""
        at = self.element_address(dtype, pointer, place)
        self.bounds.access(at, ITEM_BYTES[dtype] * code.width, ITEM_BYTES[dtype])
        register = code.emit(f"load {code.memory_type(dtype)}, ptr {at}, align {ITEM_BYTES[dtype]}")
        if dtype != "bool":
            return register
        return code.emit(f"trunc {code.memory_type(dtype)} {register} to {code.type(dtype)}")

    def store(self, code: Code, dtype: str, register: str, pointer: str, place: str = "0") -> None:
        """Write a store of one element for each lane of `code` to consecutive array elements."""
        kind = code.memory_type(dtype)
        if dtype == "bool":
            register = code.emit(f"zext {code.type(dtype)} {register} to {kind}")
        at = self.element_address(dtype, pointer, place)
        self.bounds.access(at, ITEM_BYTES[dtype] * code.width, ITEM_BYTES[dtype])
        code.line(f"store {kind} {register}, ptr {at}, align {ITEM_BYTES[dtype]}")

    def stream(self, code: Code, dtype: str, register: str, pointer: str, align: int) -> None:
        """Write a nontemporal store, which bypasses the cache. The address is a multiple of `align` bytes.

        The dtype must not be bool.
        """
        self.text.declared["!nontemporal"] = "!0 = !{i32 1}"
        self.bounds.access(pointer, ITEM_BYTES[dtype] * code.width, align)
        kind = code.type(dtype)
        code.line(f"store {kind} {register}, ptr {pointer}, align {align}, !nontemporal !0")

    def copy(self, target: str, source: str, size: Extent) -> None:
        """Write a copy of `size` bytes. The source and the target may overlap."""
        name = "llvm.memmove.p0.p0.i64"
        self.text.declared[name] = f"declare void @{name}(ptr, ptr, i64, i1)"
        if target != source and size:
            self.bounds.access(source, size)
            self.bounds.access(target, size)
            self.scalar.line(f"call void @{name}(ptr {target}, ptr {source}, i64 {size}, i1 false)")
