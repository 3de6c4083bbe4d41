"""Progress display of a run: a bar on the terminal, or calls of a user's function.

    with open_reporter(None, total=10_000_000, done=0, unit="steps") as reporter:
        while done < total and reporter.update(done):
            done += chunk()

The remaining time is (total - done) / rate. The rate is that of the last ten seconds of this run.
No output is ever written to stdout.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from mdf_loop.durations import as_text
from mdf_loop.errors import InputError
from mdf_loop.locks import ForkSafeLock
from mdf_loop.text_escaping import escape_to_one_line

if TYPE_CHECKING:
    import rich.progress

RATE_WINDOW_SECONDS = 10.0
"""Seconds over which the rate is averaged."""

SAMPLE_SECONDS = 0.1
"""Minimum seconds between two samples of the rate, and between two calls of a callback."""

BAR_DELAY_SECONDS = 0.1
"""Delay in seconds before the bar appears. A shorter run shows no bar."""

BAR_REFRESH_SECONDS = 0.2
"""Seconds between two updates of the bar."""

BAR_CLOSE_SECONDS = 1.0
"""Maximum seconds to wait for the last update of the bar: writing to a terminal can block for hours."""

_BAR_LOCK = ForkSafeLock()
"""Lock of the bar on the terminal, since two bars would overwrite each other."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run: completed and total steps, elapsed and remaining seconds.

    `total` is None if a condition ends the run. `remaining` is None without a total and before the first
    estimate. `done` counts from the start of the whole run. `elapsed` and `remaining` count the seconds of
    this process, so `elapsed` restarts at 0 after a resume.
    """

    done: int
    total: int | None
    unit: str
    elapsed: float
    remaining: float | None

    def __str__(self) -> str:
        total_text = "" if self.total is None else f" of {self.total}"
        remaining_text = f", {as_text(math.ceil(self.remaining))} left" if self.remaining else ""
        return (
            f"{self.done}{total_text} {self.unit}, {as_text(round(self.elapsed))}{remaining_text}"
        )


class Reporter(Protocol):
    """Interface of an object that displays the progress of a run."""

    def update(self, done: int, remark: str = "") -> bool:
        """Report `done` completed steps, and return False if the run must stop.

        A bar shows `remark`.
        """


Callback = Callable[[Progress], object]


def open_reporter(
    progress: bool | Callback | None, total: int | None, done: int, unit: str, name: str = ""
) -> AbstractContextManager[Reporter]:
    """Return a reporter of the progress of a run, as a context manager.

    True shows a bar on stderr, None shows a bar if stderr is a terminal, False shows nothing. A function
    is called with a `Progress` at the start, then at most every 0.1 s, and at the end. If the function
    returns False, the run stops. `name` (of the model) precedes the bar.
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(
            f"progress cannot be {progress!r}",
            hint="give True, False, None (a bar if stderr is a terminal) or a function",
        )
    if callable(progress):
        return _CallbackReporter(progress, Pace(total, done, unit, perf_counter()))
    if sys.stderr is not None and (progress or (progress is None and _is_terminal())):
        return _Bar(name, Pace(total, done, unit, perf_counter()))
    return _SilentReporter()


class Pace:
    """Estimator of the speed (steps per second) and remaining time of a run.

    Between two samples, the remaining time decreases with the clock, but by no more than the expected time of
    the latest steps: if a step hangs, the estimate stops.
    """

    def __init__(self, total: int | None, done: int, unit: str, now: float) -> None:
        self.total = total
        self.unit = unit
        self.done = done
        self._start_sample = (now, done)
        self._samples = deque([self._start_sample])
        self.rate: float | None = None  # recent steps per second
        self._remaining_estimate: tuple[float, float, float] | None = (
            None  # seconds left, time of estimate, minimum
        )

    def note(self, done: int, now: float) -> bool:
        """Record the number of completed steps, and return True if the speed estimate changed."""
        self.done = done
        samples = self._samples
        if now - samples[-1][0] < SAMPLE_SECONDS:
            return False
        new_steps = done - samples[-1][1]
        samples.append((now, done))
        if len(samples) > 2 and samples[0] is self._start_sample:
            samples.popleft()  # the first sample includes the preparation of the model
        while len(samples) > 2 and samples[1][0] <= now - RATE_WINDOW_SECONDS:
            samples.popleft()
        rate = (done - samples[0][1]) / (now - samples[0][0])
        if rate > 0:
            self.rate = rate
            if self.total is not None:
                remaining_steps = self.total - done
                self._remaining_estimate = (
                    remaining_steps / rate,
                    now,
                    max(remaining_steps - new_steps, 0) / rate,
                )
        return True

    def progress(self, now: float) -> Progress:
        """Return the progress of the run at time `now`."""
        return Progress(
            self.done, self.total, self.unit, now - self._start_sample[0], self._remaining(now)
        )

    def mean_rate(self, now: float) -> float | None:
        """Return the mean speed since the start in steps per second, or None at the start."""
        start_time, start_steps = self._start_sample
        return (self.done - start_steps) / (now - start_time) if now > start_time else None

    def _remaining(self, now: float) -> float | None:
        if self.total is not None and self.done >= self.total:
            return 0.0
        if self._remaining_estimate is None:
            return None
        remaining_seconds, estimate_time, min_seconds = self._remaining_estimate
        return max(remaining_seconds - (now - estimate_time), min_seconds)


