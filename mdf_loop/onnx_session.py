"""Creation and options of ONNX Runtime's sessions and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CPU = "CPUExecutionProvider"


def session_options() -> Any:
    """Return options of a session that prints nothing, since errors carry all information."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def run_options() -> Any:
    """Return options of one run, of which CUDA captures no graph.

    That is said, since the runtime's Python looks for it where outputs are bound, and an entry that is
    not there is an exception of C++: 0.04 ms in each run.
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
    """Return a session of a model on the first of these providers, with its custom operators."""
    import onnxruntime

    return onnxruntime.InferenceSession(model, options, providers=list(providers), **settings)
