"""`Program` -> ONNX."""

from mdf_loop.emit.onnx_model import SessionModel, to_onnx
from mdf_loop.emit.portable import portable

__all__ = ["SessionModel", "portable", "to_onnx"]
