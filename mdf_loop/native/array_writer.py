"""Code that reads and writes arrays in memory: no other code does, so that all of it can be checked."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mdf_loop.ir import Value
from mdf_loop.native.bounds import bounds_of
from mdf_loop.native.support import KernelSignature
from mdf_loop.ops.native.code import BYTES, STORED, Code, Extent, Extents, Failure, Text


class ArrayWriter(ABC):
    """Writes accesses to arrays.

    Attributes:
        one: for single numbers.
        bounds: what checks accesses, and knows of pointers what they point to.
    """

    def __init__(self, form: KernelSignature, failures: list[Failure]) -> None:
        self.form = form
        self.text = Text(failures=failures)
        self.one = Code(self.text, 1, form.many)
        self.bounds = bounds_of(self.one, form.loop, self.extents)

    @abstractmethod
    def extents(self, value: Value) -> Extents:
        """Return the extents of an array."""

    def far(self, pointer: str, number: Extent, kind: str = "i8") -> str:
        """So many bytes, or numbers of a kind, behind a pointer: only this makes one of another."""
        register = self.one.put(f"getelementptr {kind}, ptr {pointer}, i64 {number}")
        return self.bounds.far(register, pointer)

    def at(self, dtype: str, pointer: str, place: str) -> str:
        """Write the address of an element."""
        return self.far(pointer, place, STORED[dtype])

    def load(self, code: Code, dtype: str, pointer: str, place: str = "0") -> str:
        """Numbers from an array, as many as the code has lanes."""
        at = self.at(dtype, pointer, place)
        self.bounds.access(at, BYTES[dtype] * code.width, BYTES[dtype])
        register = code.put(f"load {code.stored(dtype)}, ptr {at}, align {BYTES[dtype]}")
        if dtype != "bool":
            return register
        return code.put(f"trunc {code.stored(dtype)} {register} to {code.type(dtype)}")

    def store(self, code: Code, dtype: str, register: str, pointer: str, place: str = "0") -> None:
        """Numbers into an array."""
        kind = code.stored(dtype)
        if dtype == "bool":
            register = code.put(f"zext {code.type(dtype)} {register} to {kind}")
        at = self.at(dtype, pointer, place)
        self.bounds.access(at, BYTES[dtype] * code.width, BYTES[dtype])
        code.line(f"store {kind} {register}, ptr {at}, align {BYTES[dtype]}")

    def stream(self, code: Code, dtype: str, register: str, pointer: str, align: int) -> None:
        """Numbers, no truths, into an array past the cache: to a multiple of so many bytes."""
        self.text.declared["!nontemporal"] = "!0 = !{i32 1}"
        self.bounds.access(pointer, BYTES[dtype] * code.width, align)
        kind = code.type(dtype)
        code.line(f"store {kind} {register}, ptr {pointer}, align {align}, !nontemporal !0")

    def copy(self, target: str, source: str, size: Extent) -> None:
        """Bytes of an array into another one, or moved in it."""
        name = "llvm.memmove.p0.p0.i64"
        self.text.declared[name] = f"declare void @{name}(ptr, ptr, i64, i1)"
        if target != source and size:
            self.bounds.access(source, size)
            self.bounds.access(target, size)
            self.one.line(f"call void @{name}(ptr {target}, ptr {source}, i64 {size}, i1 false)")
