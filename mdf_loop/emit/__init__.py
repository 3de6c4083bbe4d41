"""`Program` -> ONNX."""

from mdf_loop.emit.onnx_model import to_onnx

__all__ = ["to_onnx"]
