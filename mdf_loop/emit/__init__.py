"""`Program` -> ONNX."""

from mdf_loop.emit.onnx_model import to_onnx, to_session
from mdf_loop.emit.portable import portable

__all__ = ["portable", "to_onnx", "to_session"]
