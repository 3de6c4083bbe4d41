"""ONNX Runtime's sessions: the one place where they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CPU = "CPUExecutionProvider"


def session_options() -> Any:
    """Options of a session that prints nothing: errors say what there is to say."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def inference_session(
    model: bytes, options: Any, providers: Sequence[str] = (CPU,), **settings: Any
) -> Any:
    """A session of a model on the first of these providers that has its operators."""
    import onnxruntime

    return onnxruntime.InferenceSession(model, options, providers=list(providers), **settings)
