"""`Program` -> ONNX."""

from mdf_loop.emit.onnx_model import Forms, SessionModel, to_onnx
from mdf_loop.emit.portable import portable

__all__ = ["Forms", "SessionModel", "portable", "to_onnx"]
