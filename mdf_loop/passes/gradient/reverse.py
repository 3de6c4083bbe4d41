"""Reverse mode within one scope, which propagates cotangents from results to operands.

    forward    append the operations; each loop also records its carried values in each iteration
    backward   from last to first, each operation adds the cotangents of its operands; a loop becomes a loop
               backward over these recordings, and a choice becomes a choice with the same condition

Source: reverse accumulation (Linnainmaa 1970), checkpoint by recomputing the body (Griewank 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import (
    Branch,
    Carried,
    Constant,
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Recorded,
    Value,
    captures,
    results,
)
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops.derivatives.rule import is_float
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.copying import copy_operations, without_guards

Tape: TypeAlias = Mapping[Value, Value]
"""Mapping from a value that enters an iteration to its recording, with a row for each iteration."""

LoopBackward: TypeAlias = "Callable[[Reverse, Sweep, Loop], None]"
"""Function that adds the cotangents of the values that a loop reads, from those of the loop's results."""


class Reverse(Struct):
    """State of the reverse-mode differentiation of a program.

    Attributes:
        active_values: Values that depend on the inputs to differentiate by, and copies of these values.
        discardable_values: Values that a selection (`Where`) may discard.
        loop_rule: Rule that differentiates loops.
        last_iterations: Number of last iterations of outermost loops to differentiate through; None: all of
            them.
        tapes: Recordings of each differentiated loop.
    """

    active_values: set[Value]
    discardable_values: set[Value]
    loop_rule: LoopBackward
    last_iterations: int | None = None
    tapes: dict[Loop, Tape] = field(default_factory=dict)

    def copy_operations(
        self, b: Builder, ops: Iterable[Operation], substitutions: Mapping[Value, Value]
    ) -> tuple[list[Operation], dict[Value, Value]]:
        """Return copies of operations, without their run-time assertions (guards).

        Return the copies, and a mapping from each original value to its copy.

        The copies of active and selected values are active and selected, too.
        """
        unguarded_ops, operands_by_guard = without_guards(ops)
        op_copies, copies_by_value = copy_operations(b, unguarded_ops, substitutions)
        copies_by_value |= {
            guard_output: copies_by_value.get(guard_operand, guard_operand)
            for guard_output, guard_operand in operands_by_guard.items()
        }
        self.active_values.update(
            copy for value, copy in copies_by_value.items() if value in self.active_values
        )
        self.discardable_values.update(
            copy for value, copy in copies_by_value.items() if value in self.discardable_values
        )
        return op_copies, copies_by_value

    def is_active_float(self, value: Value) -> bool:
        """Return True if a value is a float that depends on the inputs to differentiate by."""
        return is_float(value) and value in self.active_values

    # --- forward --------------------------------------------------------------------------------

    def append_forward(self, b: Builder, ops: Iterable[Operation]) -> list[Operation]:
        """Append operations, and record each loop's carried values for the backward loop.

        Return the appended operations except constants.
        """
        appended_ops: list[Operation] = []
        for operation in ops:
            if isinstance(operation, Constant):
                b.adopt(operation)
                continue
            if isinstance(operation, Loop) and not self.active_values.isdisjoint(
                results(operation)
            ):
                operation = self._record_carried_values(b, operation)
            b.ops.append(operation)
            appended_ops.append(operation)
        return appended_ops

    def _record_carried_values(self, b: Builder, loop: Loop) -> Loop:
        tape_recordings, tape_extent = [], b.name("tape")
        for carried in loop.carried:
            _refuse_changing_shape(loop, carried)
            tape_stack = b.new(
                carried.body_input.dtype,
                (tape_extent, *(carried.body_input.shape or ())),
                f"{carried.body_input.name} tape",
            )
            tape_recordings.append(Recorded(carried.body_input, tape_stack))
        iteration_count = loop.iteration_count or b.new("int64", (), f"{loop.name} iterations")
        recording_loop = replace(
            loop, recorded=(*loop.recorded, *tape_recordings), iteration_count=iteration_count
        )
        self.tapes[recording_loop] = {
            recording.row: recording.stack for recording in tape_recordings
        }
        return recording_loop

    # --- backward -------------------------------------------------------------------------------

    def propagate_backward(self, sweep: Sweep, ops: Iterable[Operation]) -> None:
        """Append operations that propagate cotangents backward from results to operands."""
        for operation in reversed(list(ops)):
            if not isinstance(operation, Constant) and sweep.has_result_cotangent(operation):
                with sweep.b.at(operation.where, "change"):
                    self._propagate_operation(sweep, operation)

    def start_sweep(self, b: Builder, initial_cotangents: Mapping[Value, Value]) -> Sweep:
        """Create an accumulator of the cotangents in one scope, from initial cotangents."""
        sweep = Sweep(b, self.active_values, self.discardable_values)
        for value, cotangent in initial_cotangents.items():
            sweep.add(value, cotangent)
        return sweep

    def _propagate_operation(self, sweep: Sweep, operation: Operation) -> None:
        if isinstance(operation, Op):
            sweep.propagate(operation)
        elif isinstance(operation, Guard):
            sweep.add(operation.value, sweep.cotangents.get(operation.output))
        elif isinstance(operation, If):
            self._propagate_choice(sweep, operation)
        elif isinstance(operation, Loop):
            self.loop_rule(self, sweep, operation)

    def _propagate_choice(self, sweep: Sweep, choice: If) -> None:
        """Append the backward operation of an `If`, which is an `If` that returns cotangents.

        The cotangent of a value that only the other branch reads is zero.
        """
        b = sweep.b
        active_captures = [value for value in captures(choice) if sweep.needs_cotangent(value)]
        if not active_captures:
            return
        output_cotangents = {
            output: sweep.cotangents[output]
            for output in choice.outputs
            if output in sweep.cotangents
        }
        then_branch, else_branch = (
            self._backward_branch(b, branch, choice, output_cotangents, active_captures)
            for branch in (choice.then, choice.otherwise)
        )
        captured_cotangents = tuple(
            b.new(value.dtype, value.shape, f"{value.name} change") for value in active_captures
        )
        choice_name = b.name(f"{choice.name} backward")
        b.append(
            If(
                choice_name,
                choice.condition,
                then_branch,
                else_branch,
                captured_cotangents,
                choice.where,
            )
        )
        for value, cotangent in zip(active_captures, captured_cotangents, strict=True):
            sweep.add(value, cotangent)

    def _backward_branch(
        self,
        b: Builder,
        branch: Branch,
        choice: If,
        output_cotangents: Mapping[Value, Value],
        active_captures: Iterable[Value],
    ) -> Branch:
        branch_builder = b.body()
        branch_ops, copies_by_value = self.copy_operations(b, branch.ops, {})
        branch_ops = self.append_forward(branch_builder, branch_ops)
        branch_sweep = self.start_sweep(branch_builder, {})
        for branch_output, output in zip(branch.outputs, choice.outputs, strict=True):
            branch_sweep.add(
                copies_by_value.get(branch_output, branch_output), output_cotangents.get(output)
            )
        self.propagate_backward(branch_sweep, branch_ops)
        branch_outputs = tuple(
            _captured_cotangent(branch_builder, branch_sweep, value) for value in active_captures
        )
        return Branch(tuple(branch_builder.ops), branch_outputs)


