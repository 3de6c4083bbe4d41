"""Reverse mode: add the cotangents of inputs to a program, from the cotangents of its outputs.

    program(%x, %w)               program(%x, %w, %change of y)
      %y = Mul(%x, %w)      ->      %y = Mul(%x, %w)
      output y = %y                 %gx = Mul(%change of y, %w)
                                    output y = %y
                                    output change of x = %gx

`change of y` is the derivative of a scalar objective by `y`, and `change of x` the derivative by `x`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Input, InputRole, Output, OutputRole, Program
from mdf_loop.ops.build_helpers import scalar
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.passes.batching.varying import propagate_varying
from mdf_loop.passes.gradient.activity import selected_values
from mdf_loop.passes.gradient.decompose_for_derivatives import decompose_for_derivatives
from mdf_loop.passes.gradient.derivative_errors import report_all_underivable
from mdf_loop.passes.gradient.loop_backward import loop_backward
from mdf_loop.passes.gradient.reverse import LoopBackward, Reverse


def cotangent_name(name: str) -> str:
    """Return the name of the cotangent of an input or an output."""
    return f"change of {name}"


def differentiate(
    program: Program,
    number: str | None,
    wrt: Collection[str],
    of: Collection[str] = (),
    loop_rule: LoopBackward = loop_backward,
    last_iterations: int | None = None,
) -> Program:
    """Return a program that also computes the gradient of a scalar objective (reverse mode).

    Args:
        program: The program before any pass.
        number: The output that is the objective, or a part of the objective; None if no output is.
        wrt: Inputs to differentiate by. Each gradient becomes an output of the new program.
        of: Outputs that the rest of the objective depends on. Each cotangent becomes an input of the new
            program.
        loop_rule: The rule that differentiates loops.
        last_iterations: The number of last iterations of outermost loops to differentiate through; None: all
            of them.

    Raises:
        UnsupportedError: An operation between inputs and outputs has no derivative. The message names the
            operation.
    """
    program = decompose_for_derivatives(program, frozenset(wrt))
    b = Builder.for_rewrite_of(program)
    inputs_by_name = {
        program_input.value.name: program_input.value for program_input in program.inputs
    }
    outputs_by_name = {output.name: output for output in program.outputs}
    active_values = {inputs_by_name[name] for name in wrt}
    propagate_varying(program.ops, active_values)
    reverse_state = Reverse(active_values, selected_values(program.ops), loop_rule, last_iterations)
    forward_ops = reverse_state.append_forward(b, program.ops)
    reverse_sweep = reverse_state.start_sweep(b, {})
    cotangent_inputs = []
    if number is not None:
        reverse_sweep.add(
            outputs_by_name[number].value, scalar(b, 1, outputs_by_name[number].value.dtype)
        )
    for name in of:
        output_value = outputs_by_name[name].value
        cotangent = b.new(output_value.dtype, output_value.shape, cotangent_name(name))
        cotangent_inputs.append(Input(cotangent, role=InputRole.DERIVATIVE, owner_name=name))
        reverse_sweep.add(output_value, cotangent)
    with report_all_underivable(program, active_values.copy()):
        reverse_state.propagate_backward(reverse_sweep, forward_ops)
    gradients = [
        Output(
            cotangent_name(name),
            reverse_sweep.cotangents.get(inputs_by_name[name]) or zeros(b, inputs_by_name[name]),
            OutputRole.DERIVATIVE,
            name,
        )
        for name in wrt
    ]
    return replace(
        program,
        inputs=(*program.inputs, *cotangent_inputs),
        ops=tuple(b.ops),
        outputs=(*program.outputs, *gradients),
    )