class _SilentReporter(AbstractContextManager["_SilentReporter"]):
    """Reporter of progress that shows nothing."""

    def update(self, done: int, remark: str = "") -> bool:
        return True

    def __exit__(self, *error: object) -> None:
        return None


class _CallbackReporter(AbstractContextManager["_CallbackReporter"]):
    """Reporter of progress that calls a user's function in the thread of the run."""

    def __init__(self, callback: Callback, pace: Pace) -> None:
        self._callback = callback
        self._pace = pace
        self._last_reported_steps: int | None = None
        self._may_continue = True

    def __enter__(self) -> _CallbackReporter:
        self._call_callback(perf_counter())
        return self

    def update(self, done: int, remark: str = "") -> bool:
        now = perf_counter()
        if self._pace.note(done, now):
            self._call_callback(now)
        return self._may_continue

    def __exit__(self, error: object, *rest: object) -> None:
        if error is None and self._last_reported_steps != self._pace.done:
            self._call_callback(perf_counter())

    def _call_callback(self, now: float) -> None:
        self._last_reported_steps = self._pace.done
        if self._callback(self._pace.progress(now)) is False:
            self._may_continue = False


class _Bar(AbstractContextManager["_Bar"]):
    """Progress bar on stderr, updated by a separate thread.

    The bar and its clock run while the first step of a slow model computes. When the run ends, a visible
    bar remains on the terminal. If several threads run models at the same time, only one of them shows
    a bar.
    """

    def __init__(self, name: str, pace: Pace) -> None:
        self._name = name
        self._pace = pace
        self._remark = ""
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="mdf-loop progress", daemon=True)

    def __enter__(self) -> _Bar:
        self._thread.start()
        return self

    def update(self, done: int, remark: str = "") -> bool:
        self._pace.note(done, perf_counter())
        self._remark = remark
        return True

    def __exit__(self, *error: object) -> None:
        self._has_ended.set()
        try:
            self._thread.join(BAR_CLOSE_SECONDS)
        except KeyboardInterrupt:
            self._thread.join(BAR_CLOSE_SECONDS)  # the thread ends soon and restores the cursor
            raise

    def _show(self) -> None:
        if self._has_ended.wait(BAR_DELAY_SECONDS) or not _BAR_LOCK.acquire(blocking=False):
            return
        try:
            with suppress(OSError, ValueError):  # the terminal was closed: the run continues
                self._draw()
        finally:
            _BAR_LOCK.release()

    def _draw(self) -> None:
        bar = _make_bar(self._pace.total, bool(self._name))
        task_id = bar.add_task(escape_to_one_line(self._name), total=self._pace.total)
        bar.update(task_id, **self._column_fields(ended=False))
        if self._has_ended.is_set():
            return
        with bar:
            while not self._has_ended.wait(BAR_REFRESH_SECONDS):
                bar.update(task_id, refresh=True, **self._column_fields(ended=False))
            bar.update(task_id, **self._column_fields(ended=True))

    def _column_fields(self, *, ended: bool) -> dict[str, Any]:
        """Return the values that the progress bar shows.

        At the end, the speed is the mean of the whole run.
        """
        now = perf_counter()
        progress = self._pace.progress(now)
        rate = self._pace.mean_rate(now) if ended else self._pace.rate
        remaining_seconds = None if ended else progress.remaining
        total = progress.total
        return {
            "completed": progress.done,
            "percent": "" if not total else f"{100 * progress.done // total}%",
            "counts": f"{progress.done}{'' if total is None else f'/{total}'} {progress.unit}",
            "remark": self._remark,
            "rate": f"{_format_rate(rate)} {progress.unit}/s" if rate else "",
            "elapsed": as_text(round(progress.elapsed)),
            "left": f"ETA {as_text(math.ceil(remaining_seconds))}" if remaining_seconds else "",
        }


def _make_bar(total: int | None, has_name: bool) -> rich.progress.Progress:
    """Create a progress bar.

    rich is imported here, since most runs end before the bar appears.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    def text(template: str) -> TextColumn:
        return TextColumn(f"{{task.{template}}}", markup=False)

    bar_columns = (BarColumn(None, table_column=Column(ratio=1)), text("fields[percent]"))
    return Progress(
        *([text("description")] if has_name else []),
        *([SpinnerColumn("line")] if total is None else bar_columns),
        *(text(f"fields[{field}]") for field in ("counts", "rate", "elapsed", "left", "remark")),
        console=Console(stderr=True, force_terminal=True, force_jupyter=False),
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        expand=total is not None,
    )


def _format_rate(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def _is_terminal() -> bool:
    """Return True if stderr is a terminal and the program is not a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() and getattr(shell, "kernel", None) is None
