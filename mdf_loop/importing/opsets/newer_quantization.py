"""Steps down to opset 17: quantization.

    QuantizeLinear(x, scale, zero)     ->   Clip(Round(x / scale) + zero)
    DequantizeLinear(x, scale, zero)   ->   (x - zero) * scale

where opset 20 has none for whole numbers of 16 bits, or for blocks of one scale each.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.newer_shapes import extent_of
from mdf_loop.importing.opsets.rewrite import Rewrite

T = onnx.TensorProto
_SMALL = (T.INT8, T.UINT8)


def quantize_19(r: Rewrite) -> None:
    """`saturate` speaks of 8-bit floats only; scales other than float32 are new in 19."""
    r.keep(drop=("saturate",))


def quantize_21(r: Rewrite) -> None:
    """Before 21 the zero point decided the dtype, of 8 bits, and there were no blocks."""
    wanted = r.get("output_dtype", 0) or (r.dtype(r.input(2)) if r.input(2) else T.UINT8)
    if r.get("block_size", 0) or wanted in (T.INT16, T.UINT16):
        _quantized(r, wanted)
        return
    inputs = list(r.node.input)
    if r.get("output_dtype", 0) and not r.input(2):
        shape = r.facts.shape(r.input(1))
        if shape is None or None in shape:
            r.refuse(f"the shape of '{r.input(1)}' is not known")
        dtype = helper.tensor_dtype_to_np_dtype(wanted)
        extents = [extent for extent in shape if extent is not None]
        inputs = [*inputs[:2], r.constant(np.zeros(extents, dtype=dtype))]
    r.keep(inputs, drop=("block_size", "output_dtype"))


def quantize_23(r: Rewrite) -> None:
    """`precision` chooses the dtype of the division: before 23 that of the data."""
    if r.get("precision", 0) not in (0, r.dtype(r.input(0))):
        r.refuse("precision is new in opset 23")
    if r.dtype(r.input(0)) != r.dtype(r.input(1)):
        r.refuse("data and scale of different dtypes are new in opset 23")
    r.keep(drop=("precision",))


def dequantize_21(r: Rewrite) -> None:
    """No blocks, and no whole numbers of 16 bits, before 21."""
    if not r.get("block_size", 0) and r.dtype(r.input(0)) not in (T.INT16, T.UINT16):
        r.keep(drop=("block_size",))
        return
    numbers = r.cast(r.input(0), T.INT32)
    if r.input(2):
        zero = r.cast(_beside(r, r.input(2)), T.INT32)
        numbers = r.make("Sub", [numbers, zero])
    real = r.cast(numbers, r.dtype(r.input(1)))
    r.make("Mul", [real, _beside(r, r.input(1))], to=r.output())


def dequantize_23(r: Rewrite) -> None:
    """Before 23 the result had the dtype of the scale."""
    wanted = r.get("output_dtype", 0)
    if wanted and wanted != r.dtype(r.input(1)):
        r.refuse("a result of another dtype than the scale is new in opset 23")
    r.keep(drop=("output_dtype",))


def q_linear_mat_mul_21(r: Rewrite) -> None:
    """Before 21 scales were float32, which holds those of float16."""
    inputs = list(r.node.input)
    for place in (1, 4, 6):
        if r.dtype(inputs[place]) == T.FLOAT16:
            inputs[place] = r.cast(inputs[place], T.FLOAT)
    r.keep(inputs)


def _quantized(r: Rewrite, wanted: int) -> None:
    """Rounded to even, and held between the least and the largest number of the dtype."""
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(wanted))
    numbers = r.cast(r.input(0), r.dtype(r.input(1)))
    parts = r.make("Div", [numbers, _beside(r, r.input(1))])
    whole = r.make("Round", [r.cast(parts, T.FLOAT)])
    if r.input(2):
        whole = r.make("Add", [whole, r.cast(_beside(r, r.input(2)), T.FLOAT)])
    least, most = (r.constant(np.array(n, np.float32)) for n in (limits.min, limits.max))
    r.cast(r.make("Clip", [whole, least, most]), wanted, to=r.output())


def _beside(r: Rewrite, name: str) -> str:
    """Scales, or zero points, so that each stands beside the numbers that it is of."""
    rank, own = r.rank(r.input(0)), r.rank(name)
    axis = r.get("axis", 1)
    place = axis + rank if axis < 0 else axis
    block = r.get("block_size", 0)
    if block:
        zero, one = (r.constant(np.array(n, np.int64)) for n in (0, 1))
        length = r.make("Squeeze", [extent_of(r, r.input(0), place)])
        numbers = r.make("Range", [zero, length, one])
        blocks = r.make("Div", [numbers, r.constant(np.array(block, np.int64))])
        return r.make("Gather", [name, blocks], axis=place)
    if own != 1:
        return name
    return r.make("Reshape", [name, r.ints([-1] + [1] * (rank - 1 - place))])
