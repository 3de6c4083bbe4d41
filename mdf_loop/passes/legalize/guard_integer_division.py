"""Guards against integer division of the smallest integer by -1, which crashes ONNX Runtime.

    q: int64[n] = Div(a, b)   ->   turns = Equal(b, -1); divisor = Where(turns, 1, b)
                                   q = Mul(Div(a, divisor), Where(turns, -1, 1))
    r: int64[n] = Mod(a, b)   ->   r = Mod(a, divisor)

The quotient of -2**63 and -1 wraps to -2**63, as in NumPy, and the remainder is 0. Preserves: results bit
for bit, errors (such as a division by zero). A division is unchanged if an operand excludes the
overflow. The checks of a divisor are added at each division, also inside of a loop:
`hoist_invariants` moves them out, and `eliminate_common_subexpressions` merges them.

Source: the division instruction of the processor traps if the quotient overflows (Intel SDM, IDIV).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Loop, Op, Operation, Program, Value, walk
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.decompositions.build_helpers import constant_like, operand
from mdf_loop.ops.registry import row_of
from mdf_loop.passes.rewrite import rewrite

_TRAPPING_DTYPES = ("int32", "int64")
"""Dtypes whose kernels use the division instruction of the processor. Smaller dtypes are divided as int32."""


def guard_integer_division(program: Program) -> Program:
    """Rewrite integer divisions whose overflow would crash the process."""
    if not any(_may_trap(operation) for operation in walk(program.ops)):
        return program
    division_facts = _DivisionFacts()
    division_facts.learn_facts(walk(program.ops))

    def rule(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        return (
            None
            if not _may_trap(op) or division_facts.excludes_overflow(op)
            else (_build_guarded_division(b, op),)
        )

    return rewrite(program, rule)


def _may_trap(operation: Operation) -> bool:
    """Return True for an integer division that may overflow and crash the process.

    The kernel of `fmod` divides in float64, and is used only where float64 is exact.
    """
    if not isinstance(operation, Op) or operation.op_type not in ("Div", "Mod"):
        return False
    return operation.outputs[0].dtype in _TRAPPING_DTYPES and not operation.attributes.get("fmod")


def _build_guarded_division(b: Builder, op: Op) -> Value:
    """Append an integer division that handles a divisor of -1 separately."""
    dividend, divisor = operand(op, 0), operand(op, 1)
    one, minus_one = constant_like(b, 1, divisor), constant_like(b, -1, divisor)
    if divisor.shape == () and b.constant_of(divisor) is not None:  # the divisor is -1
        return b.op("Neg", dividend) if op.op_type == "Div" else b.op("Mod", dividend, one)
    is_minus_one = b.op("Equal", divisor, minus_one)
    quotient = b.op(op.op_type, dividend, b.op("Where", is_minus_one, one, divisor))
    if op.op_type == "Mod":
        return quotient
    return b.op("Mul", quotient, b.op("Where", is_minus_one, minus_one, one))


class _DivisionFacts(Struct):
    """Values that are never -1, and values that are never the smallest integer of a dtype."""

    non_minus_one_values: set[Value] = field(default_factory=set)
    non_minimum_values: set[Value] = field(default_factory=set)
    _minus_one_constants: set[Value] = field(default_factory=set)
    _minus_one_tests: set[tuple[Value, Value | None]] = field(default_factory=set)

    def excludes_overflow(self, op: Op) -> bool:
        """Return True if an integer division can never divide the smallest integer by -1."""
        return op.inputs[0] in self.non_minimum_values or op.inputs[1] in self.non_minus_one_values

    def learn_facts(self, operations: Iterable[Operation]) -> None:
        """Record which results of operations are never -1 or never the smallest integer.

        `operations` are in program order.
        """
        for operation in operations:
            if isinstance(operation, Constant):
                self._learn_constant(operation)
            elif isinstance(operation, Loop):
                iteration_counter = (
                    operation.iteration if operation.first_iteration is None else None
                )
                self._exclude_both((iteration_counter, operation.iteration_count))
            elif isinstance(operation, Op):
                self._learn_op(operation)

    def _exclude_both(self, values: Iterable[Value | None]) -> None:
        for excluded_values in (self.non_minus_one_values, self.non_minimum_values):
            excluded_values.update(value for value in values if value is not None)

    def _learn_constant(self, constant: Constant) -> None:
        value, array = constant.value, constant.array
        if kind_of(value.dtype) != "i":
            return
        if not np.any(array == -1):
            self.non_minus_one_values.add(value)
        if not np.any(array == np.iinfo(array.dtype).min):
            self.non_minimum_values.add(value)
        if array.ndim == 0 and array == -1:
            self._minus_one_constants.add(value)

    def _learn_op(self, op: Op) -> None:
        operation_row = row_of(op.op_type)
        if operation_row.never_negative(op):
            self._exclude_both(op.outputs)
        elif op.op_type == "Cast":
            self._learn_cast(op)
        elif operation_row.moved_operands is not None:
            self._learn_moved_elements(op, [op.inputs[k] for k in operation_row.moved_operands(op)])
        elif op.op_type == "Equal" and op.inputs[1] in self._minus_one_constants:
            self._minus_one_tests.add((op.outputs[0], op.inputs[0]))

    def _learn_cast(self, op: Op) -> None:
        """Record that a cast to a wider integer dtype never returns the smallest integer.

        The result is never -1 either if the operand never is.
        """
        (cast_operand,), (cast_output,) = op.inputs, op.outputs
        dtype_kind = kind_of(cast_operand.dtype) if cast_operand is not None else ""
        if cast_operand is None or dtype_kind not in "biu" or kind_of(cast_output.dtype) != "i":
            return
        if np.dtype(cast_output.dtype).itemsize <= np.dtype(cast_operand.dtype).itemsize:
            return
        self.non_minimum_values.add(cast_output)
        if dtype_kind != "i" or cast_operand in self.non_minus_one_values:
            self.non_minus_one_values.add(cast_output)

    def _learn_moved_elements(self, op: Op, moved_operands: Iterable[Value | None]) -> None:
        """Record that an operation that moves elements never returns -1 if no operand contains -1.

        The same holds for the smallest integer. The result of `op`, such as a `Where`, holds only elements of
        `moved_operands`, and zeros.
        """
        if self.non_minimum_values.issuperset(moved_operands):
            self.non_minimum_values.update(op.outputs)
        if op.op_type == "Where" and (op.inputs[0], op.inputs[2]) in self._minus_one_tests:
            # The other operand is selected only where it is not -1.
            moved_operands = op.inputs[1:2]
        if self.non_minus_one_values.issuperset(moved_operands):
            self.non_minus_one_values.update(op.outputs)
