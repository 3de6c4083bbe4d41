"""LLVM registers with Python operators, so that machine code is written as formulas.

    x = Register(code, register)
    y = fma(x, x, 1.0) / choose(x < 0.0, 2.0, x)

Each operator is one instruction in all lanes and rounds once. `fma(a, b, c)` is a * b + c, rounded once. A
processor without fused multiply-add calls the system's library, which gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from mdf_loop.ops.native.code import Code, FunctionText, is_float


class Register(Struct, frozen=True, eq=False):
    """LLVM register with Python operators, each of which appends LLVM instructions.

    The elements are floats, wrapping integers or booleans.
    """

    code: Code
    register: str
    dtype: str = "float64"

    def to_register(self, value: Register | float) -> Register:
        """Convert a number to a constant register of the same dtype as this register.

        A register is returned unchanged.
        """
        if isinstance(value, Register):
            return value
        return Register(self.code, self.code.constant(value, self.dtype), self.dtype)

    def _binary(self, float_word: str, integer_word: str, a: Register, b: Register) -> Register:
        instruction = float_word if is_float(self.dtype) else integer_word
        return Register(
            self.code, self.code.binary(instruction, self.dtype, a.register, b.register), a.dtype
        )

    def _compare(self, float_word: str, integer_word: str, other: Register | float) -> Register:
        comparison = float_word if is_float(self.dtype) else integer_word
        b = self.to_register(other).register
        return Register(
            self.code, self.code.compare(comparison, self.dtype, self.register, b), "bool"
        )

    def __add__(self, other: Register | float) -> Register:
        return self._binary("fadd", "add", self, self.to_register(other))

    def __radd__(self, other: float) -> Register:
        return self.to_register(other) + self

    def __sub__(self, other: Register | float) -> Register:
        return self._binary("fsub", "sub", self, self.to_register(other))

    def __rsub__(self, other: float) -> Register:
        return self.to_register(other) - self

    def __mul__(self, other: Register | float) -> Register:
        return self._binary("fmul", "mul", self, self.to_register(other))

    def __rmul__(self, other: float) -> Register:
        return self.to_register(other) * self

    def __truediv__(self, other: Register | float) -> Register:
        return self._binary("fdiv", "", self, self.to_register(other))

    def __rtruediv__(self, other: float) -> Register:
        return self.to_register(other) / self

    def __neg__(self) -> Register:
        negated_register = self.code.emit(f"fneg {self.code.type(self.dtype)} {self.register}")
        return Register(self.code, negated_register, self.dtype)

    def __abs__(self) -> Register:
        return Register(
            self.code, self.code.intrinsic("fabs", self.dtype, self.register), self.dtype
        )

    def floor(self) -> Register:
        """Return the number in the register, rounded down to an integer."""
        return Register(
            self.code, self.code.intrinsic("floor", self.dtype, self.register), self.dtype
        )

    def __and__(self, other: Register | int) -> Register:
        return self._binary("", "and", self, self.to_register(other))

    def __or__(self, other: Register | int) -> Register:
        return self._binary("", "or", self, self.to_register(other))

    def __xor__(self, other: Register | int) -> Register:
        return self._binary("", "xor", self, self.to_register(other))

    def __lshift__(self, places: int) -> Register:
        return self._binary("", "shl", self, self.to_register(places))

    def __rshift__(self, places: int) -> Register:
        """Return the bits of the register, shifted right with zeros from the left."""
        return self._binary("", "lshr", self, self.to_register(places))

    def __lt__(self, other: Register | float) -> Register:
        return self._compare("olt", "slt", other)

    def __gt__(self, other: Register | float) -> Register:
        return self._compare("ogt", "sgt", other)

    def equals(self, other: Register | float) -> Register:
        """Return a bool register that is true if two numbers are equal, and false for nan."""
        return self._compare("oeq", "eq", other)

    def is_nan(self) -> Register:
        """Return a bool register that is true if the number in the register is nan."""
        return self._compare("uno", "", self)

    def is_outside(self, low: int, end: int) -> Register:
        """Return a bool register that is true if an integer is less than `low` or at least `end`."""
        range_offset, range_length = self - low, self.to_register(end - low)
        condition = self.code.compare(
            "uge", self.dtype, range_offset.register, range_length.register
        )
        return Register(self.code, condition, "bool")

    def bits(self) -> Register:
        """Return the bits of a float64 register as an int64 register."""
        return Register(
            self.code, self.code.cast("bitcast", "float64", self.register, "int64"), "int64"
        )

    def float(self) -> Register:
        """Return the float64 register that has the same bits as this int64 register."""
        return Register(self.code, self.code.cast("bitcast", "int64", self.register, "float64"))


def fma(a: Register, b: Register | float, c: Register | float) -> Register:
    """Return the fused multiply-add `a * b + c`, rounded once."""
    registers = (operand.register for operand in (a, a.to_register(b), a.to_register(c)))
    return Register(a.code, a.code.intrinsic("fma", a.dtype, *registers), a.dtype)


def select(truth: Register, a: Register, b: Register | float) -> Register:
    """Return `a` in lanes in which a condition is true, else `b`."""
    register = truth.code.select(truth.register, a.dtype, a.register, a.to_register(b).register)
    return Register(a.code, register, a.dtype)


def exceeds(x: Register, size: float) -> Register:
    """Return a bool register that is true if |x| is larger than `size` or x is nan."""
    bound_register = x.to_register(size).register
    return Register(x.code, x.code.compare("ugt", x.dtype, abs(x).register, bound_register), "bool")


def with_sign(size: Register, sign: Register) -> Register:
    """Return the nonnegative number `size` with the sign of another number."""
    register = size.code.intrinsic("copysign", size.dtype, size.register, sign.register)
    return Register(size.code, register, size.dtype)


def polynomial(x: Register, square: Register, coefficients: Sequence[float]) -> Register:
    """Return `c[0] + c[1] x + c[2] x**2 + ...`, where `square` is the precomputed `x * x`.

    Even and odd powers are summed independently, which halves the latency at the same number of instructions.
    """
    even_terms, odd_terms = horner(square, coefficients[::2]), horner(square, coefficients[1::2])
    return fma(odd_terms, x, even_terms)


def horner(x: Register, coefficients: Sequence[float]) -> Register:
    """Return the polynomial `c[0] + x (c[1] + x (c[2] + ...))` by Horner's method."""
    polynomial = x.to_register(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        polynomial = fma(polynomial, x, coefficient)
    return polynomial


def select_rare(
    condition: Register, common: Register, compute_rare: Callable[[], Register]
) -> Register:
    """Write a run-time branch: `compute_rare()` if the condition holds in a lane, else `common`.

    The rare value is computed only if the condition is true in a lane. In each lane, the rare value must depend on
    this lane only, and must equal `common` if the condition is false there. The result of a lane is then
    independent of other lanes.
    """
    (selection,) = select_all_rare(condition, (common,), lambda: (compute_rare(),))
    return selection


def select_all_rare(
    condition: Register, common: Sequence[Register], compute_rare: Callable[[], Sequence[Register]]
) -> list[Register]:
    """Write a run-time branch: `compute_rare()` if the condition holds in a lane, else `common`.

    Each is a list of registers. `select_rare` does the same for a single register.
    """
    lane_code = condition.code
    local_pointers = [
        lane_code.allocate_local(lane_code.type(register.dtype)) for register in common
    ]

    def keep(registers: Sequence[Register]) -> None:
        for pointer, register in zip(local_pointers, registers, strict=True):
            lane_code.line(
                f"store {lane_code.type(register.dtype)} {register.register}, ptr {pointer}"
            )

    keep(common)
    rare_block, after_block = (
        lane_code.function_text.new_name("rare"),
        lane_code.function_text.new_name("after"),
    )
    lane_code.line(
        f"br i1 {lane_code.any(condition.register)}, label %{rare_block}, label %{after_block}"
    )
    lane_code.label(rare_block)
    keep(compute_rare())
    lane_code.line(f"br label %{after_block}")
    lane_code.label(after_block)
    load_instructions = (f"load {lane_code.type(register.dtype)}, ptr" for register in common)
    loaded_registers = [
        lane_code.emit(f"{load} {pointer}")
        for load, pointer in zip(load_instructions, local_pointers, strict=True)
    ]
    return [
        Register(lane_code, register_name, register.dtype)
        for register_name, register in zip(loaded_registers, common, strict=True)
    ]


def call_function(name: str, formula: Callable[..., Register], *numbers: Register) -> Register:
    """Write a call of an LLVM function that computes a formula, defined on the first call."""
    lane_code = numbers[0].code
    function_name = f"{name}_{lane_code.lane_count}"
    if function_name not in lane_code.function_text.declarations:
        lane_code.function_text.declarations.update(
            _define_function(function_name, formula, *numbers)
        )
    argument_list = ", ".join(
        f"{lane_code.type(argument.dtype)} {argument.register}" for argument in numbers
    )
    register = lane_code.emit(f"call {lane_code.type('float64')} @{function_name}({argument_list})")
    return Register(lane_code, register)


def _define_function(
    name: str, formula: Callable[..., Register], *operands: Register
) -> dict[str, str]:
    """Return the LLVM texts of a function and of all functions that it calls, by name.

    Args:
        name: Name of the LLVM function.
        formula: Function that writes the formula.
        *operands: Registers with the dtypes of the parameters.
    """
    function_code = Code(FunctionText(), operands[0].code.lane_count)
    input_registers = [
        Register(function_code, f"%in{k}", operand.dtype) for k, operand in enumerate(operands)
    ]
    output_register = formula(*input_registers)
    output_type = function_code.type(output_register.dtype)
    function_code.line(f"ret {output_type} {output_register.register}")
    parameter_list = ", ".join(
        f"{function_code.type(register.dtype)} {register.register}" for register in input_registers
    )
    function_signature = f"define internal {output_type} @{name}({parameter_list}) noinline nounwind willreturn memory(none) {{"
    definition_lines = [
        function_signature,
        "entry:",
        *function_code.function_text.allocation_lines,
        *function_code.function_text.instruction_lines,
        "}",
    ]
    return {**function_code.function_text.declarations, name: "\n".join(definition_lines)}
