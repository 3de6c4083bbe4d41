"""Creation of ONNX Runtime sessions, and options of sessions and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CPU = "CPUExecutionProvider"


def session_options() -> Any:
    """Return ONNX Runtime session options that turn off the log."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def run_options() -> Any:
    """Return options of one ONNX Runtime run that disable CUDA graph capture.

    ONNX Runtime reads this entry in each run with bound outputs. A missing entry costs 0.04 ms for an
    internal C++ exception.
    """
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "-1")
    return options


def inference_session(
    model: bytes,
    options: Any,
    providers: Sequence[str | tuple[str, Mapping[str, str]]] = (CPU,),
    **settings: Any,
) -> Any:
    """Return an ONNX Runtime session of a serialized model on the first available provider."""
    import onnxruntime

    return onnxruntime.InferenceSession(model, options, providers=list(providers), **settings)
