"""Replacements of operations whose CUDA kernels in ONNX Runtime differ from the CPU kernels.

    y = Gather(x, i)        CUDA: 0 for an index outside; CPU: an error
    q = Div(n, d)           CUDA: any integer if d is 0; CPU: an error
    n: int64 = Cast(x)      CUDA: 0 for nan, the largest integer for overflow; CPU: the smallest integer
    y = Sign(x)             CUDA: 0 for nan; CPU: nan
    s = ReduceSum(x)        CUDA: an error for no elements; CPU: 0
    y = Softmax(x)          CUDA: float64 is computed in float32
    y = Gelu(x)             CUDA: an error for a scalar

`Row.cuda_replacement` refers to these functions. Each builds the replacement, or returns None if the CUDA kernel is right.

Source: onnxruntime-gpu 1.31.1 on an H100 (tests/run/onnxruntime/test_cuda.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.build_helpers import all_true, cast, ints, scalar
from mdf_loop.ops.decompositions import reductions
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    operand,
    optional_operand,
)
from mdf_loop.ops.derivatives import shapes
from mdf_loop.ops.failure_conditions import (
    DIVISION_BY_ZERO_MESSAGE,
    has_index_outside,
    has_index_tuple_outside,
    may_divide_by_zero,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder
    from mdf_loop.ops.registry import KnownArrays

INDEX_OUT_OF_RANGE_MESSAGE = "a position does not exist: a subscript is outside of its array"

# --- operations that fail on the CPU only --------------------------------------------------------


def check_divisor(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Add a run-time check of the divisor to an integer division or remainder on CUDA."""
    if not may_divide_by_zero(op, known_array):
        return None
    divisor = operand(op, 1)
    is_nonzero = b.op("Not", b.op("Equal", divisor, constant_like(b, 0, divisor)))
    return _build_guarded(b, op, is_nonzero, DIVISION_BY_ZERO_MESSAGE)


