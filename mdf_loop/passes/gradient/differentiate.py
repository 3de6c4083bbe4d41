"""Reverse mode of a program: it also gives the cotangents of inputs, for those of outputs.

    program(%x, %w)               program(%x, %w, %change of y)
      %y = Mul(%x, %w)      ->      %y = Mul(%x, %w)
      output y = %y                 %gx = Mul(%change of y, %w)
                                    output y = %y
                                    output change of x = %gx

What `y` is part of changes with `x` by `change of x`, where it changes with `y` by `change of y`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Input, InputRole, Output, OutputRole, Program
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.words import scalar
from mdf_loop.passes.batching.varying import propagate_varying
from mdf_loop.passes.gradient.activity import selected_values
from mdf_loop.passes.gradient.decompose_for_derivatives import decompose_for_derivatives
from mdf_loop.passes.gradient.derivative_errors import report_all_underivable
from mdf_loop.passes.gradient.loop_backward import loop_backward
from mdf_loop.passes.gradient.reverse import LoopBackward, Reverse


def change_of(name: str) -> str:
    """What the cotangent of an input or an output is called."""
    return f"change of {name}"


def differentiate(
    program: Program,
    number: str | None,
    wrt: Collection[str],
    of: Collection[str] = (),
    through_loop: LoopBackward = loop_backward,
    most: int | None = None,
) -> Program:
    """The program that also gives how a number changes with inputs.

    Args:
        program: as it was read.
        number: the output that is that number, or that gives a part of it; None: none does.
        wrt: inputs; how the number changes with each is an output of the new program.
        of: outputs with which the rest of the number changes; how is an input of the new program.
        through_loop: how loops are gone through.
        most: through how many iterations of outermost loops, the last ones; None: all of them.

    Raises:
        UnsupportedError: something between them has no derivative; the sentence names it.
    """
    program = decompose_for_derivatives(program, frozenset(wrt))
    b = Builder.resume(program)
    inputs = {entry.value.name: entry.value for entry in program.inputs}
    outputs = {output.name: output for output in program.outputs}
    active = {inputs[name] for name in wrt}
    propagate_varying(program.ops, active)
    reverse = Reverse(active, selected_values(program.ops), through_loop, most)
    ops = reverse.forward(b, program.ops)
    sweep = reverse.sweep(b, {})
    given = []
    if number is not None:
        sweep.add(outputs[number].value, scalar(b, 1, outputs[number].value.dtype))
    for name in of:
        value = outputs[name].value
        change = b.new(value.dtype, value.shape, change_of(name))
        given.append(Input(change, role=InputRole.CHANGE, of=name))
        sweep.add(value, change)
    with report_all_underivable(program, active.copy()):
        reverse.back(sweep, ops)
    made = [
        Output(
            change_of(name),
            sweep.of.get(inputs[name]) or zeros(b, inputs[name]),
            OutputRole.CHANGE,
            name,
        )
        for name in wrt
    ]
    return replace(
        program,
        inputs=(*program.inputs, *given),
        ops=tuple(b.ops),
        outputs=(*program.outputs, *made),
    )
