"""bfloat16 at the ends of a session, where ONNX Runtime's Python interface does not have it.

    x: bfloat16 -> ... -> y: bfloat16
      ->
    x: float32 -> Cast -> ... -> Cast -> y: float32

float32 holds every bfloat16 exactly, so nothing is lost on the way in and out.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import Input, Op, Output, Program, Value
from mdf_loop.ir.types import element_type

_WORD = "bfloat16"


def cast_bfloat16_io(program: Program) -> Program:
    """The program with inputs and outputs of float32 where they are bfloat16."""
    before: list[Op] = []
    after: list[Op] = []
    inputs: list[Input] = []
    outputs: list[Output] = []
    for entry in program.inputs:
        if entry.value.dtype == _WORD:
            wide = replace(entry.value, dtype="float32")
            before.append(_cast(wide, entry.value))
            entry = replace(entry, value=wide)
        inputs.append(entry)
    for output in program.outputs:
        value = output.value
        if value.dtype == _WORD:
            wide = Value(output.name, "float32", value.shape, value.where)
            after.append(_cast(value, wide))
            output = replace(output, value=wide)
        outputs.append(output)
    if not before and not after:
        return program
    ops = (*before, *program.ops, *after)
    return replace(program, inputs=tuple(inputs), ops=ops, outputs=tuple(outputs))


def _cast(value: Value, made: Value) -> Op:
    return Op("Cast", (value,), (made,), {"to": element_type(made.dtype)}, value.where)
