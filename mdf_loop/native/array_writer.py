"""Emission of LLVM code that reads and writes arrays in memory.

Only this module writes memory accesses to arrays, so that every access can be bounds-checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mdf_loop.ir import Value
from mdf_loop.native.bounds import bounds_of
from mdf_loop.native.support import KernelSignature
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    MEMORY_TYPES,
    Code,
    Extent,
    Extents,
    Failure,
    FunctionText,
)


class ArrayWriter(ABC):
    """Base class of emitters of LLVM code that loads, stores and copies arrays.

    Attributes:
        scalar_code: Writer of scalar instructions.
        bounds: Writer of bounds checks, which records the array of each pointer.
    """

    def __init__(self, signature: KernelSignature, failures: list[Failure]) -> None:
        self.signature = signature
        self.function_text = FunctionText(failures=failures)
        self.scalar_code = Code(self.function_text, 1, signature.computes_arrays)
        self.bounds = bounds_of(self.scalar_code, signature.loop, self.extents)

    @abstractmethod
    def extents(self, value: Value) -> Extents:
        """Return the extents of an array."""

    def offset_pointer(self, pointer: str, number: Extent, llvm_type: str = "i8") -> str:
        """Emit LLVM code that adds an offset of `number` elements to a pointer.

        `number` counts elements of the LLVM type `llvm_type`.

        All derived pointers are computed here, so that the bounds checks know the array of each pointer.
        """
        register = self.scalar_code.emit(f"getelementptr {llvm_type}, ptr {pointer}, i64 {number}")
        return self.bounds.register_address(register, pointer)

    def element_address(self, dtype: str, pointer: str, index: str) -> str:
        """Emit LLVM code that computes the address of an array element."""
        return self.offset_pointer(pointer, index, MEMORY_TYPES[dtype])

    def load(self, code: Code, dtype: str, pointer: str, index: str = "0") -> str:
        """Emit an LLVM load of consecutive array elements, one for each vector lane of `code`."""
        element_pointer = self.element_address(dtype, pointer, index)
        self.bounds.check_access(
            element_pointer, ITEM_BYTES[dtype] * code.lane_count, ITEM_BYTES[dtype]
        )
        register = code.emit(
            f"load {code.memory_type(dtype)}, ptr {element_pointer}, align {ITEM_BYTES[dtype]}"
        )
        if dtype != "bool":
            return register
        return code.emit(f"trunc {code.memory_type(dtype)} {register} to {code.type(dtype)}")

    def store(self, code: Code, dtype: str, register: str, pointer: str, index: str = "0") -> None:
        """Emit an LLVM store to consecutive array elements, one for each vector lane of `code`."""
        memory_type = code.memory_type(dtype)
        if dtype == "bool":
            register = code.emit(f"zext {code.type(dtype)} {register} to {memory_type}")
        element_pointer = self.element_address(dtype, pointer, index)
        self.bounds.check_access(
            element_pointer, ITEM_BYTES[dtype] * code.lane_count, ITEM_BYTES[dtype]
        )
        code.line(
            f"store {memory_type} {register}, ptr {element_pointer}, align {ITEM_BYTES[dtype]}"
        )

    def stream(self, code: Code, dtype: str, register: str, pointer: str, align: int) -> None:
        """Emit a nontemporal LLVM store of a vector, which bypasses the cache.

        The address is a multiple of `align` bytes.

        The dtype must not be bool.
        """
        self.function_text.declarations["!nontemporal"] = "!0 = !{i32 1}"
        self.bounds.check_access(pointer, ITEM_BYTES[dtype] * code.lane_count, align)
        vector_type = code.type(dtype)
        code.line(f"store {vector_type} {register}, ptr {pointer}, align {align}, !nontemporal !0")

    def copy(self, target: str, source: str, size: Extent) -> None:
        """Emit a copy of `size` bytes between memory areas, which may overlap."""
        function_name = "llvm.memmove.p0.p0.i64"
        self.function_text.declarations[function_name] = (
            f"declare void @{function_name}(ptr, ptr, i64, i1)"
        )
        if target != source and size:
            self.bounds.check_access(source, size)
            self.bounds.check_access(target, size)
            self.scalar_code.line(
                f"call void @{function_name}(ptr {target}, ptr {source}, i64 {size}, i1 false)"
            )
