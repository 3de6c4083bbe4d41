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


def quantize_19(rewrite: Rewrite) -> None:
    """Downgrade QuantizeLinear: remove `saturate`, which affects only 8-bit floats.

    Scales with other dtypes than float32 are new in 19.
    """
    rewrite.add_copy(drop=("saturate",))


def quantize_21(rewrite: Rewrite) -> None:
    """Downgrade QuantizeLinear: decompose quantization by blocks and to 16-bit integers.

    Both are new in opset 21. The attribute `output_dtype` is replaced by a zero point.
    """
    output_dtype = rewrite.attribute("output_dtype", 0) or (
        rewrite.dtype(rewrite.input(2)) if rewrite.input(2) else TensorProto.UINT8
    )
    if rewrite.attribute("block_size", 0) or output_dtype in (
        TensorProto.INT16,
        TensorProto.UINT16,
    ):
        _quantize(rewrite, output_dtype)
        return
    quantize_inputs = list(rewrite.node.input)
    if rewrite.attribute("output_dtype", 0) and not rewrite.input(2):
        scale_shape = rewrite.facts.shape(rewrite.input(1))
        if scale_shape is None or None in scale_shape:
            rewrite.refuse(f"the shape of '{rewrite.input(1)}' is not known")
        numpy_dtype = helper.tensor_dtype_to_np_dtype(output_dtype)
        known_extents = [extent for extent in scale_shape if extent is not None]
        quantize_inputs = [
            *quantize_inputs[:2],
            rewrite.add_constant(np.zeros(known_extents, dtype=numpy_dtype)),
        ]
    rewrite.add_copy(quantize_inputs, drop=("block_size", "output_dtype"))


def quantize_23(rewrite: Rewrite) -> None:
    """Downgrade QuantizeLinear: remove `precision`. Before 23, the division has the dtype of the data."""
    if rewrite.attribute("precision", 0) not in (0, rewrite.dtype(rewrite.input(0))):
        rewrite.refuse("precision is new in opset 23")
    if rewrite.dtype(rewrite.input(0)) != rewrite.dtype(rewrite.input(1)):
        rewrite.refuse("data and scale of different dtypes are new in opset 23")
    rewrite.add_copy(drop=("precision",))


def dequantize_21(rewrite: Rewrite) -> None:
    """Downgrade DequantizeLinear: decompose dequantization of blocks and of 16-bit integers.

    Both are new in opset 21.
    """
    if not rewrite.attribute("block_size", 0) and rewrite.dtype(rewrite.input(0)) not in (
        TensorProto.INT16,
        TensorProto.UINT16,
    ):
        rewrite.add_copy(drop=("block_size",))
        return
    integer_data = rewrite.add_cast(rewrite.input(0), TensorProto.INT32)
    if rewrite.input(2):
        zero_point = rewrite.add_cast(
            _broadcast_to_data(rewrite, rewrite.input(2)), TensorProto.INT32
        )
        integer_data = rewrite.add_node("Sub", [integer_data, zero_point])
    real_data = rewrite.add_cast(integer_data, rewrite.dtype(rewrite.input(1)))
    rewrite.add_node(
        "Mul", [real_data, _broadcast_to_data(rewrite, rewrite.input(1))], to=rewrite.output()
    )


def dequantize_23(rewrite: Rewrite) -> None:
    """Downgrade DequantizeLinear: remove `output_dtype`. Before 23, the result has the dtype of the scale."""
    output_dtype = rewrite.attribute("output_dtype", 0)
    if output_dtype and output_dtype != rewrite.dtype(rewrite.input(1)):
        rewrite.refuse("a result of another dtype than the scale is new in opset 23")
    rewrite.add_copy(drop=("output_dtype",))


def q_linear_mat_mul_21(rewrite: Rewrite) -> None:
    """Cast float16 scales to float32, the only dtype of scales before opset 21."""
    input_names = list(rewrite.node.input)
    for scale_index in (1, 4, 6):
        if rewrite.dtype(input_names[scale_index]) == TensorProto.FLOAT16:
            input_names[scale_index] = rewrite.add_cast(input_names[scale_index], TensorProto.FLOAT)
    rewrite.add_copy(input_names)


def _quantize(rewrite: Rewrite, output_dtype: int) -> None:
    """Add nodes that scale, round to even, and clip to the range of the dtype."""
    integer_range = np.iinfo(helper.tensor_dtype_to_np_dtype(output_dtype))
    real_data = rewrite.add_cast(rewrite.input(0), rewrite.dtype(rewrite.input(1)))
    scaled_data = rewrite.add_node(
        "Div", [real_data, _broadcast_to_data(rewrite, rewrite.input(1))]
    )
    rounded_data = rewrite.add_node("Round", [rewrite.add_cast(scaled_data, TensorProto.FLOAT)])
    if rewrite.input(2):
        rounded_data = rewrite.add_node(
            "Add",
            [
                rounded_data,
                rewrite.add_cast(_broadcast_to_data(rewrite, rewrite.input(2)), TensorProto.FLOAT),
            ],
        )
    lowest_integer, largest_integer = (
        rewrite.add_constant(np.array(extreme_integer, np.float32))
        for extreme_integer in (integer_range.min, integer_range.max)
    )
    rewrite.add_cast(
        rewrite.add_node("Clip", [rounded_data, lowest_integer, largest_integer]),
        output_dtype,
        to=rewrite.output(),
    )


def _broadcast_to_data(rewrite: Rewrite, parameter_name: str) -> str:
    """Return scales or zero points in a shape that broadcasts to the data."""
    data_rank, parameter_rank = rewrite.rank(rewrite.input(0)), rewrite.rank(parameter_name)
    axis = rewrite.attribute("axis", 1)
    axis_index = axis + data_rank if axis < 0 else axis
    block_size = rewrite.attribute("block_size", 0)
    if block_size:
        constant_zero, constant_one = (
            rewrite.add_constant(np.array(integer, np.int64)) for integer in (0, 1)
        )
        axis_length = rewrite.add_node(
            "Squeeze", [extent_of(rewrite, rewrite.input(0), axis_index)]
        )
        row_indices = rewrite.add_node("Range", [constant_zero, axis_length, constant_one])
        block_indices = rewrite.add_node(
            "Div", [row_indices, rewrite.add_constant(np.array(block_size, np.int64))]
        )
        return rewrite.add_node("Gather", [parameter_name, block_indices], axis=axis_index)
    if parameter_rank != 1:
        return parameter_name
    return rewrite.add_node(
        "Reshape", [parameter_name, rewrite.add_integers([-1] + [1] * (data_rank - 1 - axis_index))]
    )
