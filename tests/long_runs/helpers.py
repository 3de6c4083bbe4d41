"""One run in three ways: unbroken, in chunks of random lengths, and stopped or killed and resumed.

`unbroken` is one call of ONNX Runtime for all steps but the first, or for the whole evaluation. The
random choices of `chunked` and `resumed` depend only on their seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.ir import StopReason
from mdf_loop.run import single_run as once
from mdf_loop.run import time_session as over_time
from mdf_loop.run.control import checkpoint, chunks, progress
from tests.run.segment_running import same_bits

LENGTHS = (1, 1, 2, 3, 7, 50)
"""Chunks have at most so many steps."""

ENDLESS = 1 << 40
"""More steps than any run has."""


@dataclass(frozen=True)
class Case:
    """Model with its compile options and the arguments of `run`."""

    source: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def compiled(self) -> CompiledModel:
        """Compile the model anew, without state of earlier runs."""
        return mdf_loop.compile(self.source, device="cpu", **self.options)


# --- three ways to run ----------------------------------------------------------------------------


def unbroken(case: Case, compiled: CompiledModel | None = None) -> mdf_loop.Results:
    """Run the case without interruption."""
    with lengths(lambda: ENDLESS), patch.object(once, "MAX_WHOLE_SECONDS", 1e6):
        return (compiled or case.compiled()).run(**case.arguments)


def chunked(
    case: Case, seed: int, compiled: CompiledModel | None = None
) -> tuple[mdf_loop.Results, int]:
    """Run the case in chunks of random lengths and return the results with the number of chunks.

    Loops within one evaluation run in chunks, too.
    """
    reports: list[Any] = []
    rng = np.random.default_rng(seed)
    with lengths(_drawn(rng)), thinned_by_chance(rng), report_every_chunk():
        results = (compiled or case.compiled()).run(**case.arguments, progress=reports.append)
    return results, len(reports)


class Crash(BaseException):
    """Exception that simulates the death of the process."""


@dataclass
class Ends:
    """Number of interruptions of a run, by kind."""

    stopped: int = 0
    crashed: int = 0

    @property
    def all(self) -> int:
        """Number of all interruptions."""
        return self.stopped + self.crashed


def resumed(case: Case, seed: int, file: Path, most: int = 4) -> tuple[mdf_loop.Results, Ends]:
    """Run the case with at most `most` interruptions at random places, and resume each time.

    The resumed run uses the same `CompiledModel` or a new one, as in a new process. A run without a
    checkpoint begins anew.
    """
    rng = np.random.default_rng(seed)
    compiled = case.compiled()
    interruptions = Ends()
    file.unlink(missing_ok=True)
    while True:
        with (
            lengths(_drawn(rng)),
            thinned_by_chance(rng),
            saved_by_chance(rng),
            report_every_chunk(),
        ):
            ending = _Ending(rng) if interruptions.all < most else lambda _: None
            try:
                results = compiled.run(
                    **case.arguments, progress=ending, checkpoint=file, resume=file
                )
            except Crash:
                interruptions.crashed += 1
                continue
            finally:
                if interruptions.all == 0 or rng.random() < 0.2:  # compilation takes long
                    compiled = case.compiled()
        if results.stopped_by is not StopReason.INTERRUPTED:
            return results, interruptions
        interruptions.stopped += 1


class _Ending:
    """Progress callback that stops the run or raises `Crash` after some chunks."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.left = int(rng.integers(1, 5))
        self.dies = rng.random() < 0.5

    def __call__(self, _: Any) -> bool:
        self.left -= 1
        if self.left < 0 and self.dies:
            raise Crash
        return self.left >= 0


def _drawn(rng: np.random.Generator) -> Callable[[], int]:
    return lambda: int(rng.integers(1, rng.choice(LENGTHS) + 1))


# --- what is changed for it -----------------------------------------------------------------------


@contextmanager
def lengths(next_one: Callable[[], int]) -> Iterator[None]:
    """Set the lengths of the chunks to the return values of `next_one`."""

    class Lengths(chunks.ChunkLengths):
        def __init__(self) -> None:
            super().__init__()
            self.next_steps = next_one()

        def record_duration(self, steps: int, seconds: float, size: int) -> None:
            self.next_steps = next_one()

    with patch.object(chunks, "ChunkLengths", Lengths):
        yield


@contextmanager
def saved_by_chance(rng: np.random.Generator) -> Iterator[None]:
    """Write a checkpoint after about every second chunk."""
    with patch.object(checkpoint.Checkpoints, "due", lambda _: rng.random() < 0.5):
        yield


@contextmanager
def thinned_by_chance(rng: np.random.Generator) -> Iterator[None]:
    """Choose at random whether a run computes the rows that `every` does not record.

    By default a run computes these rows only if the rows are small.
    """
    with patch.object(
        over_time, "SMALL_ROW_BYTES", int(rng.choice([0, over_time.SMALL_ROW_BYTES]))
    ):
        yield


@contextmanager
def report_every_chunk() -> Iterator[None]:
    """Call the progress callback after each chunk, however short."""
    with patch.object(progress, "SAMPLE_SECONDS", 0.0):
        yield


# --- comparing ------------------------------------------------------------------------------------


def same_results(actual: mdf_loop.Results, expected: mdf_loop.Results) -> None:
    """Check that two results are equal bit for bit, with axes, lengths, states and loop reports."""
    assert list(actual) == list(expected)
    for name in expected:
        same_bits(_in_memory(actual[name]), expected[name], name)
    assert [axis.name for axis in actual.axes] == [axis.name for axis in expected.axes]
    for first, second in zip(actual.axes, expected.axes, strict=True):
        _same_arrays(first.coordinates, second.coordinates)
    _same_arrays(actual.lengths, expected.lengths)
    _same_arrays(actual.state, expected.state)
    assert actual.execution_list == expected.execution_list
    assert actual.loops == expected.loops
    for word in ("stopped_by", "reason", "reduced", "dtypes", "units", "device", "precision"):
        assert getattr(actual, word) == getattr(expected, word), word


def _in_memory(data: Any) -> Any:
    return data if data is None or isinstance(data, list) else np.asarray(data[...])


def _same_arrays(actual: Mapping[str, Any] | None, expected: Mapping[str, Any] | None) -> None:
    assert (actual is None) == (expected is None)
    if actual is not None and expected is not None:
        assert list(actual) == list(expected)
        for name in expected:
            same_bits(np.asarray(actual[name]), np.asarray(expected[name]), name)
