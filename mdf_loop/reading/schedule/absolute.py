"""Conversion of scheduler conditions on absolute time to conditions on the number of executions.

If a graph has such a condition, every visit of a layer takes the same time. So the time is
`start + visits * interval`, computed exactly in integers and fractions. For times that are not whole
milliseconds, graph-scheduler's own clock may round or overflow. This module computes the exact times.

Source: graph_scheduler.TimeInterval, TimeTermination and Scheduler.run (1.2.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from mdf_loop.errors import ConditionError, UnsupportedError
from mdf_loop.reading.schedule.arguments import (
    COMPOSITE_TYPES,
    INNER_CONDITION,
    Arguments,
    type_and_arguments,
)
from mdf_loop.reading.schedule.conditions import (
    AllOf,
    Compare,
    Condition,
    ConstantCondition,
    EveryNth,
    TimeCount,
    TimeScale,
)
from mdf_loop.reading.schedule.written import ENGINE_HINT, WrittenCondition

_VISIT_COUNT = TimeCount(TimeScale.CONSIDERATION_SET_EXECUTION, TimeScale.LIFE)
_ABSOLUTE_TYPES = {"TimeInterval", "TimeTermination"}
_MILLISECONDS_BY_UNIT = {
    "s": Fraction(1000),
    "ms": Fraction(1),
    "us": Fraction(1, 10**3),
    "ns": Fraction(1, 10**6),
}
_UNIT_SYMBOLS = {"second": "s", "millisecond": "ms", "microsecond": "us", "nanosecond": "ns"}


class TimePoints(Struct, frozen=True):
    """Period, start and end of a TimeInterval or TimeTermination condition, in milliseconds."""

    period: Fraction | None
    start_time: Fraction | None
    includes_start: bool
    end_time: Fraction | None
    includes_end: bool

    @property
    def inclusive_times(self) -> list[Fraction]:
        """Endpoints of the interval that belong to the interval, in milliseconds."""
        limits_with_inclusion = (
            (self.start_time, self.includes_start),
            (self.end_time, self.includes_end),
        )
        return [
            endpoint
            for endpoint, is_inclusive in limits_with_inclusion
            if is_inclusive and endpoint is not None
        ]


class AbsoluteTime(Struct, frozen=True):
    """Clock of a graph with scheduler conditions on absolute time, in milliseconds.

    Attributes:
        is_used: True if the graph has such conditions.
        first_visit_time: Time of the first visit.
        visit_interval: Time of one visit of a layer.
        layers: Layers of nodes.
    """

    is_used: bool
    first_visit_time: Fraction
    visit_interval: Fraction
    layers: Sequence[Sequence[str]]

    def convert(self, written: WrittenCondition) -> Condition:
        """Convert a condition on time to a condition on the number of graph layers that have run.

        The condition on time is a TimeInterval or a TimeTermination. Each layer takes the same time.
        """
        time_points = _read_time_points(written.type, written.arguments, written.where)
        visit_conditions: list[Condition] = []
        if time_points.period is not None:
            visit_conditions.append(self._convert_repetition(time_points, written))
        if time_points.start_time is not None:
            start_visit = (time_points.start_time - self.first_visit_time) / self.visit_interval
            first_visit = (
                math.ceil(start_visit)
                if time_points.includes_start
                else math.floor(start_visit) + 1
            )
            visit_conditions.append(Compare((_VISIT_COUNT,), ">=", first_visit))
        if time_points.end_time is not None:
            end_visit = (time_points.end_time - self.first_visit_time) / self.visit_interval
            last_visit = (
                math.floor(end_visit) if time_points.includes_end else math.ceil(end_visit) - 1
            )
            visit_conditions.append(Compare((_VISIT_COUNT,), "<=", last_visit))
        return visit_conditions[0] if len(visit_conditions) == 1 else AllOf(tuple(visit_conditions))

    def _convert_repetition(self, points: TimePoints, written: WrittenCondition) -> Condition:
        """Return the condition that an integer number of TimeInterval periods has elapsed."""
        assert points.period is not None
        offset = self._find_offset(points, written)
        period_in_visits = points.period / self.visit_interval
        offset_in_visits = (offset - self.first_visit_time) / self.visit_interval
        if offset_in_visits.denominator != 1:
            return ConstantCondition(False)
        return EveryNth(_VISIT_COUNT, int(period_in_visits), int(offset_in_visits))

    def _find_offset(self, points: TimePoints, written: WrittenCondition) -> Fraction:
        """Return the time from which the periods of a repeated TimeInterval are counted."""
        if len(self.layers) == 1 and points.start_time is not None:
            return points.start_time
        for k, layer in enumerate(self.layers):
            if written.owner in layer:
                return k * self.visit_interval
        raise ConditionError(
            "a TimeInterval with 'repeat' belongs to a node, it cannot end an evaluation",
            written.where,
            "use TimeTermination",
        )


def create_clock(
    conditions: Iterable[tuple[Any, str]], layers: Sequence[Sequence[str]]
) -> AbsoluteTime:
    """Create the clock for the scheduler conditions of a graph that depend on absolute time.

    `conditions` are all conditions with their paths.
    """
    time_points_per_condition = [
        list(_find_time_points(condition, condition_path))
        for condition, condition_path in conditions
    ]
    nonempty_points = [time_points for time_points in time_points_per_condition if time_points]
    periods = [
        time_point.period
        for time_points in nonempty_points
        for time_point in time_points
        if time_point.period is not None
    ]
    start_times = [
        min(
            (time for time_point in time_points for time in time_point.inclusive_times),
            default=Fraction(0),
        )
        for time_points in nonempty_points
    ]
    visit_interval = _greatest_common_divisor(periods) / len(layers) if periods else Fraction(1)
    first_visit_time = max(Fraction(0), min(start_times, default=Fraction(0)))
    return AbsoluteTime(bool(nonempty_points), first_visit_time, visit_interval, layers)


def _greatest_common_divisor(numbers: Sequence[Fraction]) -> Fraction:
    """Return the greatest common divisor of fractions."""
    common_denominator = math.lcm(*(number.denominator for number in numbers))
    return Fraction(
        math.gcd(*(int(number * common_denominator) for number in numbers)), common_denominator
    )


def _find_time_points(condition: Any, where: str) -> Iterable[TimePoints]:
    """Yield the time points of a scheduler condition on absolute time and of its inner conditions."""
    condition_type, arguments = type_and_arguments(condition)
    if condition_type in _ABSOLUTE_TYPES:
        yield _read_time_points(condition_type, arguments, where)
    elif condition_type in COMPOSITE_TYPES:
        for _, inner_condition in Arguments(type=condition_type, arguments=arguments).parts():
            yield from _find_time_points(inner_condition, where)
    elif INNER_CONDITION in arguments:
        for _ in _find_time_points(arguments[INNER_CONDITION], where):
            raise UnsupportedError(
                f"a condition on absolute time inside '{condition_type}' cannot be compiled: "
                "graph-scheduler does not run its clock for it",
                where,
                ENGINE_HINT,
            )


def _read_time_points(kind: str, arguments: Mapping[str, Any], where: str) -> TimePoints:
    """Parse the times of a condition on absolute time with the rules of graph_scheduler."""
    import graph_scheduler

    try:
        condition = getattr(graph_scheduler, kind)(**arguments)
    except Exception as error:  # noqa: BLE001 - pint and graph_scheduler raise anything
        raise ConditionError(
            f"the condition '{kind}' cannot be read: {error}", where, "e.g. repeat: 2, unit: ms"
        ) from None
    if kind == "TimeTermination":
        return TimePoints(
            None, _to_milliseconds(condition.t, where), bool(condition.inclusive), None, True
        )
    return TimePoints(
        _to_milliseconds(condition.repeat, where),
        _to_milliseconds(condition.start, where),
        bool(condition.start_inclusive),
        _to_milliseconds(condition.end, where),
        bool(condition.end_inclusive),
    )


def _to_milliseconds(quantity: Any, where: str) -> Fraction | None:
    """Return a quantity of time in milliseconds.

    Raise UnsupportedError if its unit is unknown.
    """
    if quantity is None:
        return None
    time_unit = _UNIT_SYMBOLS.get(str(quantity.u))
    if time_unit is None:
        raise UnsupportedError(
            f"the unit '{quantity.u}' of a time condition is none of s, ms, us, ns",
            where,
            ENGINE_HINT,
        )
    return Fraction(str(quantity.m)) * _MILLISECONDS_BY_UNIT[time_unit]
