"""Ctrl-C reaches a running model at once.

While ONNX Runtime computes, Python cannot run its signal handler. The interpreter's wake-up
descriptor is written to by the signal itself; one watcher thread for the whole process reads it
and tells the runtime to stop. A run costs microseconds for it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


class _Watcher:
    """Reads signals from a pipe and stops the runs that are under way."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self._reading, self.writing = os.pipe()
        os.set_blocking(self.writing, False)
        threading.Thread(target=self._watch, name="mdf_loop interrupt", daemon=True).start()

    def _watch(self) -> None:
        while data := os.read(self._reading, 64):
            if signal.SIGINT in data:
                for run_options in list(self.running):
                    run_options.terminate = True


@functools.lru_cache(maxsize=1)
def _watcher(process: int) -> _Watcher:
    """The watcher of this process (a fork has none of its parent's threads)."""
    return _Watcher()


@contextlib.contextmanager
def interruptible(run_options: Any) -> Iterator[None]:
    """Let Ctrl-C set `run_options.terminate` inside the block (in the main thread only)."""
    if threading.current_thread() is not threading.main_thread() or os.name == "nt":
        yield
        return
    watcher = _watcher(os.getpid())
    old = signal.set_wakeup_fd(watcher.writing, warn_on_full_buffer=False)
    watcher.running.append(run_options)
    try:
        yield
    finally:
        watcher.running.remove(run_options)
        signal.set_wakeup_fd(old)
