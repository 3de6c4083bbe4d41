"""Use float32 for inputs and outputs of bfloat16, which ONNX Runtime's Python interface lacks.

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
    """Return the program with float32 inputs and outputs in place of bfloat16 ones."""
    before: list[Op] = []
    after: list[Op] = []
    inputs: list[Input] = []
    outputs: list[Output] = []
    for entry in program.inputs:
        if entry.value.dtype == _BFLOAT16:
            wide = replace(entry.value, dtype="float32")
            before.append(_cast(wide, entry.value))
            entry = replace(entry, value=wide)
        inputs.append(entry)
    for output in program.outputs:
        value = output.value
        if value.dtype == _BFLOAT16:
            wide = Value(output.name, "float32", value.shape, value.where)
            after.append(_cast(value, wide))
            output = replace(output, value=wide)
        outputs.append(output)
    if not before and not after:
        return program
    ops = (*before, *program.ops, *after)
    return replace(program, inputs=tuple(inputs), ops=ops, outputs=tuple(outputs))


def _cast(source: Value, target: Value) -> Op:
    return Op("Cast", (source,), (target,), {"to": element_type(target.dtype)}, source.where)
