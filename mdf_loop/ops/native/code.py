"""Writer of LLVM code in which each instruction computes several numbers, one per SIMD lane.

    code = Code(lane_count=8)
    y = code.emit(f"fadd {code.type('float64')} {a}, {b}")      # %v1 = fadd <8 x double> %a, %b

A register holds one number for each lane. LLVM does not reassociate operations or fuse products with sums, so
each lane has the same bits at every width.

Source: LLVM Language Reference.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from msgspec import Struct, field

from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import Array, Op, Value

Extent: TypeAlias = int | str
"""Extent of an axis: a number, or the register of a number that is known only at run time.

Equal registers are equal extents. Different registers may be equal or different extents.
"""

Extents: TypeAlias = tuple[Extent, ...]
"""Extents of all axes of an array."""

REGISTER_TYPES = {
    **{"float64": "double", "float32": "float", "bool": "i1"},
    **{"int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8"},
    **{"uint64": "i64", "uint32": "i32", "uint16": "i16", "uint8": "i8"},
}
"""LLVM type of a number in a register, by dtype."""

MEMORY_TYPES = {**REGISTER_TYPES, "bool": "i8"}
"""LLVM type of a number in memory, by dtype."""

ITEM_BYTES = {dtype: np.dtype(dtype).itemsize for dtype in REGISTER_TYPES}
"""Number of bytes of a number in memory, by dtype."""


class NotNative(Exception):  # noqa: N818 - no error: the loop is standard
    """Exception raised for a loop that cannot be compiled to machine code.

    The text completes "the loop is standard, since ...".

    Attributes:
        op: The operation without machine code, if any.
    """

    op: Op | None = None


class Cell(Struct, frozen=True):
    """Storage of a value in machine code: registers, or a pointer to an array in memory.

    Attributes:
        registers: One register for a scalar. For a loop with lanes, one register for each vector of a block.
            For a small array of integers, one register for each element.
        is_scalar: True for a scalar.
        pointer: Register of the pointer to an array in memory, or empty.
    """

    registers: tuple[str, ...] = ()
    is_scalar: bool = False
    pointer: str = ""


NUMBER_PLACEHOLDER = "\N{WHITE SQUARE}"
"""Placeholder in an error message for a number that is known only at run time."""

NUMBER_COUNT_POSITION, NUMBERS_POSITION = 3, 4
"""Positions in `Call` of trampoline.c, in words of 8 bytes, of the count and the list of numbers of a failure."""


class Failure(Struct, frozen=True):
    """Error that ends a run of machine code, with its message, location and hint.

    Attributes:
        message: Error message, with placeholders for numbers.
        where: Location in the model.
        hint: Remedy.
        error_class: Class of the error.
    """

    message: str
    where: str
    hint: str = ""
    error_class: type[LoopError] = RunError

    def error(self, numbers: Iterable[int] = ()) -> LoopError:
        """Return the exception to raise, with numbers in place of placeholders in its message."""
        filled_message = self.message
        for number in numbers:
            filled_message = filled_message.replace(NUMBER_PLACEHOLDER, str(number), 1)
        return self.error_class(filled_message, self.where, self.hint)


class ArrayCode(Protocol):
    """Protocol of a writer of LLVM code that processes arrays in memory.

    Attributes:
        function_text: Text of the function.
        scalar_code: Writer of scalar instructions.
        vector_code: Writer of vector instructions.
    """

    function_text: FunctionText
    scalar_code: Code
    vector_code: Code

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of an array as integers, or raise NotNative for run-time extents."""

    def extents(self, value: Value) -> Extents:
        """Return the extents of an array, each as an integer or a register."""

    def is_extent(self, number: Extent) -> bool:
        """Return True if a number is a nonnegative constant, or the register of an array extent."""

    def set_extents(self, value: Value, extents: Extents) -> None:
        """Set the extents of a computed array, each as an integer or a register."""

    def small_integers(self, value: Value, cells: Mapping[Value, Cell]) -> Extents | None:
        """Return the elements of a small array of integers, or None for any other array."""

    def integer_cell(self, value: Value, numbers: Sequence[Extent]) -> Cell:
        """Return a `Cell` with one register or number for each element of a small integer array."""

    def constant_of(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None for a value that is computed at run time."""

    def cell(self, value: Value, cells: Mapping[Value, Cell]) -> Cell:
        """Return the registers or the pointer of a value or constant."""

    def as_cell(self, value: Value, pointer: str) -> Cell:
        """Return a `Cell` with the pointer to an array, or with a scalar loaded from memory."""

    def allocate_buffer(self, value: Value) -> str:
        """Allocate memory for an array, and return the register of the address."""

    def constant_table(self, numbers: Sequence[int]) -> str:
        """Return the address of a table of constant integers."""

    def pointer_of(self, value: Value, cell: Cell) -> str:
        """Return the address of an array, which is first stored to memory if it is in registers."""

    def offset_pointer(self, pointer: str, number: Extent) -> str:
        """Write LLVM code that adds an offset in bytes to a pointer."""

    def element_address(self, dtype: str, pointer: str, index: str) -> str:
        """Write LLVM code that computes the address of an array element."""

    def multiply(self, number: str, factor: Extent) -> str:
        """Write LLVM code of the product of two integers, such as a count and a size."""

    def load(self, code: Code, dtype: str, pointer: str, index: str = "0") -> str:
        """Write LLVM code that loads consecutive array elements, one for each vector lane."""

    def store(self, code: Code, dtype: str, register: str, pointer: str, index: str = "0") -> None:
        """Write LLVM code that stores the lanes of a register as consecutive array elements."""

    def copy(self, target: str, source: str, size: Extent) -> None:
        """Write LLVM code that copies bytes between memory areas, which may overlap."""

    def for_each_element(self, count: Extent, write: Callable[[Code, str], None]) -> None:
        """Write an LLVM loop over array elements, first in vectors and then one by one.

        Args:
            count: Number of elements.
            write: Writes the code for the elements from an index on, one for each lane of a writer.
        """

    def repeat(self, begin: str, end: str, step: int, write: Callable[[str], None]) -> None:
        """Write an LLVM loop from `begin` to `end` (exclusive) in steps of `step`."""


class FunctionText(Struct):
    """Text of an LLVM function, as lists of instructions, declarations and possible errors.

    The function returns -(k + 1) for failure k.

    Attributes:
        instruction_lines: Instructions.
        allocation_lines: Allocations of local memory.
        declarations: Declarations and definitions that the function uses, by name.
        failures: Possible failures.
        generated_name_count: Number of generated names.
    """

    instruction_lines: list[str] = field(default_factory=list)
    allocation_lines: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    generated_name_count: int = 0

    def new_name(self, stem: str) -> str:
        """Return an unused LLVM name that begins with `stem`."""
        self.generated_name_count += 1
        return f"{stem}{self.generated_name_count}"


class Code(Struct, frozen=True):
    """Writer of LLVM instructions, each of which computes one number in each of its lanes.

    Attributes:
        function_text: Text of the function.
        lane_count: Number of lanes.
        has_vector_functions: True if transcendental functions are computed by own vectorized code, with the same bits at
            every width. False if they are computed by the system's library, as in ONNX Runtime.
        has_quick_divider: True if division instructions are faster than products with corrections. The
            quotients have the same bits in both cases.
    """

    function_text: FunctionText = field(default_factory=FunctionText)
    lane_count: int = 1
    has_vector_functions: bool = False
    has_quick_divider: bool = False

    def type(self, dtype: str) -> str:
        """Return the LLVM type of a register that holds one number for each lane."""
        return self._vector_type(REGISTER_TYPES[dtype])

    def memory_type(self, dtype: str) -> str:
        """Return the LLVM type in memory of a vector with one number for each lane."""
        return self._vector_type(MEMORY_TYPES[dtype])

    def _vector_type(self, scalar: str) -> str:
        return scalar if self.lane_count == 1 else f"<{self.lane_count} x {scalar}>"

    def emit(self, instruction: str) -> str:
        """Append an LLVM instruction, and return the register of its output."""
        register = self.function_text.new_name("%v")
        self.function_text.instruction_lines.append(f"  {register} = {instruction}")
        return register

    def line(self, instruction: str) -> None:
        """Append an LLVM instruction that has no output."""
        self.function_text.instruction_lines.append(f"  {instruction}")

    def allocate_local(self, llvm_type: str) -> str:
        """Allocate local memory (LLVM `alloca`), and return its address."""
        local_pointer = self.function_text.new_name("%place")
        self.function_text.allocation_lines.append(
            f"  {local_pointer} = alloca {llvm_type}, align 64"
        )
        return local_pointer

    def label(self, name: str) -> None:
        """Append a label, which begins a new basic block of the LLVM function."""
        self.function_text.instruction_lines.append(f"{name}:")

    def branch(
        self, truth: str, then: Callable[[], None], otherwise: Callable[[], None] = lambda: None
    ) -> None:
        """Write an LLVM branch between two blocks of code, selected by a condition."""
        block_labels = [
            self.function_text.new_name(stem) for stem in ("then", "otherwise", "chosen")
        ]
        self.line(f"br i1 {truth}, label %{block_labels[0]}, label %{block_labels[1]}")
        for label, write_branch in zip(block_labels, (then, otherwise), strict=False):
            self.label(label)
            write_branch()
            self.line(f"br label %{block_labels[2]}")
        self.label(block_labels[2])

    def any(self, truth: str) -> str:
        """Write LLVM code that tests whether a condition is true in at least one lane."""
        if self.lane_count == 1:
            return truth
        vector_type, function_name = (
            self.type("bool"),
            f"llvm.vector.reduce.or.v{self.lane_count}i1",
        )
        self.function_text.declarations[function_name] = (
            f"declare i1 @{function_name}({vector_type})"
        )
        return self.emit(f"call i1 @{function_name}({vector_type} {truth})")

    def fail_if(self, truth: str, failure: Failure, numbers: Sequence[Extent] = ()) -> None:
        """Write LLVM code that ends the run with an error if a condition is true in any lane.

        Args:
            truth: Register of the condition.
            failure: The failure.
            numbers: Numbers in the error message.
        """
        if failure not in self.function_text.failures:
            self.function_text.failures.append(failure)
        failure_label, success_label = (
            self.function_text.new_name("wrong"),
            self.function_text.new_name("right"),
        )
        self.line(f"br i1 {self.any(truth)}, label %{failure_label}, label %{success_label}")
        self.label(failure_label)
        positioned_numbers = (
            [*enumerate(numbers, NUMBERS_POSITION), (NUMBER_COUNT_POSITION, len(numbers))]
            if numbers
            else []
        )
        for position, number in positioned_numbers:
            number_pointer = self.emit(f"getelementptr i64, ptr %call, i64 {position}")
            self.line(f"store i64 {number}, ptr {number_pointer}")
        self.line(f"ret i64 -{1 + self.function_text.failures.index(failure)}")
        self.label(success_label)

    # --- constants ----------------------------------------------------------------------------

    def constant(self, value: Any, dtype: str = "float64") -> str:
        """Return the LLVM literal of a constant that has the same value in all lanes."""
        return self.splat(literal(value, dtype), REGISTER_TYPES[dtype])

    def constant_value(self, register: str) -> float | None:
        """Return the value of a float literal that is equal in all lanes, else None."""
        scalar_literal = register.rstrip(">").split()[-1]
        if not scalar_literal.startswith("0x"):
            return None
        float_constant: float = struct.unpack("<d", struct.pack("<Q", int(scalar_literal, 16)))[0]
        return float_constant

    def splat(self, scalar: str, scalar_type: str) -> str:
        """Return the LLVM literal of a vector with the same scalar in all lanes."""
        if self.lane_count == 1:
            return scalar
        return f"<{', '.join([f'{scalar_type} {scalar}'] * self.lane_count)}>"

    def broadcast(self, register: str, dtype: str) -> str:
        """Write LLVM code that copies a scalar to all lanes of a vector.

        A constant scalar becomes a constant vector.
        """
        scalar_type, vector_type = REGISTER_TYPES[dtype], self.type(dtype)
        if self.lane_count == 1 or not register.startswith("%"):
            return self.splat(register, scalar_type)
        one_lane_vector = self.emit(
            f"insertelement {vector_type} poison, {scalar_type} {register}, i32 0"
        )
        return self.emit(
            f"shufflevector {vector_type} {one_lane_vector}, {vector_type} poison, <{self.lane_count} x i32> zeroinitializer"
        )

    # --- instructions -------------------------------------------------------------------------

    def binary(self, word: str, dtype: str, a: str, b: str) -> str:
        """Write the LLVM instruction `word a, b`, such as `fadd a, b`, for numbers of a dtype."""
        return self.emit(f"{word} {self.type(dtype)} {a}, {b}")

    def compare(self, word: str, dtype: str, a: str, b: str) -> str:
        """Write an LLVM comparison in each lane, for a predicate such as `olt` or `slt`."""
        instruction = "fcmp" if is_float(dtype) else "icmp"
        return self.emit(f"{instruction} {word} {self.type(dtype)} {a}, {b}")

    def less(self, dtype: str, a: str, b: str) -> str:
        """Write LLVM code of `a < b`, which is false for nan."""
        predicate_prefix = "o" if is_float(dtype) else "s" if is_signed(dtype) else "u"
        return self.compare(f"{predicate_prefix}lt", dtype, a, b)

    def equal(self, dtype: str, a: str, b: str) -> str:
        """Write LLVM code of `a == b`, which is false for nan."""
        return self.compare("oeq" if is_float(dtype) else "eq", dtype, a, b)

    def select(self, truth: str, dtype: str, a: str, b: str) -> str:
        """Write an LLVM `select`, which returns `a` in lanes with a true condition, else `b`."""
        llvm_type = self.type(dtype)
        return self.emit(f"select {self.type('bool')} {truth}, {llvm_type} {a}, {llvm_type} {b}")

    def cast(self, word: str, source: str, register: str, target: str) -> str:
        """Write an LLVM conversion instruction, such as `sitofp`, `fptosi`, `zext` or `bitcast`."""
        return self.emit(f"{word} {self.type(source)} {register} to {self.type(target)}")

    def intrinsic(self, name: str, dtype: str, *registers: str) -> str:
        """Write a call of an LLVM intrinsic for all lanes, such as `sqrt` or `fma`."""
        type_suffix = {"float64": "f64", "float32": "f32"}.get(dtype, REGISTER_TYPES[dtype])
        intrinsic_name = (
            f"llvm.{name}.{'' if self.lane_count == 1 else f'v{self.lane_count}'}{type_suffix}"
        )
        return self._call(intrinsic_name, self.type(dtype), registers)

    def library(self, name: str, dtype: str, *registers: str) -> str:
        """Write calls of a function of the system's math library, one for each lane."""
        function_name = name if dtype == "float64" else f"{name}f"
        scalar_type = REGISTER_TYPES[dtype]
        if self.lane_count == 1:
            return self._call(function_name, scalar_type, registers)
        result_vector, vector_type = "poison", self.type(dtype)
        for lane in range(self.lane_count):
            lane_operands = [
                self.emit(f"extractelement {vector_type} {register}, i32 {lane}")
                for register in registers
            ]
            lane_result = self._call(function_name, scalar_type, lane_operands)
            result_vector = self.emit(
                f"insertelement {vector_type} {result_vector}, {scalar_type} {lane_result}, i32 {lane}"
            )
        return result_vector

    def _call(self, name: str, llvm_type: str, registers: Sequence[str]) -> str:
        parameter_list = ", ".join([llvm_type] * len(registers))
        self.function_text.declarations[name] = f"declare {llvm_type} @{name}({parameter_list})"
        argument_list = ", ".join(f"{llvm_type} {register}" for register in registers)
        return self.emit(f"call {llvm_type} @{name}({argument_list})")


def is_single(value: Value) -> bool:
    """Return True if a value is known to have exactly one element, such as a scalar."""
    return value.shape is not None and all(extent == 1 for extent in value.shape)


def is_float(dtype: str) -> bool:
    """Return True for the name of a floating-point dtype."""
    return dtype.startswith("float")


def is_signed(dtype: str) -> bool:
    """Return True for the name of a signed dtype."""
    return dtype.startswith("int")


def literal(value: Any, dtype: str) -> str:
    """Return a number as an LLVM literal, without rounding."""
    if is_float(dtype):
        float64_number = float(np.asarray(value, dtype))
        return f"0x{struct.unpack('<Q', struct.pack('<d', float64_number))[0]:016X}"
    if dtype == "bool":
        return "true" if value else "false"
    return str(int(value))
