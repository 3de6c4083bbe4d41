"""Calls of ONNX Runtime that a command-line program can abandon after a stop.

ONNX Runtime ends a run between two operations only. Within a command, another thread therefore makes the
call, and the main thread waits. If one operation continues after a request to end the run, the main
thread abandons the call and saves the results of earlier calls. The process then ends without Python's
finalization, since the other thread still computes (`mdf_loop.cli.commands`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from mdf_loop import signals
from mdf_loop.run.control.stopping import Stopped, Stopping

ANSWER_SECONDS = 0.5
"""Seconds that a call has to return after ONNX Runtime was asked to end it."""

CHECK_SECONDS = 0.05
"""Seconds between two checks by the main thread for a request to end the call."""

_Result = TypeVar("_Result")


def call_runtime(compute: Callable[[], _Result], stopping: Stopping) -> _Result:
    """Call ONNX Runtime in a thread, which is abandoned if the call does not stop on request.

    Outside of commands, call ONNX Runtime directly.

    Raises:
        Stopped: The call did not return within `ANSWER_SECONDS` after the request, and was abandoned.
    """
    if not (signals.in_command() and signals.in_main_thread() and stopping.can_stop):
        return compute()
    future = _get_executor(os.getpid()).submit(compute)
    try:
        return _wait_for_result(future, stopping)
    finally:
        if not future.done():
            signals.abandon_thread()
            _get_executor.cache_clear()


def _wait_for_result(future: Future[_Result], stopping: Stopping) -> _Result:
    while not stopping.is_over:
        try:
            return future.result(CHECK_SECONDS)
        except TimeoutError:
            continue
    try:
        return future.result(ANSWER_SECONDS)
    except TimeoutError:
        raise Stopped from None


@lru_cache(maxsize=1)
def _get_executor(process: int) -> ThreadPoolExecutor:
    """Return the single-thread executor in which a process calls ONNX Runtime.

    A forked child has none of its parent's threads.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="mdf_loop runtime")
