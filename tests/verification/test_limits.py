"""Limits of a comparison, of time and memory, in Python and on the command line."""

from __future__ import annotations

from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError, MemoryLimitError, RunError
from mdf_loop.ir import StopReason
from mdf_loop.verification import side_by_side
from mdf_loop.verification.limits import Limits

COUNTER: dict[str, Any] = {
    "m": {
        "graphs": {
            "g": {
                "nodes": {
                    "n": {
                        "parameters": {"x": {"default_initial_value": 0.0, "value": "x + 1"}},
                        "output_ports": {"y": {"value": "x"}},
                    }
                }
            }
        }
    }
}


@pytest.fixture
def three_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the engine time for three steps."""
    checks = iter([None] * 3)
    monkeypatch.setattr(Limits, "check_engine", lambda _: next(checks, StopReason.TIME_LIMIT))


def test_completed_steps_of_the_engine_are_compared(three_steps: None) -> None:
    verification = mdf_loop.verify(COUNTER, steps=10**12, time_limit="1h")
    assert verification.equal
    note = "the time limit of the comparison was over: 3 of 1000000000000 steps were compared"
    assert verification.notes[0] == note
    assert {comparison.name for comparison in verification.comparisons} >= {"n.y"}


def test_with_inputs_over_time_the_rest_is_not_compared(three_steps: None) -> None:
    node = COUNTER["m"]["graphs"]["g"]["nodes"]["n"]
    model = {"m": {"graphs": {"g": {"nodes": {"n": {**node, "input_ports": {"u": {}}}}}}}}
    verification = mdf_loop.verify(model, {"u": [0.5] * 6}, steps=6, time_limit=3600)
    assert verification.equal
    assert verification.notes[0].endswith("3 of 6 steps were compared")


def test_no_time_for_one_step() -> None:
    with pytest.raises(RunError, match="time limit of the comparison was over before the first"):
        mdf_loop.verify(COUNTER, steps=10**12, time_limit=1e-9)


def test_the_interpreter_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the interpreter tests its limits before each iteration."""
    monkeypatch.setattr(Limits, "remaining", property(lambda _: 0.0))
    with pytest.raises(RunError, match="time limit of the comparison"):
        Limits(1.0).check_interpreter()
    callbacks: list[Any] = []
    monkeypatch.setattr(
        side_by_side,
        "interpret",
        lambda *arguments: callbacks.append(arguments[2]) or (_ for _ in ()).throw(KeyError),
    )
    monkeypatch.setattr(Limits, "remaining", property(lambda _: None))
    with pytest.raises(KeyError):
        mdf_loop.verify(COUNTER)
    assert callbacks[0].__func__ is Limits.check_interpreter


def test_memory_of_the_engine() -> None:
    """Check the memory limit, because the engine stores all that it computes."""
    with pytest.raises(MemoryLimitError, match="the comparison took more memory than its limit"):
        mdf_loop.verify(COUNTER, steps=10**12, memory_limit="10MB")


def test_invalid_limits_are_refused() -> None:
    with pytest.raises(InputError, match="memory limit"):
        mdf_loop.verify(COUNTER, memory_limit="much")
    with pytest.raises(LoopError, match="time limit"):
        mdf_loop.verify(COUNTER, time_limit="long")
