"""Analysis of how values depend on inputs: smoothly, or as piecewise constant functions.

    while x < bound: x = x + drift; n = n + 1        n depends on drift only through the iteration count
    y = x > 0                                        y depends on x only through a comparison

Derivatives treat comparisons, integers and iteration counts as constant. Therefore the derivatives of `n` by
`drift` and of `y` by `x` are 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.ir import Constant, Guard, If, Loop, Op, Operation, Program, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import row_of
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.stop_gradient import STOP_GRADIENT

_VALUE_INDEPENDENT_OPERATIONS = frozenset({STOP_GRADIENT, "Shape", "Size"})
"""Operations whose results depend only on the shapes of their operands, or are treated as constant."""


def piecewise_constant_outputs(program: Program, inputs: Iterable[str]) -> frozenset[str]:
    """Return program outputs that are piecewise constant, but not constant, in named inputs.

    Args:
        program: The program.
        inputs: Names of inputs of the program.
    """
    dependence = _Dependence.of(program, inputs)
    return frozenset(
        program_output.name
        for program_output in program.outputs
        if (
            program_output.value in dependence.piecewise_constant_values
            and program_output.value not in dependence.smooth_values
        )
        or (
            program_output.value in dependence.smooth_values
            and kind_of(program_output.value.dtype) != "f"
        )
    )


def dependent_outputs(program: Program, inputs: Iterable[str]) -> frozenset[str]:
    """Return the program outputs that depend on any of the named inputs.

    Args:
        program: The program.
        inputs: Names of inputs of the program.
    """
    dependence = _Dependence.of(program, inputs)
    dependent_values = dependence.smooth_values | dependence.piecewise_constant_values
    return frozenset(
        program_output.name
        for program_output in program.outputs
        if program_output.value in dependent_values
    )


class _Dependence:
    """Analysis of the values of a program that depend on some of the program's inputs.

    Attributes:
        smooth_values: Values that depend on the inputs through differentiable operations alone.
        piecewise_constant_values: Values that depend on the inputs through a comparison, an integer or an iteration count.
    """

    def __init__(self, inputs: Iterable[Value]) -> None:
        self.smooth_values = set(inputs)
        self.piecewise_constant_values: set[Value] = set()

    @classmethod
    def of(cls, program: Program, inputs: Iterable[str]) -> _Dependence:
        """Create the analysis of the values of a program that depend on the named inputs."""
        input_names = frozenset(inputs)
        dependence = cls(
            program_input.value
            for program_input in program.inputs
            if program_input.value.name in input_names
        )
        dependence.visit_operations(program.ops)
        return dependence

    def visit_operations(self, ops: Iterable[Operation]) -> None:
        """Classify the results of operations as smooth, piecewise constant, or independent."""
        for operation in ops:
            match operation:
                case Op():
                    self._visit_op(operation)
                case Guard():
                    self._propagate([operation.value], operation.output)
                case If():
                    self._visit_choice(operation)
                case Loop():
                    self._visit_loop(operation)
                case Constant():
                    pass

    def _propagate(self, sources: Iterable[Value | None], target: Value) -> None:
        for source in sources:
            if source in self.smooth_values:
                self.smooth_values.add(target)
            if source in self.piecewise_constant_values:
                self.piecewise_constant_values.add(target)

    def _is_any_dependent(self, *values: Value | None) -> bool:
        return any(
            value in self.smooth_values or value in self.piecewise_constant_values
            for value in values
        )

    def _visit_op(self, op: Op) -> None:
        if op.op_type in _VALUE_INDEPENDENT_OPERATIONS:
            return
        has_zero_derivative = row_of(op.op_type).derivative is ZERO_DERIVATIVE
        for output in op.outputs:
            if not has_zero_derivative and kind_of(output.dtype) == "f":
                self._propagate(op.inputs, output)
            elif self._is_any_dependent(*op.inputs):
                self.piecewise_constant_values.add(output)

    def _visit_choice(self, choice: If) -> None:
        for branch in (choice.then, choice.otherwise):
            self.visit_operations(branch.ops)
            for branch_output, output in zip(branch.outputs, choice.outputs, strict=True):
                self._propagate([branch_output], output)
        if self._is_any_dependent(choice.condition):
            self.piecewise_constant_values.update(choice.outputs)

    def _visit_loop(self, loop: Loop) -> None:
        previous_dependent_count = -1
        while previous_dependent_count < len(self.smooth_values) + len(
            self.piecewise_constant_values
        ):
            previous_dependent_count = len(self.smooth_values) + len(self.piecewise_constant_values)
            for carried in loop.carried:
                self._propagate([carried.initial, carried.body_output], carried.body_input)
            for scanned in loop.scanned:
                self._propagate([scanned.rows], scanned.row)
            self.visit_operations(loop.ops)
        for carried in loop.carried:
            self._propagate([carried.initial, carried.body_output], carried.final)
        for recorded in loop.recorded:
            self._propagate([recorded.row], recorded.stack)
        if self._is_any_dependent(loop.trip_count, loop.condition, loop.condition_out):
            self.piecewise_constant_values.update(carried.final for carried in loop.carried)
            self.piecewise_constant_values.update(carried.stack for carried in loop.recorded)
            report_values = (loop.iteration_count, loop.last_condition)
            self.piecewise_constant_values.update(
                value for value in report_values if value is not None
            )
