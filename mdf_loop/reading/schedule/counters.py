"""Counts and truth of conditions: the state of graph-scheduler's Scheduler.

The same counters work with known numbers, to plan an evaluation while reading, and with values,
inside a loop. Only what some condition asks for is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.schedule.conditions import (
    AllOf,
    AnyOf,
    Calls,
    Compare,
    Condition,
    Count,
    EveryNth,
    FirstTimes,
    Fixed,
    JustRan,
    Not,
    Reaches,
    Times,
    TimeScale,
    Unused,
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
"""What is kept between two looks at the conditions."""


class NotKnown(Exception):  # noqa: N818 - not an error: the schedule is decided while running
    """A condition depends on what is not known while reading."""


def _refuse_to_look(condition: Reaches) -> Truth:
    raise NotKnown


class Counters(Struct):
    """All counts at one point of the schedule.

    `held` maps what is kept to its number or truth value; None stands for one not known.
    `look` compares a node's value with a threshold.
    """

    b: ModelBuilder
    held: dict[Key, Number | Truth | None]
    look: Callable[[Reaches], Truth] = field(default=_refuse_to_look)

    def copy(self) -> Counters:
        """Return a copy of the counts."""
        return replace(self, held=dict(self.held))

    def _number(self, key: Key) -> Number:
        held = self.held[key]
        if held is None:
            raise NotKnown
        return held

    def _truth(self, key: JustRan) -> Truth:
        held = self._number(key)
        return held if isinstance(held, Value) else bool(held)

    # --- what happens ---------------------------------------------------------------------------

    def begin(self, scale: TimeScale) -> None:
        """Begin a unit of time: reset the counts of calls within it, or within shorter units."""
        for key in self.held:
            again = scale is TimeScale.ENVIRONMENT_STATE_UPDATE and isinstance(key, Unused)
            if again or (isinstance(key, Calls) and key.scale <= scale):
                self.held[key] = 0

    def call(self, node: str, runs: Truth) -> None:
        """Count a run of a node if `runs` is true."""
        b = self.b
        for key in self.held:
            if isinstance(key, Unused) and key.reader == node:
                self._change(key, lambda n: zero_if(b, runs, n))
        for key in self.held:
            if isinstance(key, Calls | Unused) and key.node == node:
                self._change(key, lambda n: plus(b, n, as_number(b, runs)))

    def pass_time(self, unit: TimeScale, passes: Truth) -> None:
        """Count a unit of time if `passes` is true, and reset the counts within it."""
        for key in self.held:
            if isinstance(key, Times) and key.unit is unit:
                self._change(key, lambda n: plus(self.b, n, as_number(self.b, passes)))
            elif isinstance(key, Times) and key.within <= unit:
                self.held[key] = 0

    def ran(self, runs: Mapping[str, Truth], counts: Truth) -> None:
        """Count a set of nodes that ran together if `counts` is true."""
        for key, held in list(self.held.items()):
            if isinstance(key, JustRan):
                now = runs.get(key.node, False)
                if held is None and isinstance(counts, bool):
                    self.held[key] = now if counts else None
                else:
                    self.held[key] = chosen(self.b, counts, now, self._truth(key))

    def _change(self, key: Key, change: Callable[[Number], Number]) -> None:
        held = self.held[key]
        self.held[key] = None if held is None else change(held)

    # --- what holds -----------------------------------------------------------------------------

    def holds(self, condition: Condition, looked_at: Truth = True) -> Truth:
        """Return the truth of the condition. `looked_at` tells whether the scheduler evaluates it."""
        b = self.b
        match condition:
            case Fixed(holds):
                return holds
            case AllOf(parts):
                return self._all(parts, looked_at)
            case AnyOf(parts):
                return self._any(parts, looked_at)
            case Not(part):
                return opposite(b, self.holds(part, looked_at))
            case FirstTimes():
                return self._first_times(condition, looked_at)
            case Compare(counts, sign, number):
                total: Number = 0
                for count in counts:
                    total = plus(b, total, self._number(count))
                return compared(b, total, sign, number)
            case EveryNth(count, n, offset):
                return every_nth(b, self._number(count), n, offset)
            case JustRan():
                return self._truth(condition)
            case Reaches():
                return self.look(condition)

    def _all(self, conditions: Iterable[Condition], looked_at: Truth) -> Truth:
        result: Truth = True
        for part in conditions:
            if result is False:
                break
            result = both(self.b, result, self.holds(part, both(self.b, looked_at, result)))
        return result

    def _any(self, conditions: Iterable[Condition], looked_at: Truth) -> Truth:
        result: Truth = False
        for part in conditions:
            if result is True:
                break
            asked = both(self.b, looked_at, opposite(self.b, result))
            result = either(self.b, result, self.holds(part, asked))
        return result

    def _first_times(self, condition: FirstTimes, looked_at: Truth) -> Truth:
        found = self._number(condition)
        open_ = compared(self.b, found, "<", condition.n)
        if open_ is False:
            return False
        asked = both(self.b, looked_at, open_)
        holds = both(self.b, open_, self.holds(condition.part, asked))
        counted = as_number(self.b, both(self.b, looked_at, holds))
        self.held[condition] = plus(self.b, found, counted)
        return holds
