"""Conversion of MDF's conditions to data; tests/over_time compares the effect with the engine."""

from __future__ import annotations

from typing import Any

import pytest

from mdf_loop.errors import ConditionError, UnknownNameError, UnsupportedError
from mdf_loop.reading.schedule.arguments import type_and_arguments
from mdf_loop.reading.schedule.conditions import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    ConstantCondition,
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
from mdf_loop.reading.schedule.table import read_condition


def _read(type_: str, owner: str | None = "B", **kwargs: Any) -> Condition:
    return read_condition({"type": type_, "kwargs": kwargs}, owner, "here", "AB", lambda w: NEVER)


LIFE, SEQUENCE = TimeScale.LIFE, TimeScale.ENVIRONMENT_SEQUENCE
UPDATE, PASS = TimeScale.ENVIRONMENT_STATE_UPDATE, TimeScale.PASS


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        (_read("Always"), ALWAYS),
        (_read("AfterPass", n=2), Compare((TimeCount(PASS),), ">", 2)),
        (_read("AtPass", n=2.0), Compare((TimeCount(PASS),), "==", 2)),
        (_read("AfterPass", n=0.5), Compare((TimeCount(PASS),), ">", 0.5)),
        (_read("AtEnvironmentStateUpdate", n=1), Compare((TimeCount(UPDATE, SEQUENCE),), "==", 1)),
        (_read("EveryNPasses", n=3), EveryNth(TimeCount(PASS), 3)),
        (_read("AfterNCalls", dependency="A", n=1), Compare((RunCount("A"),), ">=", 1)),
        (_read("EveryNCalls", dependency="A", n=2), Compare((RunsSinceReader("A", "B"),), ">=", 2)),
        (_read("AllHaveRun"), AllOf(tuple(Compare((RunCount(n),), ">=", 1) for n in "AB"))),
        (_read("AfterNCallsCombined", n=1), Compare((), ">=", 1)),
        (_read("JustRan", node="A"), JustRan("A")),
        (_read("AtEnvironmentSequence", n=0), ConstantCondition(True)),
        (_read("AfterNEnvironmentSequences", n=1), ConstantCondition(False)),
        (_read("Not", condition={"type": "Never"}), Not(NEVER)),
        (_read("Any", args=[{"type": "Never"}]), AnyOf((NEVER,))),
        (_read("NWhen", condition={"type": "Always"}, n=1.5), FirstTimes(ALWAYS, 2, "here")),
        (
            _read("Threshold", dependency="A", parameter="v", threshold=1, comparator=">"),
            ThresholdCondition("A", "v", (), ">", 1.0, where="here"),
        ),
    ],
)
def test_types_are_lowered_to_basic_conditions(read: Condition, meant: Condition) -> None:
    assert read == meant


@pytest.mark.parametrize("written", ["TimeScale.LIFE", "LIFE", "life", TimeScale.LIFE])
def test_time_scales(written: Any) -> None:
    assert _read("AfterPass", n=1, time_scale=written) == Compare((TimeCount(PASS, LIFE),), ">", 1)


def test_a_unit_within_a_shorter_one_is_counted_for_life() -> None:
    """Check that a time unit inside a shorter unit is never reset, as in graph-scheduler."""
    read = _read("AtPass", n=1, time_scale="TimeScale.CONSIDERATION_SET_EXECUTION")
    assert read == Compare((TimeCount(PASS, LIFE),), "==", 1)


@pytest.mark.parametrize("number", [None, True, "1", [1], float("nan"), float("inf")])
def test_invalid_numbers_are_refused(number: Any) -> None:
    with pytest.raises(ConditionError, match="'n'"):
        _read("AtPass", n=number)


def test_invalid_conditions_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="names 'C', which is not a node"):
        _read("JustRan", dependency="C")
    with pytest.raises(ConditionError, match="no scheduler condition 'Allways'"):
        _read("Allways")
    with pytest.raises(ConditionError, match="cannot end an evaluation"):
        _read("EveryNCalls", owner=None, dependency="A", n=1)
    with pytest.raises(UnsupportedError, match="'While' cannot be compiled"):
        _read("While", func="f")
    with pytest.raises(ConditionError, match="counts within a pass"):
        _read("AtConsiderationSetExecution", n=1, time_scale="TimeScale.PASS")


def test_a_condition_is_a_mapping_or_an_object() -> None:
    from modeci_mdf.mdf import Condition as MdfCondition

    assert type_and_arguments({"type": "AtPass", "kwargs": {"n": 1}}) == ("AtPass", {"n": 1})
    assert type_and_arguments(MdfCondition("AtPass", n=1)) == ("AtPass", {"n": 1})
    with pytest.raises(ConditionError, match="a condition is written as"):
        read_condition(3, "A", "here", "A", lambda w: NEVER)
