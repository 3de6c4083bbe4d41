"""Progress of a run: a bar on the terminal, or a callback.

    with reporting(None, total=10_000_000, done=0, unit="steps") as reporter:
        while done < total and reporter.update(done):
            done += chunk()

The time left is (total - done) / rate, with the rate of the last ten seconds of this run.
Nothing is ever written to stdout.
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

WINDOW = 10.0
"""Seconds of the run that tell the rate."""

SAMPLED = 0.1
"""Seconds between two samples for the rate, and between two calls of a callback at least."""

APPEARS = 0.1
"""Seconds after the start when the bar appears; a run that is over by then shows nothing."""

REFRESHED = 0.2
"""Seconds between two pictures of the bar."""

PARTING = 1.0
"""Seconds that the end of a run waits for its last picture: a terminal may hang for hours."""

_THE_LINE = ForkSafeLock()
"""Held by the bar that is on the terminal: two would overwrite each other."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run: `done` of `total` steps (or iterations), and the remaining seconds.

    `total` is None where a condition decides; `remaining` is None without a total and before
    anything is known.  `done` counts from the start of the whole run, `elapsed` and
    `remaining` are seconds of this process: after a resume the clock starts anew.
    """

    done: int
    total: int | None
    unit: str
    elapsed: float
    remaining: float | None

    def __str__(self) -> str:
        of_total = "" if self.total is None else f" of {self.total}"
        left = f", {as_text(math.ceil(self.remaining))} left" if self.remaining else ""
        return f"{self.done}{of_total} {self.unit}, {as_text(round(self.elapsed))}{left}"


class Reporter(Protocol):
    """Is told after each chunk how far the run is."""

    def update(self, done: int, remark: str = "") -> bool:
        """Report `done` steps, with a remark for a bar. Return False if the run has to stop."""


Callback = Callable[[Progress], object]


def reporting(
    progress: bool | Callback | None, total: int | None, done: int, unit: str, name: str = ""
) -> AbstractContextManager[Reporter]:
    """Report a run of `total` steps that starts with `done` of them done before.

    True is a bar on stderr, None is one if stderr is a terminal, False is silence.  A function
    is called with a `Progress` at the start, then at most every 0.1 s, and at the end; if it
    returns False the run shall stop.  `name` (of the model) stands before the bar.
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(
            f"progress cannot be {progress!r}",
            hint="give True, False, None (a bar if stderr is a terminal) or a function",
        )
    if callable(progress):
        return _CallbackReporter(progress, Pace(total, done, unit, perf_counter()))
    if sys.stderr is not None and (progress or (progress is None and _on_a_terminal())):
        return _Bar(name, Pace(total, done, unit, perf_counter()))
    return _SilentReporter()


class Pace:
    """The rate of a run, from samples of the last `WINDOW` seconds, and the time left.

    Between two samples the time left ticks down, but by no more than the latest steps should
    take: where a step hangs, so does the estimate.
    """

    def __init__(self, total: int | None, done: int, unit: str, now: float) -> None:
        self.total = total
        self.unit = unit
        self.done = done
        self._began = (now, done)
        self._samples = deque([self._began])
        self.rate: float | None = None  # steps in a second, of late
        self._left: tuple[float, float, float] | None = None  # seconds, as of when, at least

    def note(self, done: int, now: float) -> bool:
        """Note that `done` steps are done; whether this was a sample."""
        self.done = done
        samples = self._samples
        if now - samples[-1][0] < SAMPLED:
            return False
        latest = done - samples[-1][1]
        samples.append((now, done))
        if len(samples) > 2 and samples[0] is self._began:
            samples.popleft()  # the first steps make the model ready, too
        while len(samples) > 2 and samples[1][0] <= now - WINDOW:
            samples.popleft()
        rate = (done - samples[0][1]) / (now - samples[0][0])
        if rate > 0:
            self.rate = rate
            if self.total is not None:
                left = self.total - done
                self._left = (left / rate, now, max(left - latest, 0) / rate)
        return True

    def progress(self, now: float) -> Progress:
        """Return the progress of the run at the time `now`."""
        return Progress(
            self.done, self.total, self.unit, now - self._began[0], self._remaining(now)
        )

    def mean_rate(self, now: float) -> float | None:
        """Return the mean number of steps per second since the start of this run."""
        began, before = self._began
        return (self.done - before) / (now - began) if now > began else None

    def _remaining(self, now: float) -> float | None:
        if self.total is not None and self.done >= self.total:
            return 0.0
        if self._left is None:
            return None
        seconds, noted, at_least = self._left
        return max(seconds - (now - noted), at_least)