def check_index(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Add a run-time check of the indices to a gather or scatter along one axis on CUDA."""
    if not has_index_outside(op, known_array):
        return None
    axis_extent = extent_of(b, operand(op), int(attribute(op, "axis") or 0))
    return _build_guarded(
        b, op, _are_inside(b, operand(op, 1), axis_extent), INDEX_OUT_OF_RANGE_MESSAGE
    )


def extent_of(b: Builder, x: Value, axis: int) -> Value:
    """Build the extent of an axis of an array, whose rank may be unknown."""
    if x.shape is not None:
        return shapes.extent(b, x, axis)
    return b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0)


def check_index_tuple(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Add a run-time check of the index tuples to a GatherND or ScatterND on CUDA."""
    if not has_index_tuple_outside(op, known_array):
        return None
    x, indices = operand(op), operand(op, 1)
    batch_axis_count = int(op.attributes.get("batch_dims", 0))
    indexed_axes_end = b.op("Add", b.op("Shape", indices, start=-1), ints(b, batch_axis_count))
    indexed_extents = b.op(
        "Slice", shapes.shape_of(b, x), ints(b, batch_axis_count), indexed_axes_end
    )
    return _build_guarded(
        b, op, _are_inside(b, indices, indexed_extents), INDEX_OUT_OF_RANGE_MESSAGE
    )


def _are_inside(b: Builder, indices: Value, extents: Value) -> Value:
    int64_indices = cast(b, indices, "int64")
    is_below_extent = b.op("Less", int64_indices, extents)
    return b.op("And", b.op("GreaterOrEqual", int64_indices, b.op("Neg", extents)), is_below_extent)


def _build_guarded(b: Builder, op: Op, is_valid: Value, sentence: str) -> Value:
    """Build a gather or scatter that fails with `sentence` unless all elements of `is_valid` are true."""
    x, index, *other_inputs = op.inputs
    assert index is not None
    guarded_operand = b.guard(index, all_true(b, is_valid), sentence)
    return b.op(op.op_type, x, guarded_operand, *other_inputs, **op.attributes)


# --- operations with other results ---------------------------------------------------------------


def cast_float_to_integer(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Build a cast of floats to integers that returns the smallest integer for values out of range."""
    x, target_dtype = operand(op), op.outputs[0].dtype
    if kind_of(x.dtype) != "f" or target_dtype not in ("int64", "int32"):
        return None
    wide_x = x if x.dtype == "float64" else cast(b, x, "float32")
    min_integer = float(np.iinfo(target_dtype).min)
    # float64 has numbers between least - 1 and least.
    if target_dtype == "int32" and wide_x.dtype == "float64":
        is_above_min = b.op("Greater", wide_x, constant_like(b, min_integer - 1, wide_x))
    else:
        is_above_min = b.op("GreaterOrEqual", wide_x, constant_like(b, min_integer, wide_x))
    is_in_range = b.op(
        "And", is_above_min, b.op("Less", wide_x, constant_like(b, -min_integer, wide_x))
    )
    in_range_x = b.op("Where", is_in_range, wide_x, constant_like(b, min_integer, wide_x))
    return b.op("Cast", in_range_x, **op.attributes)


def sign(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Build ONNX's Sign of floats for CUDA, with a result of nan for nan."""
    x = operand(op)
    if kind_of(x.dtype) != "f":
        return None
    return b.op("Where", b.op("Equal", x, x), b.op("Sign", x), x)


def softmax(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Decompose Softmax of float64, which CUDA computes in float32."""
    return reductions.softmax(b, op) if op.outputs[0].dtype == "float64" else None


def log_softmax(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Decompose LogSoftmax of float64, which CUDA computes in float32."""
    return reductions.log_softmax(b, op) if op.outputs[0].dtype == "float64" else None


def gelu(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Build Gelu of a scalar as Gelu of a one-element array, because the CUDA kernel refuses scalars."""
    x = operand(op)
    if x.shape != ():
        return None
    vector_result = b.op(op.op_type, b.op("Unsqueeze", x, ints(b, 0)), **op.attributes)
    return b.op("Squeeze", vector_result, ints(b, 0))


# --- operations that fail for empty arrays -------------------------------------------------------


def reduce_sum(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Build a sum for CUDA with a 0 appended to possibly empty axes, which CUDA refuses."""
    return _with_neutral_element(b, op, known_array, 0)


def product(b: Builder, op: Op, known_array: KnownArrays) -> Value | None:
    """Build a product for CUDA with a 1 appended to possibly empty axes, which CUDA refuses."""
    return _with_neutral_element(b, op, known_array, 1)


def _with_neutral_element(
    b: Builder, op: Op, known_array: KnownArrays, neutral: float
) -> Value | None:
    """Build a reduction with the neutral element appended to possibly empty axes."""
    x, axes = operand(op), _reduced_axes(op, known_array)
    if x.shape is None and axes == _ALL_AXES and not attribute(op, "keepdims"):
        x, axes = b.op("Reshape", x, ints(b, -1)), (0,)
    if x.shape is None or axes is None:
        return None
    rank = len(x.shape)
    reduced_axes = range(rank) if axes == _ALL_AXES else {axis % rank for axis in axes}
    may_be_empty_axis = [not isinstance(extent, int) or extent == 0 for extent in x.shape]
    is_extended_axis = [may_be_empty_axis[axis] and axis in reduced_axes for axis in range(rank)]
    if not any(is_extended_axis):
        return None
    end_pads = b.constant(np.array([*([0] * rank), *map(int, is_extended_axis)]))
    extended_x = b.op("Pad", x, end_pads, constant_like(b, neutral, x))
    return b.op(op.op_type, extended_x, *op.inputs[1:], **op.attributes)


_ALL_AXES: tuple[int, ...] = ()


def _reduced_axes(op: Op, known_array: KnownArrays) -> tuple[int, ...] | None:
    """Return the axes that a reduction reduces, or None if it reduces none or they are unknown."""
    axes_operand = optional_operand(op, 1)
    axes = op.attributes.get("axes", ()) if axes_operand is None else known_array(axes_operand)
    if axes is None or (not len(axes) and op.attributes.get("noop_with_empty_axes")):
        return None
    return tuple(map(int, axes)) or _ALL_AXES
