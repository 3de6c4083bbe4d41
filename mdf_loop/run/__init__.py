"""ONNX -> numbers."""

from mdf_loop.run.interpret import interpret
from mdf_loop.run.results import Axis, LoopReport, Results
from mdf_loop.run.session import Session

__all__ = ["Axis", "LoopReport", "Results", "Session", "interpret"]
