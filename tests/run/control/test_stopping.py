"""Signals and time limits: which run a signal stops, and when a time limit is over."""

from __future__ import annotations

import math
import signal
import time

import pytest

from mdf_loop.ir import StopReason
from mdf_loop.run.control.stopping import Stopping


def _wait_for(stopping: Stopping, seconds: float = 5.0) -> StopReason | None:
    end = time.monotonic() + seconds
    while stopping.reason is None and time.monotonic() < end:
        time.sleep(0.0005)
    return stopping.reason


def test_a_signal_is_for_the_run_in_which_it_came() -> None:
    for _ in range(100):
        with Stopping() as first:
            signal.raise_signal(signal.SIGINT)
        with Stopping() as second:
            time.sleep(0.0005)
        assert first.reason is StopReason.INTERRUPTED
        assert second.reason is None


def test_a_signal_within_another_run_is_for_both() -> None:
    with Stopping() as outer:
        with Stopping() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.reason is StopReason.INTERRUPTED
        assert _wait_for(outer) is StopReason.INTERRUPTED


def test_a_signal_after_the_time_limit_is_noted() -> None:
    with Stopping(0.0) as stopping:
        assert _wait_for(stopping) is StopReason.TIME_LIMIT
        assert stopping.received_signal is None
        signal.raise_signal(signal.SIGINT)
    assert stopping.received_signal is StopReason.INTERRUPTED
    assert stopping.reason is StopReason.TIME_LIMIT


@pytest.mark.parametrize("limit", [1e12, 2.0**70, 1e300, math.inf])
def test_a_time_limit_holds_after_a_run_with_an_endless_one(limit: float) -> None:
    with Stopping(limit) as stopping:
        assert _wait_for(stopping, 0.05) is None
        with Stopping(0.01) as inner:
            assert _wait_for(inner) is StopReason.TIME_LIMIT


def test_a_time_limit_holds_after_many_short_runs_with_longer_ones() -> None:
    for _ in range(200):
        with Stopping(10.0):
            pass
    with Stopping(10.0), Stopping(0.01) as stopping:
        assert _wait_for(stopping) is StopReason.TIME_LIMIT
