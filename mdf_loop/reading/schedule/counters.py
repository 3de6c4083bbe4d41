"""Counts and truth values of conditions: the state of graph-scheduler's Scheduler.

The counters work with known numbers, to plan an evaluation while the model is read, and with values of the
program, inside a loop. Only the counts that a condition reads are updated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.schedule.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    ConstantCondition,
    Count,
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
from mdf_loop.reading.schedule.known import (
    Number,
    Truth,
    as_number,
    both,
    chosen,
    compared,
    either,
    every_nth,
    opposite,
    plus,
    zero_if,
)

Key: TypeAlias = Count | FirstTimes | JustRan
"""Key of a count or flag that is kept between two evaluations of the conditions."""


class NotKnown(Exception):  # noqa: N818 - not an error: the run decides the schedule
    """Exception for a condition that depends on values that are unknown while the model is read."""


def _refuse_to_look(condition: Reaches) -> Truth:
    """Raise NotKnown: the values of nodes are not known while the model is read."""
    raise NotKnown


class Counters(Struct):
    """All counts at one point of the schedule.

    Attributes:
        b: Builder of the program.
        counts: Number or truth value of each key, or None if unknown.
        test_threshold: Function that compares a node's value with a threshold.
    """

    b: ModelBuilder
    counts: dict[Key, Number | Truth | None]
    test_threshold: Callable[[Reaches], Truth] = field(default=_refuse_to_look)

    def _get_count(self, key: Key) -> Number:
        """Return the count for a key. Raise NotKnown if the count is unknown."""
        count = self.counts[key]
        if count is None:
            raise NotKnown
        return count

    def _get_truth(self, key: JustRan) -> Truth:
        """Return the truth value for a key. Raise NotKnown if the truth value is unknown."""
        count = self._get_count(key)
        return count if isinstance(count, Value) else bool(count)

    # --- updates --------------------------------------------------------------------------------

    def begin_unit(self, scale: TimeScale) -> None:
        """Begin a unit of time: reset the counts of runs within this unit or within shorter units."""
        for key in self.counts:
            is_restarted = scale is TimeScale.ENVIRONMENT_STATE_UPDATE and isinstance(
                key, RunsSinceReader
            )
            if is_restarted or (isinstance(key, RunCount) and key.scale <= scale):
                self.counts[key] = 0

    def count_run(self, node: str, runs: Truth) -> None:
        """Count a run of a node if `runs` is true."""
        b = self.b
        for key in self.counts:
            if isinstance(key, RunsSinceReader) and key.reader == node:
                self._change_count(key, lambda n: zero_if(b, runs, n))
        for key in self.counts:
            if isinstance(key, RunCount | RunsSinceReader) and key.node == node:
                self._change_count(key, lambda n: plus(b, n, as_number(b, runs)))

    def count_unit(self, unit: TimeScale, passes: Truth) -> None:
        """Count a unit of time if `passes` is true, and reset the counts within it."""
        for key in self.counts:
            if isinstance(key, TimeCount) and key.unit is unit:
                self._change_count(key, lambda n: plus(self.b, n, as_number(self.b, passes)))
            elif isinstance(key, TimeCount) and key.within <= unit:
                self.counts[key] = 0

    def record_set(self, runs: Mapping[str, Truth], is_counted: Truth) -> None:
        """Count a set of nodes that ran together if `is_counted` is true."""
        for key, count in list(self.counts.items()):
            if isinstance(key, JustRan):
                has_run = runs.get(key.node, False)
                if count is None and isinstance(is_counted, bool):
                    self.counts[key] = has_run if is_counted else None
                else:
                    self.counts[key] = chosen(self.b, is_counted, has_run, self._get_truth(key))

    def _change_count(self, key: Key, compute: Callable[[Number], Number]) -> None:
        """Apply a function to the count of a key, if the count is known."""
        count = self.counts[key]
        self.counts[key] = None if count is None else compute(count)

    # --- truth of conditions --------------------------------------------------------------------

    def evaluate(self, condition: Condition, looked_at: Truth = True) -> Truth:
        """Return the truth value of a condition. `looked_at` tells whether the scheduler evaluates the condition."""
        b = self.b
        match condition:
            case ConstantCondition(holds):
                return holds
            case AllOf(parts):
                return self._evaluate_all(parts, looked_at)
            case AnyOf(parts):
                return self._evaluate_any(parts, looked_at)
            case Not(part):
                return opposite(b, self.evaluate(part, looked_at))
            case FirstTimes():
                return self._evaluate_first_times(condition, looked_at)
            case Compare(counts, sign, number):
                total: Number = 0
                for count in counts:
                    total = plus(b, total, self._get_count(count))
                return compared(b, total, sign, number)
            case EveryNth(count, n, offset):
                return every_nth(b, self._get_count(count), n, offset)
            case JustRan():
                return self._get_truth(condition)
            case Reaches():
                return self.test_threshold(condition)

    def _evaluate_all(self, conditions: Iterable[Condition], looked_at: Truth) -> Truth:
        """Return the conjunction of conditions, which are evaluated in order up to the first false condition."""
        conjunction: Truth = True
        for part in conditions:
            if conjunction is False:
                break
            conjunction = both(
                self.b, conjunction, self.evaluate(part, both(self.b, looked_at, conjunction))
            )
        return conjunction

    def _evaluate_any(self, conditions: Iterable[Condition], looked_at: Truth) -> Truth:
        """Return the disjunction of conditions, which are evaluated in order up to the first true condition."""
        disjunction: Truth = False
        for part in conditions:
            if disjunction is True:
                break
            is_needed = both(self.b, looked_at, opposite(self.b, disjunction))
            disjunction = either(self.b, disjunction, self.evaluate(part, is_needed))
        return disjunction

    def _evaluate_first_times(self, condition: FirstTimes, looked_at: Truth) -> Truth:
        """Return the truth value of a condition that holds at most n times, and count the times that it holds."""
        count = self._get_count(condition)
        is_below_limit = compared(self.b, count, "<", condition.n)
        if is_below_limit is False:
            return False
        is_needed = both(self.b, looked_at, is_below_limit)
        holds = both(self.b, is_below_limit, self.evaluate(condition.part, is_needed))
        increment = as_number(self.b, both(self.b, looked_at, holds))
        self.counts[condition] = plus(self.b, count, increment)
        return holds