def _captured_cotangent(branch_builder: Builder, sweep: Sweep, value: Value) -> Value:
    """Return the cotangent of a captured value, as an output of the backward branch."""
    return branch_builder.op(
        "Identity", sweep.cotangents.get(value) or zeros(branch_builder, value)
    )


def require_known_rank(loop: Loop, enter: Value, name: str) -> None:
    """Raise an error for a carried value that is a sequence or an optional value.

    Raises:
        UnsupportedError: The value is not an array.
    """
    if not is_tensor(enter.dtype):
        raise UnsupportedError(
            f"'{name or enter.name}' of the loop '{loop.name}' is {enter.dtype}: "
            "loops that carry it have no derivative",
            loop.where,
            "carry an array",
        )


def _refuse_changing_shape(loop: Loop, carried: Carried) -> None:
    """Raise an error if a carried value is no array, or may change its shape.

    Raises:
        UnsupportedError: The value is not an array, or may change its shape.
    """
    require_known_rank(loop, carried.body_input, carried.name)
    if carried.body_input.shape is None or (loop.has_dynamic_shapes and not carried.keeps_shape):
        raise UnsupportedError(
            f"'{carried.name or carried.body_input.name}' of the loop '{loop.name}' may change its shape: "
            "loops that carry it have no derivative",
            loop.where,
            "carry an array of one shape, and compile with shapes='strict'",
        )
