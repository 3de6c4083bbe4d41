"""Choice of the device of a model: the requested device, or the faster one in timed runs.

The speed of a model on a device cannot be predicted, so it is measured. If CUDA is available, both
devices run the first call, and the faster device is used from then on.
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
from mdf_loop.run.device import UNDECIDED_DEVICE, Device
from mdf_loop.run.onnxruntime.device import DEVICES, PlacedModel, load_on_cpu, load_on_cuda
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers

MIN_CUDA_SPEEDUP = 1.1
"""Minimum speedup of CUDA over the CPU. Smaller differences are noise."""

CUDA_EXTRA_SECONDS = 2.0
"""Seconds that CUDA may take longer than the CPU, since its first run includes initialization."""

_MAX_TIMED_RUNS = 4
"""Maximum number of timed runs of the first call per device. The first run is a warm-up."""

_MAX_TIMED_SECONDS = 0.02
"""Total seconds of timed runs after which a device is not timed again."""

_CHECK_SECONDS = 0.005
"""Seconds between two checks of the time limit while CUDA computes."""


class Runner(Protocol):
    """Interface of a model that is loaded on a device (CPU or CUDA)."""

    @property
    def device(self) -> Device:
        """Device of the model, with the reason for its choice."""

    def run(
        self,
        output_names: Sequence[str],
        feeds: Mapping[str, Any],
        options: Any,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> list[Any]:
        """Compute the named outputs, and write outputs that have a buffer into their buffer.

        Setting `options.terminate` ends the run.
        """


def open_session(model: SessionModel, device: str, options: Any) -> Runner:
    """Load a model on the requested device, or on CPU and CUDA to measure the faster one.

    Raises:
        DeviceError: CUDA was requested but would not be used. The message has the reason.
    """
    if device not in DEVICES:
        raise DeviceError(f"there is no device '{device}'", hint="use auto, cpu or cuda")
    if device == "cpu":
        return load_on_cpu(model, options, "asked for")
    try:
        cuda_model = load_on_cuda(model, options)
    except DeviceError as error:
        problem = error.findings[0].what
        if device == "auto":
            return load_on_cpu(model, options, f"no CUDA: {problem}")
        raise DeviceError(
            f"CUDA was asked for, but {problem}",
            hint="use device='cpu' or 'auto', or install onnxruntime-gpu (see docs/gpu.md)",
        ) from None
    return cuda_model if device == "cuda" else Race(load_on_cpu(model, options, ""), cuda_model)


class Race:
    """Model loaded on both CPU and CUDA, until timed runs show which device is faster.

    The CPU runs first, and the CUDA run is terminated once it is clearly slower. A race therefore costs
    little more than a few runs on the CPU. Other threads wait for the end of the race.

    A run that fails decides nothing. If a run is stopped from outside during the CUDA run, the result is
    that of the CPU. A stop during CUDA's first run does not decide the race. A stop during the second does.
    """

    def __init__(self, cpu: PlacedModel, cuda: PlacedModel) -> None:
        self._candidate_models: tuple[PlacedModel, PlacedModel] | None = (cpu, cuda)
        self._winner: PlacedModel | None = None
        self._cuda_is_warm = False
        self._lock = ForkSafeLock()

    @property
    def device(self) -> Device:
        """Device of the model, with the reason, or `UNDECIDED_DEVICE` until timed runs decide."""
        return UNDECIDED_DEVICE if self._winner is None else self._winner.device

    def run(
        self,
        output_names: Sequence[str],
        feeds: Mapping[str, Any],
        options: Any,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> list[Any]:
        """Compute the outputs on the faster device, or on both devices to find the faster one."""
        winner = self._winner
        if winner is None:
            with self._lock:
                if self._candidate_models is not None:
                    return self._run_race(
                        *self._candidate_models, _ModelCall(output_names, feeds, options)
                    )
                winner = self._winner
                assert winner is not None
        return winner.run(output_names, feeds, options, buffers)

    def _run_race(self, cpu: PlacedModel, cuda: PlacedModel, model_call: _ModelCall) -> list[Any]:
        cpu_seconds, outputs = model_call.time_runs(cpu, min_runs=1)
        if model_call.is_ended:
            return outputs
        reason = f"cpu: {_format_seconds(cpu_seconds)} for the first piece of work"
        try:
            cuda_seconds, cuda_outputs = model_call.time_runs(
                cuda, min_runs=2 - self._cuda_is_warm, limit=cpu_seconds + CUDA_EXTRA_SECONDS
            )
        except _TimeExceeded as lost:
            if not model_call.is_ended or self._cuda_is_warm:
                self._set_winner(cpu, f"{reason}, cuda: {lost}")
            self._cuda_is_warm = True
            return outputs
        except Exception as error:  # noqa: BLE001 - the runtime raises exceptions of its own types
            message = (str(error).splitlines() or [type(error).__name__])[0]
            self._set_winner(cpu, f"{reason}, cuda: {message}")
            return outputs
        if cuda_seconds * MIN_CUDA_SPEEDUP > cpu_seconds:
            self._set_winner(cpu, f"{reason}, cuda: {_format_seconds(cuda_seconds)}")
            return outputs
        reason = f"cuda: {_format_seconds(cuda_seconds)} for the first piece of work, cpu: {_format_seconds(cpu_seconds)}"
        self._set_winner(cuda, f"{reason}; {cuda.device.reason}")
        return cuda_outputs

    def _set_winner(self, placed_model: PlacedModel, reason: str) -> None:
        self._winner = PlacedModel(placed_model.session, Device(placed_model.device.name, reason))
        self._candidate_models = None  # frees the memory of the slower device


class _TimeExceeded(Exception):  # noqa: N818 - not an error: CUDA is slower
    """Exception that a timed run took longer than its time limit."""


class _ModelCall(Struct, frozen=True):
    """Arguments of a call of a model, which may be repeated to measure its duration."""

    output_names: Sequence[str]
    feeds: Mapping[str, Any]
    options: Any

    @property
    def is_ended(self) -> bool:
        """True if the call was stopped from outside, for example by a signal."""
        return bool(self.options.terminate)

    def time_runs(
        self, placed_model: PlacedModel, *, min_runs: int, limit: float | None = None
    ) -> tuple[float, list[Any]]:
        """Repeat the call, and return the seconds of the fastest warm run, and the outputs.

        Long calls run `min_runs` times. A single run has no warm-up run before it.

        Raises:
            _TimeExceeded: With a limit, a run took longer than `limit` or was stopped from outside.
        """
        run_seconds: list[float] = []
        outputs: list[Any] = []
        while len(run_seconds) < min_runs or (
            len(run_seconds) < _MAX_TIMED_RUNS and sum(run_seconds) < _MAX_TIMED_SECONDS
        ):
            start_time = time.perf_counter()
            try:
                outputs = self._run_once(placed_model, limit)
            except Exception:
                if limit is None and run_seconds and self.is_ended:
                    break  # the outputs of the previous run are complete
                raise
            run_seconds.append(time.perf_counter() - start_time)
        return min(run_seconds[1:] or run_seconds), outputs

    def _run_once(self, placed_model: PlacedModel, limit: float | None) -> list[Any]:
        if limit is None:
            return placed_model.run(self.output_names, self.feeds, self.options)
        with self._limit_time(limit) as options:
            return placed_model.run(self.output_names, self.feeds, options)

    @contextlib.contextmanager
    def _limit_time(self, limit: float) -> Iterator[Any]:
        """Yield ONNX Runtime run options that terminate a run after `limit` seconds.

        The run also ends if the call's own options say so.
        """
        options, done_event, start_time = run_options(), threading.Event(), time.monotonic()

        def watch_for_end() -> None:
            while not (self.is_ended or time.monotonic() > start_time + limit):
                if done_event.wait(_CHECK_SECONDS):
                    return
            options.terminate = True

        watcher = threading.Thread(target=watch_for_end, name="mdf_loop race", daemon=True)
        watcher.start()
        try:
            yield options
        except Exception:
            if not options.terminate:
                raise
            message = f"ended from outside after {_format_seconds(time.monotonic() - start_time)}"
            raise _TimeExceeded(
                message if self.is_ended else f"more than {_format_seconds(limit)}"
            ) from None
        finally:
            done_event.set()
            watcher.join()


def _format_seconds(seconds: float) -> str:
    """Format a duration with three digits, such as `39 us`, `4.1 ms` or `2.3 s`."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
