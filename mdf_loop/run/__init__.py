"""ONNX -> numbers."""

from mdf_loop.run.interpret import interpret
from mdf_loop.run.results import LoopReport, Results
from mdf_loop.run.session import Session

__all__ = ["LoopReport", "Results", "Session", "interpret"]
