"""Values that depend on inputs only through comparisons, whole numbers and iteration counts.

    while x < bound: x = x + drift; n = n + 1        n changes with drift, but only as the count does
    y = x > 0                                        y changes with x, but only as the comparison does

Derivatives hold both fixed, so they are 0.0 there.
"""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.ir import Constant, Guard, If, Loop, Op, Operation, Program, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import row_of
from mdf_loop.ops.derivatives.rule import NOTHING
from mdf_loop.ops.gradients import STOP

_OF_SHAPES = frozenset({STOP, "Shape", "Size"})
"""Operations whose results do not change with the numbers of their operands, or shall not."""


def piecewise_constant_outputs(program: Program, inputs: Iterable[str]) -> frozenset[str]:
    """Return the outputs that change with these inputs, but only in steps.

    Args:
        program: the program.
        inputs: names of inputs of the program.
    """
    reach = _Reach.of(program, inputs)
    return frozenset(
        each.name
        for each in program.outputs
        if (each.value in reach.in_steps and each.value not in reach.smooth)
        or (each.value in reach.smooth and kind_of(each.value.dtype) != "f")
    )


def dependent_outputs(program: Program, inputs: Iterable[str]) -> frozenset[str]:
    """Return the outputs that change with these inputs.

    Args:
        program: the program.
        inputs: names of inputs of the program.
    """
    reach = _Reach.of(program, inputs)
    values = reach.smooth | reach.in_steps
    return frozenset(each.name for each in program.outputs if each.value in values)


class _Reach:
    """Values that inputs reach.

    Attributes:
        smooth: values that are reached by operations with derivatives alone.
        in_steps: values that are reached through a comparison, a whole number or an iteration count.
    """

    def __init__(self, inputs: Iterable[Value]) -> None:
        self.smooth = set(inputs)
        self.in_steps: set[Value] = set()

    @classmethod
    def of(cls, program: Program, inputs: Iterable[str]) -> _Reach:
        """Return what inputs of these names reach in a program."""
        names = frozenset(inputs)
        reach = cls(each.value for each in program.inputs if each.value.name in names)
        reach.follow(program.ops)
        return reach

    def follow(self, ops: Iterable[Operation]) -> None:
        """Add the values that operations compute from values that are reached."""
        for operation in ops:
            match operation:
                case Op():
                    self._follow_op(operation)
                case Guard():
                    self._pass([operation.value], operation.output)
                case If():
                    self._follow_choice(operation)
                case Loop():
                    self._follow_loop(operation)
                case Constant():
                    pass

    def _pass(self, sources: Iterable[Value | None], target: Value) -> None:
        for source in sources:
            if source in self.smooth:
                self.smooth.add(target)
            if source in self.in_steps:
                self.in_steps.add(target)

    def _reaches(self, *values: Value | None) -> bool:
        return any(value in self.smooth or value in self.in_steps for value in values)

    def _follow_op(self, op: Op) -> None:
        if op.op_type in _OF_SHAPES:
            return
        has_no_slope = row_of(op.op_type).derivative is NOTHING
        for output in op.outputs:
            if not has_no_slope and kind_of(output.dtype) == "f":
                self._pass(op.inputs, output)
            elif self._reaches(*op.inputs):
                self.in_steps.add(output)

    def _follow_choice(self, choice: If) -> None:
        for branch in (choice.then, choice.otherwise):
            self.follow(branch.ops)
            for leaf, output in zip(branch.leaves, choice.outputs, strict=True):
                self._pass([leaf], output)
        if self._reaches(choice.condition):
            self.in_steps.update(choice.outputs)

    def _follow_loop(self, loop: Loop) -> None:
        size = -1
        while size < len(self.smooth) + len(self.in_steps):
            size = len(self.smooth) + len(self.in_steps)
            for each in loop.carried:
                self._pass([each.initial, each.leave], each.enter)
            for scanned in loop.scanned:
                self._pass([scanned.rows], scanned.row)
            self.follow(loop.ops)
        for each in loop.carried:
            self._pass([each.initial, each.leave], each.final)
        for recorded in loop.recorded:
            self._pass([recorded.row], recorded.stack)
        if self._reaches(loop.trip_count, loop.condition, loop.condition_out):
            self.in_steps.update(each.final for each in loop.carried)
            self.in_steps.update(each.stack for each in loop.recorded)
            counts = (loop.count, loop.last_condition)
            self.in_steps.update(value for value in counts if value is not None)
