"""Steps down to opset 17: layers of networks, signals, quantization."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite

T = onnx.TensorProto


def average_pool_19(r: Rewrite) -> None:
    """Spread windows are new in 19."""
    _no_dilations(r, 19)
    r.keep(drop=("dilations",))


def lp_pool_18(r: Rewrite) -> None:
    """Spread windows and rounding up are new in 18."""
    _no_dilations(r, 18)
    if r.get("ceil_mode", 0):
        r.refuse("ceil_mode is new in opset 18")
    r.keep(drop=("dilations", "ceil_mode"))


def _no_dilations(r: Rewrite, since: int) -> None:
    if any(step != 1 for step in r.get("dilations", ())):
        r.refuse(f"dilations are new in opset {since}")


def grid_sample_20(r: Rewrite) -> None:
    """Before 20, images only, and other words for the modes."""
    if r.rank(r.input(0)) != 4:
        r.refuse("other inputs than images (four axes) are new in opset 20")
    mode = str(r.get("mode", "linear"))
    r.keep(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def dft_20(r: Rewrite) -> None:
    """The axis was an attribute; where none is given it is -2 now and was 1."""
    axis = -2
    if r.input(2):
        (axis,) = r.numbers(r.input(2))
    if r.get("onesided", 0) and r.get("inverse", 0):
        r.refuse("an inverse of one side (irfft) is new in opset 20")
    rank = r.rank(r.input(0))
    r.keep([r.input(0), r.input(1)], axis=axis % rank)


def quantize_19(r: Rewrite) -> None:
    """Before 19 scales were float32; `saturate` speaks of 8-bit floats only."""
    if r.dtype(r.input(1)) != T.FLOAT:
        r.refuse("scales other than float32 are new in opset 19")
    r.keep(drop=("saturate",))


def quantize_21(r: Rewrite) -> None:
    """Before 21 the zero point decided the dtype, and no blocks."""
    _no_blocks(r)
    wanted = r.get("output_dtype", 0)
    inputs = list(r.node.input)
    if wanted and not r.input(2):
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


def dequantize_19(r: Rewrite) -> None:
    """Before 19 scales were float32."""
    if r.dtype(r.input(1)) != T.FLOAT:
        r.refuse("scales other than float32 are new in opset 19")
    r.keep()


def dequantize_21(r: Rewrite) -> None:
    """No blocks before 21."""
    _no_blocks(r)
    r.keep(drop=("block_size",))


def dequantize_23(r: Rewrite) -> None:
    """Before 23 the result had the dtype of the scale."""
    wanted = r.get("output_dtype", 0)
    if wanted and wanted != r.dtype(r.input(1)):
        r.refuse("a result of another dtype than the scale is new in opset 23")
    r.keep(drop=("output_dtype",))


def _no_blocks(r: Rewrite) -> None:
    if r.get("block_size", 0):
        r.refuse("blocks are new in opset 21")
