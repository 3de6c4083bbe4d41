"""Short runs start without handling of signals, memory limits and time limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.run import single_run
from mdf_loop.run.control.stopping import Stopping
from tests.models.loops import loop_model


def one_node() -> dict[str, Any]:
    node = {
        "input_ports": {"a": {"shape": [2], "type": "float64"}},
        "functions": {"f": {"value": "a * 2"}},
        "output_ports": {"y": {"value": "f"}},
    }
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}


A_LOOP = loop_model({"M": 3, "v_initial": "(1.0,)"}, {"x_next": "x + 1"}, carried="x")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Stopping]:
    """Return the list of the `Stopping` contexts entered during the test."""
    entered: list[Stopping] = []
    enter = Stopping.__enter__

    def noted(stopping: Stopping) -> Stopping:
        entered.append(stopping)
        return enter(stopping)

    monkeypatch.setattr(Stopping, "__enter__", noted)
    monkeypatch.setattr(single_run, "SIGNAL_FREE_SECONDS", 60.0)
    return entered


def calls_watched(watched: list[Stopping], model: Any, *calls: Mapping[str, Any]) -> list[bool]:
    """Return for each call True if the run was watched."""
    compiled = mdf_loop.compile(model)
    is_watched = []
    for words in calls:
        before = len(watched)
        compiled.run(**words)
        is_watched.append(len(watched) > before)
    return is_watched


GIVEN = {"inputs": {"a": np.array([1.0, 2.0])}}


def test_the_first_call_of_unknown_duration_is_watched(watched) -> None:
    assert calls_watched(watched, one_node(), GIVEN, GIVEN, GIVEN) == [True, False, False]


def test_calls_after_a_long_call_are_watched(watched, monkeypatch) -> None:
    monkeypatch.setattr(single_run, "SIGNAL_FREE_SECONDS", 0.0)
    assert calls_watched(watched, one_node(), GIVEN, GIVEN) == [True, True]


def test_calls_with_limits_are_watched(watched) -> None:
    limited = {**GIVEN, "time_limit": 9}
    assert calls_watched(watched, one_node(), GIVEN, limited, GIVEN) == [True, True, False]


def test_a_loop_is_watched(watched) -> None:
    assert calls_watched(watched, A_LOOP, {}, {}) == [True, True]


def test_both_ways_give_the_same() -> None:
    compiled = mdf_loop.compile(one_node())
    first, second = (compiled.run(**GIVEN)["y"] for _ in range(2))
    np.testing.assert_array_equal(first, second, strict=True)


# --- how long an evaluation is tried whole ---------------------------------------------------------


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time limits, in seconds, of the attempts to run an evaluation whole."""
    entered: list[float] = []
    enter = Stopping.__init__

    def noted(stopping: Stopping, time_limit: float | None = None, grace: float = 0.03) -> None:
        enter(stopping, time_limit, grace)
        if grace == 0.0 and time_limit is not None:
            entered.append(time_limit)

    monkeypatch.setattr(Stopping, "__init__", noted)
    return entered


def test_evaluations_in_segments_are_tried_whole_for_longer(attempts, monkeypatch) -> None:
    monkeypatch.setattr(single_run, "MAX_WHOLE_SECONDS", 5.0)
    monkeypatch.setattr(single_run, "MAX_KNOWN_WHOLE_SECONDS", 60.0)
    monkeypatch.setattr(single_run, "_compute_one_call_limit", lambda seconds: 7.0)
    compiled = mdf_loop.compile(A_LOOP)
    # The second evaluation runs in segments.
    runs = [compiled.run(), compiled.run(progress=lambda _: None)]
    runs += [compiled.run(), compiled.run(time_limit=9)]
    assert attempts == [5.0, 7.0, 5.0]
    for run in runs[1:]:
        for name in run:
            np.testing.assert_array_equal(run[name], runs[0][name], strict=True)


@pytest.mark.parametrize(("seconds", "patience"), [(0.01, 0.1), (0.2, 0.4), (0.9, 1.0), (1.5, 0.0)])
def test_a_long_evaluation_is_not_tried_whole_any_more(seconds, patience) -> None:
    assert single_run._compute_one_call_limit(seconds) == patience
