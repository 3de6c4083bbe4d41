"""Lengths of chunks, and the reuse of the lengths of an earlier run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdf_loop.run.control import chunks
from mdf_loop.run.control.stepper import Block, Cadence
from mdf_loop.run.control.stopping import Stopping

STEP = 2.0**-13
"""Seconds that a step takes: 163 take 20 ms."""


class Steps:
    """Stepper whose steps take a known time, with a value that can grow."""

    def __init__(self, cadence: Cadence, total: int, *, size: int = 8, grows: bool = False) -> None:
        self.cadence = cadence
        self.total = total
        self.size = size
        self.grows = grows
        self.done = 0
        self.seconds = 0.0
        self.lengths: list[int] = []

    @property
    def finished(self) -> bool:
        return self.done >= self.total

    @property
    def carried_bytes(self) -> int:
        return self.size + 8 * self.done * self.grows

    def advance(self, most: int, stopping: Any) -> Block:
        count = min(most, self.total - self.done)
        self.done += count
        self.seconds += count * STEP
        self.lengths.append(count)
        return Block(range(count), {"x": np.zeros(count)})


def chunk_lengths(
    monkeypatch: pytest.MonkeyPatch,
    cadence: Cadence,
    total: int,
    *,
    stepper_class: type[Steps] = Steps,
    **others: Any,
) -> list[int]:
    """Return the lengths of all chunks of a run."""
    stepper = stepper_class(cadence, total, **others)
    monkeypatch.setattr(chunks, "time", SimpleNamespace(perf_counter=lambda: stepper.seconds))
    with Stopping() as alone:
        list(chunks.Chunks(stepper, alone))  # type: ignore[arg-type]
    return stepper.lengths


@pytest.fixture
def cadence(monkeypatch: pytest.MonkeyPatch) -> Cadence:
    """Return the cadence of a run with settled chunk lengths: 163 steps take 20 ms."""
    settled = Cadence()
    assert chunk_lengths(monkeypatch, settled, 1000) == [1, 64, *[163] * 5, 120]
    return settled


def test_the_next_run_begins_with_half_the_chunk_length(
    monkeypatch: pytest.MonkeyPatch, cadence: Cadence
) -> None:
    assert cadence.steps == 81
    assert chunk_lengths(monkeypatch, cadence, 1000) == [1, 81, *[163] * 5, 103]


def test_short_runs_are_one_chunk_each_time(
    monkeypatch: pytest.MonkeyPatch, cadence: Cadence
) -> None:
    for _ in range(5):
        assert chunk_lengths(monkeypatch, cadence, 40) == [1, 39]
    assert chunk_lengths(monkeypatch, cadence, 1000)[:3] == [1, 81, 163]


def test_chunk_lengths_are_not_reused_for_other_sizes(
    monkeypatch: pytest.MonkeyPatch, cadence: Cadence
) -> None:
    assert chunk_lengths(monkeypatch, cadence, 1000, size=800)[:3] == [1, 64, 163]


class FirstStepComputesState(Steps):
    """Stepper whose carried values do not exist before the first step."""

    @property
    def carried_bytes(self) -> int | None:  # type: ignore[override]
        return self.size if self.done else None


def test_the_state_of_the_first_step_is_no_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    cadence = Cadence()
    first, second = (
        chunk_lengths(monkeypatch, cadence, 1000, stepper_class=FirstStepComputesState)
        for _ in range(2)
    )
    assert first == [1, 64, *[163] * 5, 120]
    assert second == [1, 81, *[163] * 5, 103]


def test_growing_values_restart_the_chunk_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    cadence = Cadence()
    first, second = (chunk_lengths(monkeypatch, cadence, 500, grows=True) for _ in range(2))
    assert first == second
    assert cadence.steps == 1
