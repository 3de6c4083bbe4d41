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
    RunCount,
    RunsSinceReader,
    ThresholdCondition,
    TimeCount,
    TimeScale,
)
from mdf_loop.reading.schedule.counters import Counters, CountKey, UnknownCount

CSE, PASS, UPDATE, SEQUENCE, LIFE = TimeScale


def _counters(keys: Iterable[CountKey], start: Any = 0) -> Counters:
    return Counters(ModelBuilder(), dict.fromkeys(keys, start))


def test_calls_are_counted_from_the_beginning_of_their_unit() -> None:
    keys = [RunCount("A", scale) for scale in TimeScale]
    counters = _counters(keys)
    counters.count_run("A", True)
    counters.count_run("B", True)
    counters.count_run("A", False)
    assert list(counters.counts.values()) == [1, 1, 1, 1, 1]
    counters.begin_unit(PASS)
    assert list(counters.counts.values()) == [0, 0, 1, 1, 1]
    counters.begin_unit(UPDATE)
    assert list(counters.counts.values()) == [0, 0, 0, 1, 1]


def test_a_run_of_the_reader_resets_the_unused_runs() -> None:
    unused, own = RunsSinceReader("A", "B"), RunsSinceReader("B", "B")
    counters = _counters([unused, own])
    counters.count_run("A", True)
    counters.count_run("A", True)
    assert counters.counts[unused] == 2
    counters.begin_unit(PASS)
    counters.count_run("B", True)
    assert counters.counts == {unused: 0, own: 1}
    counters.count_run("A", True)
    counters.begin_unit(UPDATE)
    assert counters.counts == {unused: 0, own: 0}


def test_time_counters_reset_with_the_longer_unit() -> None:
    keys = [TimeCount(CSE), TimeCount(PASS), TimeCount(PASS, SEQUENCE), TimeCount(UPDATE, SEQUENCE)]
    counters = _counters(keys)
    counters.count_unit(CSE, True)
    counters.count_unit(CSE, False)
    counters.count_unit(PASS, True)
    assert list(counters.counts.values()) == [1, 1, 1, 0]
    counters.count_unit(UPDATE, True)
    assert list(counters.counts.values()) == [0, 0, 1, 1]


def test_just_ran_holds_for_the_last_executed_set() -> None:
    key = JustRan("A")
    counters = _counters([key], False)
    counters.record_set({"A": True, "B": False}, True)
    assert counters.evaluate(key) is True
    counters.record_set({"A": False, "B": False}, False)
    assert counters.evaluate(key) is True, "nothing ran: the last set stays the last"
    counters.record_set({}, True)
    assert counters.evaluate(key) is False


def test_composites_short_circuit() -> None:
    counted = FirstTimes(ALWAYS, 9, "here")
    counters = _counters([counted])
    assert counters.evaluate(AllOf((NEVER, counted))) is False
    assert counters.evaluate(AnyOf((ALWAYS, counted))) is True
    assert counters.evaluate(counted, False) is True
    assert counters.counts[counted] == 0
    assert counters.evaluate(AllOf((ALWAYS, counted))) is True
    assert counters.evaluate(AnyOf((NEVER, counted))) is True
    assert counters.counts[counted] == 2


def test_the_first_times_only() -> None:
    passes = TimeCount(PASS)
    counted = FirstTimes(EveryNth(passes, 2), 2, "here")
    counters = _counters([counted, passes])
    truths = []
    for _ in range(6):
        truths.append(counters.evaluate(counted))
        counters.count_unit(PASS, True)
    assert truths == [True, False, True, False, False, False]


def test_numbers_are_compared() -> None:
    keys = [RunCount("A"), RunCount("B")]
    counters = _counters(keys, 2)
    assert counters.evaluate(Compare(tuple(keys), ">=", 4)) is True
    assert counters.evaluate(Not(Compare(tuple(keys), "<", 4.5))) is False
    assert counters.evaluate(Compare((), ">=", 1)) is False


def test_unknown_counts_stay_unknown() -> None:
    calls = RunCount("A", LIFE)
    counters = _counters([calls], None)
    counters.count_run("A", True)
    assert counters.counts[calls] is None
    with pytest.raises(UnknownCount):
        counters.evaluate(Compare((calls,), ">", 1))
    with pytest.raises(UnknownCount):
        counters.evaluate(ThresholdCondition("A", "v", (), ">", 1.0))
    assert counters.evaluate(AnyOf((ALWAYS, Compare((calls,), ">", 1)))) is True


def test_values_are_counted_by_operations() -> None:
    calls = RunCount("A", LIFE)
    counters = _counters([calls])
    counters.counts[calls] = counters.b.new("int64", (), "calls")
    runs = counters.b.new("bool", (), "runs")
    counters.count_run("A", runs)
    assert isinstance(counters.evaluate(Compare((calls,), ">", 1)), Value)
    assert [type(op).__name__ for op in counters.b.ops].count("Op") == 3  # Cast, Add, Greater
