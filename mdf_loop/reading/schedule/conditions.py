"""Scheduler conditions as data. A few forms express all condition types of graph-scheduler.

There are three kinds of counts: runs of a node, runs of a node that its reader has not used yet, and units of
time that have passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, TypeAlias

from msgspec import Struct


class TimeScale(IntEnum):
    """Units of time from short to long. An evaluation of the graph is an environment state update."""

    CONSIDERATION_SET_EXECUTION = 0
    PASS = 1
    ENVIRONMENT_STATE_UPDATE = 2
    ENVIRONMENT_SEQUENCE = 3
    LIFE = 4


EVALUATION = TimeScale.ENVIRONMENT_STATE_UPDATE


def _format_scale(scale: TimeScale) -> str:
    """Return the name of a unit of time in words."""
    return scale.name.lower().replace("_", " ")


class RunCount(Struct, frozen=True):
    """Number of runs of a node within the current unit of time."""

    node: str
    scale: TimeScale = EVALUATION

    def __str__(self) -> str:
        return f"runs of {self.node} in {_format_scale(self.scale)}"

    @property
    def persists(self) -> bool:
        """True if the count continues over evaluations."""
        return self.scale > EVALUATION


class RunsSinceReader(Struct, frozen=True):
    """Number of runs of a node in this evaluation since its reader ran last."""

    node: str
    reader: str
    persists = False

    def __str__(self) -> str:
        return f"runs of {self.node} not used by {self.reader}"


class TimeCount(Struct, frozen=True):
    """Number of units of time within the current longer unit."""

    unit: TimeScale
    longer_unit: TimeScale = EVALUATION

    def __str__(self) -> str:
        return f"number of {_format_scale(self.unit)} in {_format_scale(self.longer_unit)}"

    @property
    def persists(self) -> bool:
        """True if the count continues over evaluations."""
        return self.longer_unit > EVALUATION


Count: TypeAlias = RunCount | RunsSinceReader | TimeCount


class ConstantCondition(Struct, frozen=True):
    """Condition that always holds, or never."""

    is_true: bool


class AllOf(Struct, frozen=True):
    """Condition that all parts hold. Parts are evaluated in order, up to the first that does not hold."""

    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True):
    """Condition that at least one part holds. Parts are evaluated in order, up to the first that holds."""

    conditions: tuple[Condition, ...]


class Not(Struct, frozen=True):
    """Condition that its part does not hold."""

    condition: Condition


class FirstTimes(Struct, frozen=True):
    """Condition that its part holds, at most the first `max_times` times. `where` distinguishes equal conditions."""

    condition: Condition
    max_times: int
    where: str

    def __str__(self) -> str:
        return f"times found at {self.where}"


class Compare(Struct, frozen=True):
    """Condition `sum(counts) <sign> number`."""

    counts: tuple[Count, ...]
    comparator: str
    compared_number: int | float


class EveryNth(Struct, frozen=True):
    """Condition `(count - offset) % n == 0`."""

    count: Count
    period: int
    offset: int = 0


class JustRan(Struct, frozen=True):
    """Condition that the node was in the last executed set of nodes."""

    node: str

    def __str__(self) -> str:
        return f"{self.node} just ran"


class ThresholdCondition(Struct, frozen=True):
    """Comparison of a value of a node with a threshold. `==` and `!=` compare with a tolerance."""

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
    """Yield the condition and all conditions inside it."""
    yield condition
    match condition:
        case AllOf(inner) | AnyOf(inner):
            for inner_condition in inner:
                yield from iterate_parts(inner_condition)
        case Not(inner_condition) | FirstTimes(inner_condition, _, _):
            yield from iterate_parts(inner_condition)


def find_counts(condition: Condition) -> tuple[Count, ...]:
    """Return the counts that determine whether the condition holds."""
    counts: dict[Count, None] = {}
    for inner_condition in iterate_parts(condition):
        if isinstance(inner_condition, Compare):
            counts.update(dict.fromkeys(inner_condition.counts))
        elif isinstance(inner_condition, EveryNth):
            counts[inner_condition.count] = None
    return tuple(counts)


def find_parts(conditions: Any, kind: type[Any]) -> tuple[Any, ...]:
    """Return the parts of one kind in several conditions, without duplicates."""
    matching_parts = (
        inner_condition
        for condition in conditions
        for inner_condition in iterate_parts(condition)
        if isinstance(inner_condition, kind)
    )
    return tuple(dict.fromkeys(matching_parts))
