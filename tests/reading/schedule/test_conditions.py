"""Scheduler conditions as data classes."""

from __future__ import annotations

from mdf_loop.reading.schedule.conditions import (
    ALWAYS,
    AllOf,
    AnyOf,
    Compare,
    EveryNth,
    FirstTimes,
    JustRan,
    Not,
    RunCount,
    RunsSinceReader,
    TimeCount,
    TimeScale,
    find_counts,
    find_parts,
    iterate_parts,
)

CALLS = RunCount("A", TimeScale.LIFE)
PASSES = TimeCount(TimeScale.PASS)
SOME = Compare((CALLS, RunsSinceReader("A", "B")), ">=", 2)
TREE = AllOf((ALWAYS, Not(AnyOf((SOME, JustRan("A")))), FirstTimes(EveryNth(PASSES, 2), 3, "here")))


def test_parts_are_in_preorder() -> None:
    assert [type(part).__name__ for part in iterate_parts(TREE)] == [
        *(
            "AllOf",
            "ConstantCondition",
            "Not",
            "AnyOf",
            "Compare",
            "JustRan",
            "FirstTimes",
            "EveryNth",
        ),
    ]


def test_counts_are_found_everywhere_each_once() -> None:
    assert find_counts(AllOf((TREE, SOME))) == (CALLS, RunsSinceReader("A", "B"), PASSES)
    assert find_parts((TREE, TREE), JustRan) == (JustRan("A"),)


def test_persistent_counters() -> None:
    assert CALLS.persists
    assert not RunCount("A").persists
    assert not PASSES.persists
    assert TimeCount(TimeScale.PASS, TimeScale.ENVIRONMENT_SEQUENCE).persists
    assert not RunsSinceReader("A", "B").persists


def test_counters_have_distinct_names() -> None:
    """Check that the counters kept between evaluations have distinct names."""
    assert str(CALLS) == "runs of A in life"
    assert str(RunCount("A")) == "runs of A in environment state update"
    assert str(RunsSinceReader("A", "B")) == "runs of A not used by B"
    assert str(PASSES) == "number of pass in environment state update"
    assert str(FirstTimes(ALWAYS, 3, "here")) == "times found at here"
    assert str(JustRan("A")) == "A just ran"
