"""Operators whose kernels in ONNX Runtime copy a constant operand into a packed layout."""

from __future__ import annotations

_PACKING_OPERATORS = frozenset(
    {
        *("MatMul", "Gemm", "Conv", "ConvTranspose", "RNN", "GRU", "LSTM"),
        *("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"),
    }
)

_PACKED_DTYPES = frozenset({"float32", "int8", "uint8"})
"""Dtypes of the packed operands; there are no such kernels for float64."""


def packs(op_type: str, dtype: str, rank: int) -> bool:
    """Return True if an ONNX Runtime kernel packs constant operands of a dtype and rank.

    Source: `PrePack` of ONNX Runtime 1.32.
    """
    return op_type in _PACKING_OPERATORS and dtype in _PACKED_DTYPES and rank > 1
