"""Arrays as ONNX Runtime's Python interface has them: without bfloat16, in their own memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from mdf_loop.ir import Array, Data, Program
from mdf_loop.ir.types import dtype_name, element_type, numpy_dtype

_WORD = "bfloat16"
"""What is fed and given as float32 (see `passes.legalize.cast_bfloat16_io`)."""

_NARROW = numpy_dtype(_WORD)


def fed(arrays: Mapping[str, Data], narrow: Collection[str]) -> Mapping[str, Data]:
    """What is fed for values by name: arrays, without bfloat16, which inputs are that are `narrow`.

    The runtime reads their own memory, where each number lies as the processor has it: a file that is
    mapped into memory may have them anywhere.
    """
    if not narrow and all(map(_is_ready, arrays.values())):
        return arrays
    return {name: _fed(data) for name, data in arrays.items()}


def _is_ready(data: Data) -> bool:
    return type(data) is np.ndarray and data.flags.aligned


def _fed(data: Data) -> Data:
    if data is None:
        return None
    if isinstance(data, list | tuple):
        return [np.asarray(member) for member in data]
    array = np.require(np.asarray(data), requirements="A")
    return array.astype(np.float32) if array.dtype == _NARROW else array


def narrow_ends(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs and outputs of a program that the one with float32 ends has as float32."""
    inputs = (entry.value for entry in program.inputs)
    return (
        tuple(value.name for value in inputs if value.dtype == _WORD),
        tuple(output.name for output in program.outputs if output.value.dtype == _WORD),
    )


def taken(made: dict[str, Data], narrow: Collection[str]) -> dict[str, Data]:
    """What the program gives, of what was given by the one with float32 ends."""
    for name in narrow:
        made[name] = made[name].astype(_NARROW)
    return made


def is_plain(array: Array) -> bool:
    """Whether the runtime can write to an array's own memory."""
    return array.dtype.isbuiltin == 1 and array.dtype.kind != "O" and array.flags.carray


def owned(array: Array) -> Any:
    """An array as a value of the runtime, which reads the array's own memory."""
    import onnxruntime

    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        array.view(np.uint16), element_type(dtype_name(array))
    )
