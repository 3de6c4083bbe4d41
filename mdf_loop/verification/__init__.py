"""Verification: comparison of a compiled model with modeci_mdf's engine."""

from mdf_loop.verification.comparison import Comparison, Verification, compare
from mdf_loop.verification.side_by_side import ENGINE_ONNX_TOLERANCE, TOLERANCE, verify

__all__ = [
    "ENGINE_ONNX_TOLERANCE",
    "TOLERANCE",
    "Comparison",
    "Verification",
    "compare",
    "verify",
]
