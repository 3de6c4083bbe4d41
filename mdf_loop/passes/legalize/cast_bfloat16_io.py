"""Replacement of bfloat16 inputs and outputs, which ONNX Runtime's Python interface lacks.

    x: bfloat16 -> ... -> y: bfloat16
      ->
    x: float32 -> Cast -> ... -> Cast -> y: float32

float32 represents every bfloat16 exactly, so the casts are lossless.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import Input, Op, Output, Program, Value
from mdf_loop.ir.types import element_type

_BFLOAT16 = "bfloat16"


def cast_bfloat16_io(program: Program) -> Program:
    """Replace bfloat16 inputs and outputs by float32, and insert casts from and to bfloat16."""
    input_casts: list[Op] = []
    output_casts: list[Op] = []
    new_inputs: list[Input] = []
    new_outputs: list[Output] = []
    for program_input in program.inputs:
        if program_input.value.dtype == _BFLOAT16:
            float32_input = replace(program_input.value, dtype="float32")
            input_casts.append(_cast(float32_input, program_input.value))
            program_input = replace(program_input, value=float32_input)
        new_inputs.append(program_input)
    for output in program.outputs:
        output_value = output.value
        if output_value.dtype == _BFLOAT16:
            float32_input = Value(output.name, "float32", output_value.shape, output_value.where)
            output_casts.append(_cast(output_value, float32_input))
            output = replace(output, value=float32_input)
        new_outputs.append(output)
    if not input_casts and not output_casts:
        return program
    new_ops = (*input_casts, *program.ops, *output_casts)
    return replace(program, inputs=tuple(new_inputs), ops=new_ops, outputs=tuple(new_outputs))


def _cast(source: Value, target: Value) -> Op:
    return Op("Cast", (source,), (target,), {"to": element_type(target.dtype)}, source.where)
