"""Forward mode: add the tangents of outputs to a program, from the tangents of its inputs.

    program(%x, %w)               program(%x, %w, %tangent of x)
      %y = Mul(%x, %w)      ->      %y = Mul(%x, %w)
      output y = %y                 %ty = Mul(%tangent of x, %w)
                                    output y = %y
                                    output tangent of y = %ty

`tangent of y` is the first-order change of `y` when `x` changes by `tangent of x`. A loop also carries, scans
and records the tangents of its values. Its iteration count is treated as fixed.

Source: forward accumulation (Wengert 1964).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import (
    Array,
    Branch,
    Carried,
    Constant,
    Guard,
    If,
    Input,
    InputRole,
    Loop,
    Op,
    Operation,
    Output,
    OutputRole,
    Program,
    Recorded,
    Scanned,
    Value,
    operands,
    results,
)
from mdf_loop.ops.derivatives.rule import contains_floats, is_float
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import rule_of
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.batching.varying import propagate_varying
from mdf_loop.passes.gradient.decompose_for_derivatives import decompose_for_derivatives
from mdf_loop.passes.gradient.derivative_errors import report_all_underivable
from mdf_loop.passes.gradient.reverse import require_known_rank

UNIT_EXTENT = "unit"
"""Extent name of the axis of tangents that are computed together."""


def tangent_name(name: str) -> str:
    """Return the name of the tangent of an input or an output."""
    return f"tangent of {name}"


def tangents(program: Program, wrt: Collection[str], of: Collection[str]) -> Program:
    """Return a program that also computes the tangents of outputs (forward mode).

    Args:
        program: The program before any pass, or a program that already computes derivatives.
        wrt: Inputs to differentiate by. Each tangent becomes an input of the new program.
        of: Outputs to differentiate. Each tangent becomes an output of the new program.

    Raises:
        UnsupportedError: An operation between inputs and outputs has no derivative. The message names the
            operation.
    """
    program = decompose_for_derivatives(program, frozenset(wrt))
    b = Builder.for_rewrite_of(program)
    inputs_by_name = {
        program_input.value.name: program_input.value for program_input in program.inputs
    }
    outputs_by_name = {output.name: output.value for output in program.outputs}
    for name, value in (
        *((name, inputs_by_name[name]) for name in wrt),
        *((name, outputs_by_name[name]) for name in of),
    ):
        _refuse_non_float(name, value)
    input_tangents = {
        inputs_by_name[name]: _new_tangent(b, inputs_by_name[name], tangent_name(name))
        for name in wrt
    }
    active_values = set(input_tangents)
    propagate_varying(program.ops, active_values)
    tangent_builder = _TangentBuilder(active_values, dict(input_tangents))
    with report_all_underivable(program, active_values):
        tangent_builder.append_scope(b, program.ops)
    output_tangents = [
        Output(
            tangent_name(name),
            tangent_builder.tangent_or_zeros(b, outputs_by_name[name]),
            OutputRole.DERIVATIVE,
            name,
        )
        for name in of
    ]
    return replace(
        program,
        inputs=(
            *program.inputs,
            *(
                Input(tangent, role=InputRole.DERIVATIVE, owner_name=value.name)
                for value, tangent in input_tangents.items()
            ),
        ),
        ops=tuple(b.ops),
        outputs=(*program.outputs, *output_tangents),
    )


def jacobian_forward(program: Program, wrt: Collection[str], of: Collection[str]) -> Program:
    """Return a program that computes a Jacobian from many tangents at once (forward mode).

    For `unit_tangents`, the tangents of an output are the columns of its Jacobian.
    """
    return batch(tangents(program, wrt, of), [tangent_name(name) for name in wrt], UNIT_EXTENT)


def unit_tangents(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return one tangent per element of the arrays: 1 for the element itself, 0 for all others.

    The leading axis of each array counts the tangents.
    """
    total_element_count = sum(np.size(array) for array in arrays.values())
    identity_rows, tangents_by_name = np.eye(total_element_count), {}
    for name, array in arrays.items():
        flat_tangents, identity_rows = np.split(identity_rows, [np.size(array)], axis=1)
        tangents_by_name[name] = flat_tangents.reshape(
            total_element_count, *np.shape(array)
        ).astype(array.dtype)
    return tangents_by_name


