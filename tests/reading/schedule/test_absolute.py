"""Conversion of absolute times to numbers of visits; tests/over_time compares the effect with the engine."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from mdf_loop.errors import ConditionError, UnsupportedError
from mdf_loop.reading.schedule.absolute import AbsoluteTime, create_clock
from mdf_loop.reading.schedule.conditions import (
    AllOf,
    Compare,
    Condition,
    ConstantCondition,
    EveryNth,
    TimeCount,
    TimeScale,
)
from mdf_loop.reading.schedule.table import read_condition
from mdf_loop.reading.schedule.written import WrittenCondition

VISITS = TimeCount(TimeScale.CONSIDERATION_SET_EXECUTION, TimeScale.LIFE)


def _clock(layers: list[str], *written: dict[str, Any]) -> AbsoluteTime:
    conditions = [({"type": "TimeInterval", "kwargs": each}, "here") for each in written]
    return create_clock(conditions, [tuple(layer) for layer in layers])


def _read(clock: AbsoluteTime, owner: str, kind: str = "TimeInterval", **written: Any) -> Condition:
    return clock.convert(
        WrittenCondition(
            owner, "here", "AB", clock.convert, read_condition, type=kind, arguments=written
        )
    )


def test_no_absolute_condition_no_clock() -> None:
    assert not create_clock([({"type": "Always"}, "here")], [("A",)]).is_used


def test_an_interval_is_divided_among_layers() -> None:
    clock = _clock(["A", "B"], {"repeat": 2}, {"repeat": 3})
    assert (clock.first_visit_time, clock.visit_interval) == (0, Fraction(1, 2))
    assert _read(clock, "A", repeat=2) == EveryNth(VISITS, 4, 0)
    assert _read(clock, "B", repeat=3) == EveryNth(VISITS, 6, 1)


def test_time_starts_with_the_first_of_all_points() -> None:
    clock = _clock(["A"], {"start": 4}, {"start": 3, "end": 9})
    assert (clock.first_visit_time, clock.visit_interval) == (3, 1)
    assert _read(clock, "A", start=4) == Compare((VISITS,), ">=", 1)
    assert _read(clock, "A", start=4, start_inclusive=False) == Compare((VISITS,), ">=", 2)
    assert _read(clock, "A", start=4, end=9) == AllOf(
        (Compare((VISITS,), ">=", 1), Compare((VISITS,), "<=", 6))
    )
    assert _read(clock, "A", "TimeTermination", t=7) == Compare((VISITS,), ">=", 4)


def test_units() -> None:
    clock = _clock(["A"], {"repeat": "500 us"}, {"repeat": 2, "unit": "s"}, {"repeat": 1.5})
    assert clock.visit_interval == Fraction(1, 2)


def test_a_point_between_two_visits_is_never_met() -> None:
    clock = _clock(["A"], {"repeat": 2}, {"start": 1, "repeat": 2})
    assert clock.visit_interval == 2
    never = AllOf((ConstantCondition(False), Compare((VISITS,), ">=", 1)))
    assert _read(clock, "A", repeat=2, start=1) == never


def test_invalid_times_are_refused() -> None:
    inside = {
        "type": "Not",
        "kwargs": {"condition": {"type": "TimeInterval", "kwargs": {"end": 1}}},
    }
    with pytest.raises(UnsupportedError, match="inside 'Not' cannot be compiled"):
        create_clock([(inside, "here")], [("A",)])
    with pytest.raises(ConditionError, match="At least one"):
        _clock(["A"], {})
    with pytest.raises(UnsupportedError, match="is none of s, ms, us, ns"):
        _clock(["A"], {"repeat": "2 minute"})
    with pytest.raises(ConditionError, match="cannot end an evaluation"):
        _read(_clock(["A", "B"], {"repeat": 2}), "", repeat=2)
