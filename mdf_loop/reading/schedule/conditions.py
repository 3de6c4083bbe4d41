"""Data classes for scheduler conditions, which express all condition types of graph-scheduler.

There are three kinds of counts: runs of a node, runs of a node that its reader has not used yet, and units of
time that have passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, TypeAlias

from msgspec import Struct


class TimeScale(IntEnum):
    """Units of time in graph-scheduler, from the shortest to the longest.

    An evaluation of the graph is an environment state update.
    """

    CONSIDERATION_SET_EXECUTION = 0
    PASS = 1
    ENVIRONMENT_STATE_UPDATE = 2
    ENVIRONMENT_SEQUENCE = 3
    LIFE = 4


EVALUATION = TimeScale.ENVIRONMENT_STATE_UPDATE


def _format_scale(scale: TimeScale) -> str:
    """Return the name of a graph-scheduler unit of time in words."""
    return scale.name.lower().replace("_", " ")


class RunCount(Struct, frozen=True):
    """Counter of the runs of a node within the current unit of time."""

    node: str
    scale: TimeScale = EVALUATION

    def __str__(self) -> str:
        return f"runs of {self.node} in {_format_scale(self.scale)}"

    @property
    def persists(self) -> bool:
        """True if the counter continues in the next evaluation of the graph instead of restarting at 0."""
        return self.scale > EVALUATION


class RunsSinceReader(Struct, frozen=True):
    """Counter of the runs of a node since the last run of another node, within one evaluation."""

    node: str
    reader: str
    persists = False

    def __str__(self) -> str:
        return f"runs of {self.node} not used by {self.reader}"


class TimeCount(Struct, frozen=True):
    """Counter of short units of time within the current longer unit, such as passes in an evaluation."""

    unit: TimeScale
    longer_unit: TimeScale = EVALUATION

    def __str__(self) -> str:
        return f"number of {_format_scale(self.unit)} in {_format_scale(self.longer_unit)}"

    @property
    def persists(self) -> bool:
        """True if the counter continues in the next evaluation of the graph instead of restarting at 0."""
        return self.longer_unit > EVALUATION


Count: TypeAlias = RunCount | RunsSinceReader | TimeCount


class ConstantCondition(Struct, frozen=True):
    """Condition that is always true or always false."""

    is_true: bool


class AllOf(Struct, frozen=True):
    """Conjunction of scheduler conditions, evaluated in order up to the first false one."""

    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True):
    """Disjunction of scheduler conditions, evaluated in order up to the first true one."""

    conditions: tuple[Condition, ...]


class Not(Struct, frozen=True):
    """Negation of a scheduler condition."""

    condition: Condition


class FirstTimes(Struct, frozen=True):
    """Condition that is true when its inner condition is true, but at most `max_times` times.

    `where` distinguishes equal conditions.
    """

    condition: Condition
    max_times: int
    where: str

    def __str__(self) -> str:
        return f"times found at {self.where}"


class Compare(Struct, frozen=True):
    """Condition `sum(counts) <comparator> compared_number` on counters of the schedule."""

    counts: tuple[Count, ...]
    comparator: str
    compared_number: int | float


class EveryNth(Struct, frozen=True):
    """Condition `(count - offset) % period == 0` on a counter of the schedule."""

    count: Count
    period: int
    offset: int = 0


class JustRan(Struct, frozen=True):
    """Condition that a node was in the set of nodes that the scheduler executed last."""

    node: str

    def __str__(self) -> str:
        return f"{self.node} just ran"


class ThresholdCondition(Struct, frozen=True):
    """Condition that compares a value of a node with a threshold.

    `==` and `!=` compare with a tolerance.
    """

    node: str
    item_id: str
    indices: tuple[int, ...]
    comparator: str
    threshold: float
    atol: float = 0.0
    rtol: float = 0.0
    where: str = ""


Condition: TypeAlias = (
    ConstantCondition
    | AllOf
    | AnyOf
    | Not
    | FirstTimes
    | Compare
    | EveryNth
    | JustRan
    | ThresholdCondition
)

NEVER = ConstantCondition(False)
ALWAYS = ConstantCondition(True)


def iterate_parts(condition: Condition) -> Iterator[Condition]:
    """Yield a scheduler condition and all conditions inside it."""
    yield condition
    match condition:
        case AllOf(inner) | AnyOf(inner):
            for inner_condition in inner:
                yield from iterate_parts(inner_condition)
        case Not(inner_condition) | FirstTimes(inner_condition, _, _):
            yield from iterate_parts(inner_condition)


def find_counts(condition: Condition) -> tuple[Count, ...]:
    """Return the counters of the schedule that a condition and its inner conditions read."""
    counters: dict[Count, None] = {}
    for inner_condition in iterate_parts(condition):
        if isinstance(inner_condition, Compare):
            counters.update(dict.fromkeys(inner_condition.counts))
        elif isinstance(inner_condition, EveryNth):
            counters[inner_condition.count] = None
    return tuple(counters)


def find_parts(conditions: Any, kind: type[Any]) -> tuple[Any, ...]:
    """Return all conditions of one class in several conditions, including inner conditions.

    The result has no duplicates.
    """
    matching_conditions = (
        inner_condition
        for condition in conditions
        for inner_condition in iterate_parts(condition)
        if isinstance(inner_condition, kind)
    )
    return tuple(dict.fromkeys(matching_conditions))
