"""bfloat16 at the ends of a session, where ONNX Runtime's Python interface does not have it.

    x: bfloat16 -> ... -> y: bfloat16
      ->
    x: float32 -> Cast -> ... -> Cast -> y: float32

float32 holds every bfloat16 exactly, so nothing is lost on the way in and out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mdf_loop.ir import Data, Input, Op, Program, Value
from mdf_loop.onnx_types import element_type, numpy_dtype

_WORD = "bfloat16"


def with_float32_ends(program: Program) -> Program:
    """The program with inputs and outputs of float32 where they are bfloat16."""
    before: list[Op] = []
    after: list[Op] = []
    inputs: list[Input] = []
    outputs: list[tuple[str, Value]] = []
    for entry in program.inputs:
        if entry.value.dtype == _WORD:
            wide = replace(entry.value, dtype="float32")
            before.append(_cast(wide, entry.value))
            entry = replace(entry, value=wide)
        inputs.append(entry)
    for name, value in program.outputs:
        if value.dtype == _WORD:
            narrow, value = value, Value(name, "float32", value.shape, value.where)
            after.append(_cast(narrow, value))
        outputs.append((name, value))
    if not before and not after:
        return program
    ops = (*before, *program.ops, *after)
    return replace(program, inputs=tuple(inputs), ops=ops, outputs=tuple(outputs))


def _cast(value: Value, made: Value) -> Op:
    return Op("Cast", (value,), (made,), {"to": element_type(made.dtype)}, value.where)


def fed(data: Data) -> Data:
    """What is fed for a value: arrays, without bfloat16."""
    if data is None:
        return None
    if isinstance(data, list | tuple):
        return [np.asarray(member) for member in data]
    array = np.asarray(data)
    return array.astype(np.float32) if array.dtype == numpy_dtype(_WORD) else array


def taken(made: Mapping[str, Data], program: Program) -> dict[str, Data]:
    """What the program gives, of what was given by the one with float32 ends."""
    narrow = {name for name, value in program.outputs if value.dtype == _WORD}
    return {k: v.astype(numpy_dtype(_WORD)) if k in narrow else v for k, v in made.items()}
