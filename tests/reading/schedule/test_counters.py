"""Counters of conditions with known numbers; counters with unknown numbers are not evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.schedule.conditions import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Compare,
    EveryNth,
    FirstTimes,
    JustRan,
    Not,
    Reaches,
    RunCount,
    RunsSinceReader,
    TimeCount,
    TimeScale,
)
from mdf_loop.reading.schedule.counters import Counters, Key, NotKnown

CSE, PASS, UPDATE, SEQUENCE, LIFE = TimeScale


def _counters(keys: Iterable[Key], start: Any = 0) -> Counters:
    return Counters(ModelBuilder(), dict.fromkeys(keys, start))


def test_calls_are_counted_from_the_beginning_of_their_unit() -> None:
    keys = [RunCount("A", scale) for scale in TimeScale]
    counters = _counters(keys)
    counters.call("A", True)
    counters.call("B", True)
    counters.call("A", False)
    assert list(counters.counts.values()) == [1, 1, 1, 1, 1]
    counters.begin(PASS)
    assert list(counters.counts.values()) == [0, 0, 1, 1, 1]
    counters.begin(UPDATE)
    assert list(counters.counts.values()) == [0, 0, 0, 1, 1]


def test_a_run_of_the_reader_resets_the_unused_runs() -> None:
    unused, own = RunsSinceReader("A", "B"), RunsSinceReader("B", "B")
    counters = _counters([unused, own])
    counters.call("A", True)
    counters.call("A", True)
    assert counters.counts[unused] == 2
    counters.begin(PASS)
    counters.call("B", True)
    assert counters.counts == {unused: 0, own: 1}
    counters.call("A", True)
    counters.begin(UPDATE)
    assert counters.counts == {unused: 0, own: 0}


def test_time_counters_reset_with_the_longer_unit() -> None:
    keys = [TimeCount(CSE), TimeCount(PASS), TimeCount(PASS, SEQUENCE), TimeCount(UPDATE, SEQUENCE)]
    counters = _counters(keys)
    counters.pass_time(CSE, True)
    counters.pass_time(CSE, False)
    counters.pass_time(PASS, True)
    assert list(counters.counts.values()) == [1, 1, 1, 0]
    counters.pass_time(UPDATE, True)
    assert list(counters.counts.values()) == [0, 0, 1, 1]


def test_just_ran_holds_for_the_last_executed_set() -> None:
    key = JustRan("A")
    counters = _counters([key], False)
    counters.ran({"A": True, "B": False}, True)
    assert counters.holds(key) is True
    counters.ran({"A": False, "B": False}, False)
    assert counters.holds(key) is True, "nothing ran: the last set stays the last"
    counters.ran({}, True)
    assert counters.holds(key) is False


def test_composites_short_circuit() -> None:
    counted = FirstTimes(ALWAYS, 9, "here")
    counters = _counters([counted])
    assert counters.holds(AllOf((NEVER, counted))) is False
    assert counters.holds(AnyOf((ALWAYS, counted))) is True
    assert counters.holds(counted, False) is True
    assert counters.counts[counted] == 0
    assert counters.holds(AllOf((ALWAYS, counted))) is True
    assert counters.holds(AnyOf((NEVER, counted))) is True
    assert counters.counts[counted] == 2


def test_the_first_times_only() -> None:
    passes = TimeCount(PASS)
    counted = FirstTimes(EveryNth(passes, 2), 2, "here")
    counters = _counters([counted, passes])
    truths = []
    for _ in range(6):
        truths.append(counters.holds(counted))
        counters.pass_time(PASS, True)
    assert truths == [True, False, True, False, False, False]


def test_numbers_are_compared() -> None:
    keys = [RunCount("A"), RunCount("B")]
    counters = _counters(keys, 2)
    assert counters.holds(Compare(tuple(keys), ">=", 4)) is True
    assert counters.holds(Not(Compare(tuple(keys), "<", 4.5))) is False
    assert counters.holds(Compare((), ">=", 1)) is False


def test_unknown_counts_stay_unknown() -> None:
    calls = RunCount("A", LIFE)
    counters = _counters([calls], None)
    counters.call("A", True)
    assert counters.counts[calls] is None
    with pytest.raises(NotKnown):
        counters.holds(Compare((calls,), ">", 1))
    with pytest.raises(NotKnown):
        counters.holds(Reaches("A", "v", (), ">", 1.0))
    assert counters.holds(AnyOf((ALWAYS, Compare((calls,), ">", 1)))) is True


def test_values_are_counted_by_operations() -> None:
    calls = RunCount("A", LIFE)
    counters = _counters([calls])
    counters.counts[calls] = counters.b.new("int64", (), "calls")
    runs = counters.b.new("bool", (), "runs")
    counters.call("A", runs)
    assert isinstance(counters.holds(Compare((calls,), ">", 1)), Value)
    assert [type(op).__name__ for op in counters.b.ops].count("Op") == 3  # Cast, Add, Greater
