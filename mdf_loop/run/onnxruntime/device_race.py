"""Choice of the device: the requested one, or the faster one.

Nothing in a model tells how fast a device is with it, so the two are measured: where CUDA can
really be used, both do the first piece of work, and the faster one keeps the model.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from mdf_loop.emit import SessionModel
from mdf_loop.errors import DeviceError
from mdf_loop.locks import ForkSafeLock
from mdf_loop.onnx_session import run_options
from mdf_loop.run.device import UNDECIDED, Device
from mdf_loop.run.onnxruntime.device import DEVICES, PlacedModel, on_cpu, on_cuda
from mdf_loop.run.room import NO_ROOM, Room

MARGIN = 1.1
"""CUDA has to be so many times faster than the CPU: below it is noise."""

PATIENCE = 2.0
"""Seconds that CUDA may take longer than the CPU: its first run starts much up."""

_RUNS = 4
"""So often the first piece of work is done on a device, if it is short; the first is to warm up."""

_SHORT = 0.02
"""Seconds; after so many a device does the first piece of work no more."""

_LOOKS = 0.005
"""Seconds from one look at the clock to the next, while CUDA is at work."""


class Runner(Protocol):
    """Interface of a model that is ready to run on some device."""

    @property
    def device(self) -> Device:
        """Device of the model, with the reason."""

    def run(
        self, names: Sequence[str], feeds: Mapping[str, Any], options: Any, room: Room = NO_ROOM
    ) -> list[Any]:
        """Return the outputs of these names, in `room` where possible. `options.terminate` ends the run."""


def open_session(model: SessionModel, device: str, options: Any) -> Runner:
    """Return the model on the requested device.

    Raises:
        DeviceError: CUDA was asked for and is not really used; the sentence says why.
    """
    if device not in DEVICES:
        raise DeviceError(f"there is no device '{device}'", hint="use auto, cpu or cuda")
    if device == "cpu":
        return on_cpu(model, options, "asked for")
    try:
        cuda = on_cuda(model, options)
    except DeviceError as error:
        problem = error.findings[0].what
        if device == "auto":
            return on_cpu(model, options, f"no CUDA: {problem}")
        raise DeviceError(
            f"CUDA was asked for, but {problem}",
            hint="use device='cpu' or 'auto', or install onnxruntime-gpu (see docs/gpu.md)",
        ) from None
    return cuda if device == "cuda" else Race(on_cpu(model, options, ""), cuda)


class Race:
    """Model on two devices, until a run has shown which one is faster.

    The CPU goes first, and CUDA is told to stop when it has clearly lost; so a race costs little
    more than a few runs on the CPU. Threads that come during the race wait for its end.

    A run that fails decides nothing. One that is ended from outside while CUDA is at work gives
    what the CPU has made; that CUDA's first run was ended is no loss yet, the second one is.
    """

    def __init__(self, cpu: PlacedModel, cuda: PlacedModel) -> None:
        self._starting: tuple[PlacedModel, PlacedModel] | None = (cpu, cuda)
        self._winner: PlacedModel | None = None
        self._cuda_is_warm = False
        self._lock = ForkSafeLock()

    @property
    def device(self) -> Device:
        """Device of the model, with the reason. `UNDECIDED` before the end of the race."""
        return UNDECIDED if self._winner is None else self._winner.device

    def run(
        self, names: Sequence[str], feeds: Mapping[str, Any], options: Any, room: Room = NO_ROOM
    ) -> list[Any]:
        """Return the outputs of these names from the device that won the race."""
        winner = self._winner
        if winner is None:
            with self._lock:
                if self._starting is not None:
                    return self._race(*self._starting, _Work(names, feeds, options))
                winner = self._winner
                assert winner is not None
        return winner.run(names, feeds, options, room)

    def _race(self, cpu: PlacedModel, cuda: PlacedModel, work: _Work) -> list[Any]:
        slow, outputs = work.timed(cpu, least=1)
        if work.is_ended:
            return outputs
        reason = f"cpu: {_text(slow)} for the first piece of work"
        try:
            fast, other = work.timed(cuda, least=2 - self._cuda_is_warm, limit=slow + PATIENCE)
        except _TooSlow as lost:
            if not work.is_ended or self._cuda_is_warm:
                self._take(cpu, f"{reason}, cuda: {lost}")
            self._cuda_is_warm = True
            return outputs
        except Exception as error:  # noqa: BLE001 - the runtime has errors of its own
            first = (str(error).splitlines() or [type(error).__name__])[0]
            self._take(cpu, f"{reason}, cuda: {first}")
            return outputs
        if fast * MARGIN > slow:
            self._take(cpu, f"{reason}, cuda: {_text(fast)}")
            return outputs
        reason = f"cuda: {_text(fast)} for the first piece of work, cpu: {_text(slow)}"
        self._take(cuda, f"{reason}; {cuda.device.reason}")
        return other

    def _take(self, placed: PlacedModel, reason: str) -> None:
        self._winner = PlacedModel(placed.session, Device(placed.device.name, reason))
        self._starting = None  # the loser's memory is free again


class _TooSlow(Exception):  # noqa: N818 - no error: the race is over
    """A run exceeded its time limit, which the text states."""


class _Work(Struct, frozen=True):
    """Repeatable piece of work."""

    names: Sequence[str]
    feeds: Mapping[str, Any]
    options: Any

    @property
    def is_ended(self) -> bool:
        """True if the work was ended from outside."""
        return bool(self.options.terminate)

    def timed(
        self, placed: PlacedModel, *, least: int, limit: float | None = None
    ) -> tuple[float, list[Any]]:
        """Return the duration of the fastest warm run in seconds, and its outputs.

        Work that takes long is done `least` times; once counts as it is.

        Raises:
            _TooSlow: a run took longer than `limit`, or was ended from outside, if there is a limit.
        """
        times: list[float] = []
        outputs: list[Any] = []
        while len(times) < least or (len(times) < _RUNS and sum(times) < _SHORT):
            start = time.perf_counter()
            try:
                outputs = self._done(placed, limit)
            except Exception:
                if limit is None and times and self.is_ended:
                    break  # what was made is complete
                raise
            times.append(time.perf_counter() - start)
        return min(times[1:] or times), outputs

    def _done(self, placed: PlacedModel, limit: float | None) -> list[Any]:
        if limit is None:
            return placed.run(self.names, self.feeds, self.options)
        with self._limited(limit) as own:
            return placed.run(self.names, self.feeds, own)

    @contextlib.contextmanager
    def _limited(self, limit: float) -> Iterator[Any]:
        """Yield options for a run that ends with the work, or after `limit` seconds."""
        own, done, begun = run_options(), threading.Event(), time.monotonic()

        def look() -> None:
            while not (self.is_ended or time.monotonic() > begun + limit):
                if done.wait(_LOOKS):
                    return
            own.terminate = True

        looking = threading.Thread(target=look, name="mdf_loop race", daemon=True)
        looking.start()
        try:
            yield own
        except Exception:
            if not own.terminate:
                raise
            after = f"ended from outside after {_text(time.monotonic() - begun)}"
            raise _TooSlow(after if self.is_ended else f"more than {_text(limit)}") from None
        finally:
            done.set()
            looking.join()


def _text(seconds: float) -> str:
    """Return a time in three digits: `39 us`, `4.1 ms`, `2.3 s`."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
