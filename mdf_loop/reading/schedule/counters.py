"""Counters and flags that scheduler conditions read, with the update rules of graph-scheduler.

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
    RunCount,
    RunsSinceReader,
    ThresholdCondition,
    TimeCount,
    TimeScale,
)
from mdf_loop.reading.schedule.known import (
    Number,
    Truth,
    add,
    compare,
    every_nth,
    logical_and,
    logical_not,
    logical_or,
    select_truth,
    truth_to_number,
    zero_if,
)

CountKey: TypeAlias = Count | FirstTimes | JustRan
"""Key of a count or flag that is kept between two evaluations of the conditions."""


class UnknownCount(Exception):  # noqa: N818 - not an error: the run decides the schedule
    """Exception for a scheduler condition on a counter that has no known value at compile time."""


def _raise_unknown(condition: ThresholdCondition) -> Truth:
    """Raise UnknownCount, because values of nodes are unknown at compile time."""
    raise UnknownCount


class Counters(Struct):
    """Values of all counters and flags of a schedule at one point of the execution.

    Attributes:
        b: Builder of the program.
        counts: Number or truth value of each key, or None if unknown.
        test_threshold: Function that compares a node's value with a threshold.
    """

    b: ModelBuilder
    counts: dict[CountKey, Number | Truth | None]
    test_threshold: Callable[[ThresholdCondition], Truth] = field(default=_raise_unknown)

    def _get_count(self, key: CountKey) -> Number:
        """Return the value of a counter, or raise UnknownCount if the value is unknown."""
        count = self.counts[key]
        if count is None:
            raise UnknownCount
        return count

    def _get_truth(self, key: JustRan) -> Truth:
        """Return the flag that tells whether a node just ran, or raise UnknownCount if it is unknown."""
        has_just_run = self._get_count(key)
        return has_just_run if isinstance(has_just_run, Value) else bool(has_just_run)

    # --- updates --------------------------------------------------------------------------------

    def begin_unit(self, scale: TimeScale) -> None:
        """Reset the counters of node runs at the beginning of a unit of time.

        Counters of runs within shorter units are also reset.
        """
        for count_key in self.counts:
            is_reset_by_evaluation = scale is TimeScale.ENVIRONMENT_STATE_UPDATE and isinstance(
                count_key, RunsSinceReader
            )
            if is_reset_by_evaluation or (
                isinstance(count_key, RunCount) and count_key.scale <= scale
            ):
                self.counts[count_key] = 0

    def count_run(self, node: str, runs: Truth) -> None:
        """Increment the run counters of a node if the truth value `runs` is true."""
        b = self.b
        for count_key in self.counts:
            if isinstance(count_key, RunsSinceReader) and count_key.reader == node:
                self._change_count(count_key, lambda n: zero_if(b, runs, n))
        for count_key in self.counts:
            if isinstance(count_key, RunCount | RunsSinceReader) and count_key.node == node:
                self._change_count(count_key, lambda n: add(b, n, truth_to_number(b, runs)))

    def count_unit(self, unit: TimeScale, has_ended: Truth) -> None:
        """Increment the counters of a time unit that has ended, and reset counts within that unit.

        `has_ended` may be a run-time value, so that the increment is 0 or 1.
        """
        for count_key in self.counts:
            if isinstance(count_key, TimeCount) and count_key.unit is unit:
                self._change_count(
                    count_key, lambda n: add(self.b, n, truth_to_number(self.b, has_ended))
                )
            elif isinstance(count_key, TimeCount) and count_key.longer_unit <= unit:
                self.counts[count_key] = 0

    def record_set(self, runs: Mapping[str, Truth], is_counted: Truth) -> None:
        """Update the flags that tell which nodes just ran, unless `is_counted` is false."""
        for count_key, previous_count in list(self.counts.items()):
            if isinstance(count_key, JustRan):
                has_run = runs.get(count_key.node, False)
                if previous_count is None and isinstance(is_counted, bool):
                    self.counts[count_key] = has_run if is_counted else None
                else:
                    self.counts[count_key] = select_truth(
                        self.b, is_counted, has_run, self._get_truth(count_key)
                    )

    def _change_count(self, key: CountKey, compute: Callable[[Number], Number]) -> None:
        """Replace the value of a counter by `compute(value)` if the value is known."""
        old_count = self.counts[key]
        self.counts[key] = None if old_count is None else compute(old_count)

    # --- truth of conditions --------------------------------------------------------------------

    def evaluate(self, condition: Condition, is_evaluated: Truth = True) -> Truth:
        """Return the truth value of a scheduler condition for the current counters.

        `is_evaluated` tells whether the scheduler evaluates the condition.
        """
        b = self.b
        match condition:
            case ConstantCondition(holds):
                return holds
            case AllOf(parts):
                return self._evaluate_all(parts, is_evaluated)
            case AnyOf(parts):
                return self._evaluate_any(parts, is_evaluated)
            case Not(part):
                return logical_not(b, self.evaluate(part, is_evaluated))
            case FirstTimes():
                return self._evaluate_first_times(condition, is_evaluated)
            case Compare(counts, sign, number):
                count_sum: Number = 0
                for count in counts:
                    count_sum = add(b, count_sum, self._get_count(count))
                return compare(b, count_sum, sign, number)
            case EveryNth(count, n, offset):
                return every_nth(b, self._get_count(count), n, offset)
            case JustRan():
                return self._get_truth(condition)
            case ThresholdCondition():
                return self.test_threshold(condition)

    def _evaluate_all(self, conditions: Iterable[Condition], is_evaluated: Truth) -> Truth:
        """Return the conjunction of conditions, evaluated in order up to the first false condition."""
        conjunction: Truth = True
        for condition in conditions:
            if conjunction is False:
                break
            conjunction = logical_and(
                self.b,
                conjunction,
                self.evaluate(condition, logical_and(self.b, is_evaluated, conjunction)),
            )
        return conjunction

    def _evaluate_any(self, conditions: Iterable[Condition], is_evaluated: Truth) -> Truth:
        """Return the disjunction of conditions, evaluated in order up to the first true condition."""
        disjunction: Truth = False
        for condition in conditions:
            if disjunction is True:
                break
            needs_evaluation = logical_and(self.b, is_evaluated, logical_not(self.b, disjunction))
            disjunction = logical_or(
                self.b, disjunction, self.evaluate(condition, needs_evaluation)
            )
        return disjunction

    def _evaluate_first_times(self, condition: FirstTimes, is_evaluated: Truth) -> Truth:
        """Return the truth value of a `FirstTimes` condition, and increment its counter of true values."""
        times_met = self._get_count(condition)
        is_below_limit = compare(self.b, times_met, "<", condition.max_times)
        if is_below_limit is False:
            return False
        needs_evaluation = logical_and(self.b, is_evaluated, is_below_limit)
        is_met = logical_and(
            self.b, is_below_limit, self.evaluate(condition.condition, needs_evaluation)
        )
        increment = truth_to_number(self.b, logical_and(self.b, is_evaluated, is_met))
        self.counts[condition] = add(self.b, times_met, increment)
        return is_met
