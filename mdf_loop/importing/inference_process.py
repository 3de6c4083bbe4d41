"""Type inference of whole ONNX models in a separate process, which can be killed after a time limit.

onnx infers types in C++ code that holds Python's interpreter lock. If this code does not return for a model,
other threads and signal handlers of the process do not run any more. Therefore one worker process infers the
types of all models. The worker starts with the first model, and ends with its parent process.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress

import onnx

from mdf_loop.errors import ModelError
from mdf_loop.importing import inference_worker
from mdf_loop.importing.inference_worker import read_message, write_message
from mdf_loop.importing.onnx_paths import path_of_node
from mdf_loop.locks import ForkSafeLock

PROBE_SECONDS = 5.0
"""Time limit in seconds of each test during the search for the node at which inference does not end."""


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a copy of an ONNX model with inferred types and shapes, or None if onnx fails.

    Raises:
        ModelError: onnx's inference crashes, or exceeds `inference_worker.TIME_LIMIT_SECONDS`. The error
            names the first node at which inference fails.
    """
    time_limit_seconds = inference_worker.TIME_LIMIT_SECONDS
    try:
        typed_bytes = _PROCESS.infer(model.SerializeToString(), time_limit_seconds)
    except _UnansweredError as end:
        raise _inference_error(model, str(end)) from None
    return onnx.ModelProto.FromString(typed_bytes) if typed_bytes else None


class _UnansweredError(Exception):
    """Error if the worker process ends without an answer. The text states the reason."""


class _InferenceProcess:
    """Owner of one worker process that infers the types of ONNX models, one model at a time."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def infer(self, model: bytes, seconds: float) -> bytes:
        """Return a serialized model with inferred types, or empty bytes if onnx raises an error.

        Raises:
            _UnansweredError: The process crashed, or did not answer within `seconds`.
        """
        with self._lock:
            try:
                worker = self._running_worker()
            except OSError:  # the system cannot start a process
                return inference_worker.infer(model)
            return self._request_inference(worker, model, seconds)

    def _running_worker(self) -> subprocess.Popen[bytes]:
        """Return the worker process, after starting a new process if necessary.

        A process that was started before a fork of the current process is not used.
        """
        worker = self._process
        if worker is None or worker.poll() is not None or self._owner != os.getpid():
            worker = subprocess.Popen(
                [sys.executable, "-P", inference_worker.__file__, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._process, self._owner = worker, os.getpid()
        return worker

    def _request_inference(
        self, worker: subprocess.Popen[bytes], model: bytes, seconds: float
    ) -> bytes:
        has_timed_out = threading.Event()

        def stop() -> None:
            has_timed_out.set()
            worker.kill()

        kill_timer = threading.Timer(seconds, stop)
        kill_timer.daemon = True
        kill_timer.start()
        typed_model_bytes = None
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            write_message(worker.stdin, model)
            typed_model_bytes = read_message(worker.stdout)
        except BrokenPipeError:  # the process has ended
            pass
        finally:
            kill_timer.cancel()
            # This is necessary after Ctrl-C, too: a later read would return the answer for this model.
            if typed_model_bytes is None:
                self.end()
        if typed_model_bytes is None:
            raise _UnansweredError(
                f"does not end within {seconds:g} seconds" if has_timed_out.is_set() else "crashes"
            )
        return typed_model_bytes

    def end(self) -> None:
        """End the worker process by killing it, if it is a child of the current process."""
        worker, self._process = self._process, None
        if worker is None or self._owner != os.getpid():
            return
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # part of a model was not sent
                pipe.close()


_PROCESS = _InferenceProcess()
atexit.register(_PROCESS.end)


# --- search for the node at which inference does not end --------------------------------------------


def _inference_error(model: onnx.ModelProto, failure: str) -> ModelError:
    node_index = _first_failing_node(model)
    if node_index is None:
        return ModelError(f"onnx's type inference of the model {failure}", "$.graph")
    node = model.graph.node[node_index]
    return ModelError(
        f"onnx's type inference of operator '{node.op_type}' {failure}",
        path_of_node("$.graph", node, node_index),
        "check the attributes and the input shapes of this operator",
    )


def _first_failing_node(model: onnx.ModelProto) -> int | None:
    """Find the first node at which type inference hangs, and return the node's index or None."""
    if _inference_ends(model, len(model.graph.node)):
        return None
    # Inference ends with `finished_count` nodes, and does not end with `unfinished_count` nodes.
    finishing_node_count, hanging_node_count = 0, len(model.graph.node)
    while hanging_node_count - finishing_node_count > 1:
        probed_node_count = (finishing_node_count + hanging_node_count) // 2
        finishing_node_count, hanging_node_count = (
            (probed_node_count, hanging_node_count)
            if _inference_ends(model, probed_node_count)
            else (finishing_node_count, probed_node_count)
        )
    return finishing_node_count


def _inference_ends(model: onnx.ModelProto, node_count: int) -> bool:
    """Return True if type inference of the first `node_count` nodes ends within `PROBE_SECONDS`."""
    truncated_model = onnx.ModelProto()
    truncated_model.CopyFrom(model)
    del truncated_model.graph.node[node_count:]
    del truncated_model.graph.output[:]
    try:
        _PROCESS.infer(truncated_model.SerializeToString(), PROBE_SECONDS)
    except _UnansweredError:
        return False
    return True