class _SilentReporter(AbstractContextManager["_SilentReporter"]):
    """Shows nothing."""

    def update(self, done: int, remark: str = "") -> bool:
        return True

    def __exit__(self, *error: object) -> None:
        return None


class _CallbackReporter(AbstractContextManager["_CallbackReporter"]):
    """Calls a function, in the thread of the run."""

    def __init__(self, callback: Callback, pace: Pace) -> None:
        self._callback = callback
        self._pace = pace
        self._last_reported: int | None = None
        self._may_go_on = True

    def __enter__(self) -> _CallbackReporter:
        self._tell(perf_counter())
        return self

    def update(self, done: int, remark: str = "") -> bool:
        now = perf_counter()
        if self._pace.note(done, now):
            self._tell(now)
        return self._may_go_on

    def __exit__(self, error: object, *rest: object) -> None:
        if error is None and self._last_reported != self._pace.done:
            self._tell(perf_counter())

    def _tell(self, now: float) -> None:
        self._last_reported = self._pace.done
        if self._callback(self._pace.progress(now)) is False:
            self._may_go_on = False


class _Bar(AbstractContextManager["_Bar"]):
    """A line on stderr that a thread of its own keeps up to date.

    So it is there, with its clock ticking, while the first step of a slow model computes.
    When the run ends the line stays, if there is one by then.  Of runs at the same time in
    several threads one has the line, the others are silent.
    """

    def __init__(self, name: str, pace: Pace) -> None:
        self._name = name
        self._pace = pace
        self._remark = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="mdf-loop progress", daemon=True)

    def __enter__(self) -> _Bar:
        self._thread.start()
        return self

    def update(self, done: int, remark: str = "") -> bool:
        self._pace.note(done, perf_counter())
        self._remark = remark
        return True

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        try:
            self._thread.join(PARTING)
        except KeyboardInterrupt:
            self._thread.join(PARTING)  # it ends in a moment, and gives the cursor back
            raise

    def _show(self) -> None:
        if self._ended.wait(APPEARS) or not _THE_LINE.acquire(blocking=False):
            return
        try:
            with suppress(OSError, ValueError):  # the terminal has gone: the run goes on
                self._draw()
        finally:
            _THE_LINE.release()

    def _draw(self) -> None:
        line = _line(self._pace.total, bool(self._name))
        task = line.add_task(escape_to_one_line(self._name), total=self._pace.total)
        line.update(task, **self._picture(ended=False))
        if self._ended.is_set():
            return
        with line:
            while not self._ended.wait(REFRESHED):
                line.update(task, refresh=True, **self._picture(ended=False))
            line.update(task, **self._picture(ended=True))

    def _picture(self, *, ended: bool) -> dict[str, Any]:
        """Return the content of the columns of the line. At the end, the rate is that of the whole run."""
        now = perf_counter()
        progress = self._pace.progress(now)
        rate = self._pace.mean_rate(now) if ended else self._pace.rate
        left = None if ended else progress.remaining
        total = progress.total
        return {
            "completed": progress.done,
            "percent": "" if not total else f"{100 * progress.done // total}%",
            "counts": f"{progress.done}{'' if total is None else f'/{total}'} {progress.unit}",
            "remark": self._remark,
            "rate": f"{_three_digits(rate)} {progress.unit}/s" if rate else "",
            "elapsed": as_text(round(progress.elapsed)),
            "left": f"ETA {as_text(math.ceil(left))}" if left else "",
        }


def _line(total: int | None, named: bool) -> rich.progress.Progress:
    """Return an empty line. rich is imported here, since most runs end before they need it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    def text(template: str) -> TextColumn:
        return TextColumn(f"{{task.{template}}}", markup=False)

    bar = (BarColumn(None, table_column=Column(ratio=1)), text("fields[percent]"))
    return Progress(
        *([text("description")] if named else []),
        *([SpinnerColumn("line")] if total is None else bar),
        *(text(f"fields[{field}]") for field in ("counts", "rate", "elapsed", "left", "remark")),
        console=Console(stderr=True, force_terminal=True, force_jupyter=False),
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        expand=total is not None,
    )


def _three_digits(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def _on_a_terminal() -> bool:
    """Return True if stderr is a terminal (a notebook is none)."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() and getattr(shell, "kernel", None) is None
