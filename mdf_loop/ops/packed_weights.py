"""Operators whose kernels in ONNX Runtime bring a constant operand into an order of their own."""

from __future__ import annotations

_OPERATORS = frozenset(
    {
        *("MatMul", "Gemm", "Conv", "ConvTranspose", "RNN", "GRU", "LSTM"),
        *("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"),
    }
)

_DTYPES = frozenset({"float32", "int8", "uint8"})
"""Dtypes of the operands that are packed; there are no such kernels for float64."""


def packs(op_type: str, dtype: str, rank: int) -> bool:
    """Return True if a kernel packs a constant operand of a dtype and a rank (`PrePack`, 1.32)."""
    return op_type in _OPERATORS and dtype in _DTYPES and rank > 1
