"""Conversion of arrays for ONNX Runtime's Python interface, which does not support bfloat16."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from mdf_loop.ir import Array, Data, Program
from mdf_loop.ir.types import dtype_name, element_type, numpy_dtype

_BFLOAT16 = "bfloat16"
"""Dtype whose inputs and outputs are float32 in the session (see `passes.legalize.cast_bfloat16_io`)."""

_BFLOAT16_DTYPE = numpy_dtype(_BFLOAT16)


def convert_inputs(arrays: Mapping[str, Data], narrow: Collection[str]) -> Mapping[str, Data]:
    """Convert input arrays for ONNX Runtime: aligned memory, and float32 for bfloat16.

    `narrow` has the names of bfloat16 inputs.

    The runtime reads the arrays' own memory, which must be aligned. Arrays that are mapped from a file
    may be unaligned.
    """
    if not narrow and all(map(_needs_no_conversion, arrays.values())):
        return arrays
    return {name: _convert_input(data) for name, data in arrays.items()}


def _needs_no_conversion(data: Data) -> bool:
    return type(data) is np.ndarray and data.flags.aligned


def _convert_input(data: Data) -> Data:
    if data is None:
        return None
    if isinstance(data, list | tuple):
        return [np.asarray(member) for member in data]
    array = np.require(np.asarray(data), requirements="A")
    return array.astype(np.float32) if array.dtype == _BFLOAT16_DTYPE else array


def bfloat16_names(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a program's bfloat16 inputs, and of its bfloat16 outputs."""
    input_values = (program_input.value for program_input in program.inputs)
    return (
        tuple(value.name for value in input_values if value.dtype == _BFLOAT16),
        tuple(output.name for output in program.outputs if output.value.dtype == _BFLOAT16),
    )


def convert_outputs(outputs: dict[str, Data], narrow: Collection[str]) -> dict[str, Data]:
    """Convert the outputs named in `narrow` from float32 back to bfloat16."""
    for name in narrow:
        outputs[name] = outputs[name].astype(_BFLOAT16_DTYPE)
    return outputs


def is_directly_writable(array: Array) -> bool:
    """Return True if ONNX Runtime can write an output directly into the memory of an array."""
    return array.dtype.isbuiltin == 1 and array.dtype.kind != "O" and array.flags.carray


def make_ort_value(array: Array) -> Any:
    """Return an `onnxruntime.OrtValue` that shares the memory of an array."""
    import onnxruntime

    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        array.view(np.uint16), element_type(dtype_name(array))
    )