class _TangentBuilder:
    """Builder of operations that compute tangents, one scope (program or body) at a time.

    Values without a tangent have a tangent of zeros.

    `active_values` holds the values that depend on the inputs to differentiate by.
    """

    def __init__(self, active_values: Collection[Value], tangents: dict[Value, Value]) -> None:
        self._active_values = active_values
        self._tangents = tangents

    def tangent_or_zeros(self, b: Builder, value: Value) -> Value:
        """Return the tangent of a value, or zeros if the value has no tangent."""
        return self._tangents.get(value) or zeros(b, value)

    def append_scope(self, b: Builder, ops: Iterable[Operation]) -> None:
        """Append operations, each followed by operations for the tangents of its results."""
        for operation in ops:
            if isinstance(operation, Constant):
                b.adopt(operation)
            elif not any(map(self._may_have_tangent, results(operation))):
                b.ops.append(operation)
            else:
                with b.at(operation.where, "change"):
                    self._append(b, operation)

    def _may_have_tangent(self, value: Value) -> bool:
        """Return True if a value, or an array that it contains, may have a tangent."""
        return (is_float(value) and value in self._active_values) or self._may_contain_tangents(
            value
        )

    def _may_contain_tangents(self, value: Value) -> bool:
        """Return True for a sequence or optional value that may contain differentiable floats."""
        return contains_floats(value) and value in self._active_values

    def _append(self, b: Builder, operation: Operation) -> None:
        if isinstance(operation, Loop):
            self._append_loop(b, operation)
        elif isinstance(operation, If):
            self._append_choice(b, operation)
        else:
            b.ops.append(operation)
            if isinstance(operation, Op):
                self._append_op(b, operation)
            elif isinstance(operation, Guard) and operation.value in self._tangents:
                self._tangents[operation.output] = self._tangents[operation.value]

    def _append_op(self, b: Builder, op: Op) -> None:
        if not any(
            value in self._tangents or self._may_contain_tangents(value) for value in operands(op)
        ):
            return
        input_tangents = [
            None if value is None else self._tangents.get(value) for value in op.inputs
        ]
        output_tangents = rule_of(op).tangents(b, op, input_tangents)
        output_pairs = zip(op.outputs, output_tangents, strict=True)
        self._tangents.update(
            (value, tangent) for value, tangent in output_pairs if tangent is not None
        )

    def _append_loop(self, b: Builder, loop: Loop) -> None:
        body_builder = b.body()
        tangent_scans = [
            self._scan_tangents(b, scanned)
            for scanned in loop.scanned
            if scanned.rows in self._tangents
        ]
        carried_with_tangents = [
            carried for carried in loop.carried if self._may_have_tangent(carried.body_input)
        ]
        for carried in carried_with_tangents:
            require_known_rank(loop, carried.body_input, carried.name)
            self._tangents[carried.body_input] = _new_tangent(b, carried.body_input)
        self.append_scope(body_builder, loop.ops)
        carried_tangents = [
            self._carry_tangent(b, body_builder, carried) for carried in carried_with_tangents
        ]
        tangent_recordings = [
            self._record_tangent(b, recorded)
            for recorded in loop.recorded
            if recorded.row in self._tangents
        ]
        b.append(
            replace(
                loop,
                carried=(*loop.carried, *carried_tangents),
                recorded=(*loop.recorded, *tangent_recordings),
                scanned=(*loop.scanned, *tangent_scans),
                ops=tuple(body_builder.ops),
            )
        )

    def _scan_tangents(self, b: Builder, scanned: Scanned) -> Scanned:
        row_tangent = self._tangents[scanned.row] = _new_tangent(b, scanned.row)
        return replace(scanned, rows=self._tangents[scanned.rows], row=row_tangent)

    def _carry_tangent(self, b: Builder, body: Builder, carried: Carried) -> Carried:
        initial_tangent, outgoing_tangent = (
            self.tangent_or_zeros(b, carried.initial),
            self.tangent_or_zeros(body, carried.body_output),
        )
        final_tangent = self._tangents[carried.final] = _new_tangent(b, carried.final)
        return Carried(
            initial_tangent,
            self._tangents[carried.body_input],
            outgoing_tangent,
            final_tangent,
            final_tangent.name,
        )

    def _record_tangent(self, b: Builder, recorded: Recorded) -> Recorded:
        stack_tangent = self._tangents[recorded.stack] = _new_tangent(b, recorded.stack)
        return Recorded(self._tangents[recorded.row], stack_tangent, stack_tangent.name)

    def _append_choice(self, b: Builder, choice: If) -> None:
        """Append a conditional (`If`) whose branches also return tangents."""
        branches = (choice.then, choice.otherwise)
        branch_builders = [b.body() for _ in branches]
        for branch_builder, branch in zip(branch_builders, branches, strict=True):
            self.append_scope(branch_builder, branch.ops)
        output_tuples = zip(choice.outputs, *(branch.outputs for branch in branches), strict=True)
        outputs_with_tangents = [
            (k, output)
            for k, (output, *branch_outputs) in enumerate(output_tuples)
            if not self._tangents.keys().isdisjoint(branch_outputs)
        ]
        then_branch, else_branch = (
            Branch(
                tuple(branch_builder.ops),
                (
                    *branch.outputs,
                    *(
                        self.tangent_or_zeros(branch_builder, branch.outputs[k])
                        for k, _ in outputs_with_tangents
                    ),
                ),
            )
            for branch_builder, branch in zip(branch_builders, branches, strict=True)
        )
        output_tangents = {output: _new_tangent(b, output) for _, output in outputs_with_tangents}
        extended_outputs = (*choice.outputs, *output_tangents.values())
        b.append(replace(choice, then=then_branch, otherwise=else_branch, outputs=extended_outputs))
        self._tangents.update(output_tangents)


def _new_tangent(b: Builder, value: Value, name: str = "") -> Value:
    """Create the tangent of a value, as a new value of the same dtype and shape."""
    return b.new(value.dtype, value.shape, name or f"{value.name} tangent")


def _refuse_non_float(name: str, value: Value) -> None:
    """Raise an error if a value is not a float, since only floats have tangents.

    Raises:
        UnsupportedError: The value is an integer, a boolean, or not an array.
    """
    if not is_float(value):
        raise UnsupportedError(
            f"'{name}' is {value.type}, which does not change a little: "
            "only numbers with a point have derivatives",
            value.where,
            "differentiate what is float64",
        )
