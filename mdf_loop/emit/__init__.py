"""Conversion of a `Program` to an ONNX model."""

from mdf_loop.emit.onnx_model import NodeWriters, SessionModel, to_onnx
from mdf_loop.emit.portable import portable

__all__ = ["NodeWriters", "SessionModel", "portable", "to_onnx"]
