"""Downgrades of ONNX operators to opset 17: quantization.

    QuantizeLinear(x, scale, zero)     ->   Clip(Round(x / scale) + zero)
    DequantizeLinear(x, scale, zero)   ->   (x - zero) * scale

Nodes are expanded to these formulas for types that opset 20 lacks: 16-bit integers, and blocks with a scale
each.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.newer_shapes import extent_of
from mdf_loop.importing.opsets.rewrite import Rewrite

TensorProto = onnx.TensorProto
_EIGHT_BIT_TYPES = (TensorProto.INT8, TensorProto.UINT8)


def quantize_19(r: Rewrite) -> None:
    """Downgrade QuantizeLinear: remove `saturate`, which affects only 8-bit floats.

    Scales with other dtypes than float32 are new in 19.
    """
    r.add_copy(drop=("saturate",))


def quantize_21(r: Rewrite) -> None:
    """Downgrade QuantizeLinear: decompose quantization by blocks and to 16-bit integers.

    Both are new in 21. The attribute `output_dtype` is replaced by a zero point.
    """
    output_dtype = r.get("output_dtype", 0) or (
        r.dtype(r.input(2)) if r.input(2) else TensorProto.UINT8
    )
    if r.get("block_size", 0) or output_dtype in (TensorProto.INT16, TensorProto.UINT16):
        _quantize(r, output_dtype)
        return
    inputs = list(r.node.input)
    if r.get("output_dtype", 0) and not r.input(2):
        shape = r.facts.shape(r.input(1))
        if shape is None or None in shape:
            r.refuse(f"the shape of '{r.input(1)}' is not known")
        dtype = helper.tensor_dtype_to_np_dtype(output_dtype)
        known_extents = [extent for extent in shape if extent is not None]
        inputs = [*inputs[:2], r.add_constant(np.zeros(known_extents, dtype=dtype))]
    r.add_copy(inputs, drop=("block_size", "output_dtype"))


def quantize_23(r: Rewrite) -> None:
    """Downgrade QuantizeLinear: remove `precision`. Before 23, the division has the dtype of the data."""
    if r.get("precision", 0) not in (0, r.dtype(r.input(0))):
        r.refuse("precision is new in opset 23")
    if r.dtype(r.input(0)) != r.dtype(r.input(1)):
        r.refuse("data and scale of different dtypes are new in opset 23")
    r.add_copy(drop=("precision",))


def dequantize_21(r: Rewrite) -> None:
    """Downgrade DequantizeLinear: decompose dequantization of blocks and of 16-bit integers.

    Both are new in 21.
    """
    if not r.get("block_size", 0) and r.dtype(r.input(0)) not in (
        TensorProto.INT16,
        TensorProto.UINT16,
    ):
        r.add_copy(drop=("block_size",))
        return
    integer_data = r.add_cast(r.input(0), TensorProto.INT32)
    if r.input(2):
        zero_point = r.add_cast(_broadcast_to_data(r, r.input(2)), TensorProto.INT32)
        integer_data = r.add("Sub", [integer_data, zero_point])
    real_data = r.add_cast(integer_data, r.dtype(r.input(1)))
    r.add("Mul", [real_data, _broadcast_to_data(r, r.input(1))], to=r.output())


def dequantize_23(r: Rewrite) -> None:
    """Downgrade DequantizeLinear: remove `output_dtype`. Before 23, the result has the dtype of the scale."""
    output_dtype = r.get("output_dtype", 0)
    if output_dtype and output_dtype != r.dtype(r.input(1)):
        r.refuse("a result of another dtype than the scale is new in opset 23")
    r.add_copy(drop=("output_dtype",))


def q_linear_mat_mul_21(r: Rewrite) -> None:
    """Cast float16 scales to float32, the only dtype of scales before 21."""
    inputs = list(r.node.input)
    for scale_index in (1, 4, 6):
        if r.dtype(inputs[scale_index]) == TensorProto.FLOAT16:
            inputs[scale_index] = r.add_cast(inputs[scale_index], TensorProto.FLOAT)
    r.add_copy(inputs)


def _quantize(r: Rewrite, output_dtype: int) -> None:
    """Add nodes that scale, round to even, and clip to the range of the dtype."""
    dtype_range = np.iinfo(helper.tensor_dtype_to_np_dtype(output_dtype))
    real_data = r.add_cast(r.input(0), r.dtype(r.input(1)))
    scaled_data = r.add("Div", [real_data, _broadcast_to_data(r, r.input(1))])
    rounded_data = r.add("Round", [r.add_cast(scaled_data, TensorProto.FLOAT)])
    if r.input(2):
        rounded_data = r.add(
            "Add", [rounded_data, r.add_cast(_broadcast_to_data(r, r.input(2)), TensorProto.FLOAT)]
        )
    lower_limit, upper_limit = (
        r.add_constant(np.array(limit, np.float32)) for limit in (dtype_range.min, dtype_range.max)
    )
    r.add_cast(r.add("Clip", [rounded_data, lower_limit, upper_limit]), output_dtype, to=r.output())


def _broadcast_to_data(r: Rewrite, name: str) -> str:
    """Return scales or zero points in a shape that broadcasts to the data."""
    data_rank, parameter_rank = r.rank(r.input(0)), r.rank(name)
    axis = r.get("axis", 1)
    axis_index = axis + data_rank if axis < 0 else axis
    block_size = r.get("block_size", 0)
    if block_size:
        zero, one = (r.add_constant(np.array(integer, np.int64)) for integer in (0, 1))
        length = r.add("Squeeze", [extent_of(r, r.input(0), axis_index)])
        row_indices = r.add("Range", [zero, length, one])
        block_indices = r.add("Div", [row_indices, r.add_constant(np.array(block_size, np.int64))])
        return r.add("Gather", [name, block_indices], axis=axis_index)
    if parameter_rank != 1:
        return name
    return r.add("Reshape", [name, r.add_ints([-1] + [1] * (data_rank - 1 - axis_index))])
