"""Ctrl-C reaches a running model at once.

While ONNX Runtime computes, Python cannot run its signal handler. The interpreter's wake-up
descriptor is written to by the signal itself; a watcher reads it and tells the runtime to stop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def interruptible(run_options: Any) -> Iterator[None]:
    """Let Ctrl-C set `run_options.terminate` inside the block (in the main thread only)."""
    if threading.current_thread() is not threading.main_thread() or os.name == "nt":
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    old = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading, run_options), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old)
        os.close(writing)
        watcher.join()
        os.close(reading)


def _watch(reading: int, run_options: Any) -> None:
    """Stop the run at the first interrupt; end when the pipe is closed."""
    while data := os.read(reading, 64):
        if signal.SIGINT in data:
            run_options.terminate = True
