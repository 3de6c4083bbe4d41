"""MDF's scheduler conditions -> `conditions`, or a refusal by name.

A condition is written as `{type: EveryNCalls, kwargs: {dependency: A, n: 2}}`. What each type
comes down to stands in one line of `_TYPES`.

Source: modeci_mdf.execution_engine.EvaluableGraph.parse_condition (0.4.15), graph_scheduler 1.2.2.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.errors import (
    ConditionError,
    Finding,
    UnknownNameError,
    UnsupportedError,
    raise_findings,
)
from mdf_loop.lower import suggestion
from mdf_loop.reading.entries import LARGEST
from mdf_loop.reading.schedule.conditions import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Calls,
    Compare,
    Condition,
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
from mdf_loop.reading.schedule.known import SIGNS

IN_ENGINE = "run this model in modeci_mdf's engine: engine='modeci' (--engine modeci)"

CSE = TimeScale.CONSIDERATION_SET_EXECUTION
PASS = TimeScale.PASS
UPDATE = TimeScale.ENVIRONMENT_STATE_UPDATE
SEQUENCE = TimeScale.ENVIRONMENT_SEQUENCE

Intervals = Callable[["Written"], Condition]


@dataclass(frozen=True, slots=True)
class Written:
    """One condition as the document has it: type, arguments, the node that it governs.

    `owner` is None for a termination condition; `absolute` reads conditions on absolute time;
    `asked` are the names of arguments that were asked for.
    """

    type: str
    arguments: Mapping[str, Any]
    owner: str | None
    where: str
    nodes: Sequence[str]
    absolute: Intervals
    asked: dict[str, None] = field(default_factory=dict)

    # --- arguments ------------------------------------------------------------------------------

    def get(self, *names: str) -> Any:
        """The argument of the first of these names that is there; None if none is."""
        for name in names:
            self.asked[name] = None
            if self.arguments.get(name) is not None:
                return self.arguments[name]
        return None

    def needed(self, *names: str) -> Any:
        """The same, but it must be there."""
        value = self.get(*names)
        if value is None:
            meant = difflib.get_close_matches(names[0], self.arguments, n=1)
            raise ConditionError(
                f"the condition '{self.type}' has no '{names[0]}'",
                self.where,
                f"rename '{meant[0]}', which nothing reads" if meant else "add it to kwargs",
            )
        return value

    def number(self, *, default: int | None = None) -> int | float:
        """The argument `n`."""
        n = self.get("n")
        n = self.needed("n") if n is None and default is None else default if n is None else n
        if isinstance(n, int | float) and LARGEST < abs(n) != math.inf:
            raise ConditionError(
                f"'n' of the condition '{self.type}' does not fit into 64 bits", self.where
            )
        if isinstance(n, bool) or not isinstance(n, int | float) or not math.isfinite(n):
            raise ConditionError(
                f"'n' of the condition '{self.type}' must be a number, not {n!r}", self.where
            )
        return int(n) if n == int(n) else n

    def nth(self) -> int:
        """The argument `n` as a period."""
        n = self.number()
        if not isinstance(n, int) or n < 1:
            raise ConditionError(
                f"'n' of the condition '{self.type}' must be a whole number above 0, not {n}",
                self.where,
            )
        return n

    def node(self) -> str:
        """The node that the condition is about."""
        return self._known(self.needed("dependency", "dependencies", "node"))

    def several(self) -> tuple[str, ...]:
        """The nodes that the condition is about."""
        given = self.get("dependencies", "dependency", "args")
        listed = given if isinstance(given, list | tuple) else () if given is None else (given,)
        return tuple(self._known(node) for node in listed)

    def _known(self, node: Any) -> str:
        name = getattr(node, "id", node)
        if not isinstance(name, str) or name not in self.nodes:
            raise UnknownNameError(
                f"the condition '{self.type}' names '{name}', which is not a node of the graph",
                self.where,
                suggestion(str(name), self.nodes),
            )
        return name

    def scale(self, default: TimeScale = UPDATE) -> TimeScale:
        """The argument `time_scale`."""
        given = self.get("time_scale")
        if given is None:
            return default
        word = str(getattr(given, "name", given)).rpartition(".")[2].upper()
        if word not in TimeScale.__members__:
            raise ConditionError(
                f"the condition '{self.type}' has an unknown time_scale '{given}'",
                self.where,
                "use " + ", ".join(f"TimeScale.{scale.name}" for scale in TimeScale),
            )
        return TimeScale[word]

    # --- conditions inside ----------------------------------------------------------------------

    def inner(self, written: Any, place: str) -> Condition:
        """A condition that stands inside this one."""
        return read_condition(
            written, self.owner, f"{self.where}.{place}", self.nodes, self.absolute
        )

    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that this one is made of."""
        given = self.get("dependencies", "args", "conditions", *self.arguments)
        listed = () if given is None else given if isinstance(given, list | tuple) else (given,)
        return tuple(self.inner(part, f"dependencies[{k}]") for k, part in enumerate(listed))

    def refuse_unread(self) -> None:
        """Refuse arguments that nobody has asked for."""
        unread = (name for name in self.arguments if name not in self.asked)
        raise_findings(
            Finding(
                "ConditionError",
                f"the condition '{self.type}' has the argument '{name}', which nothing reads",
                self.where,
                suggestion(name, self.asked) or "remove it",
            )
            for name in unread
        )

    # --- forms ----------------------------------------------------------------------------------

    def on_absolute_time(self) -> Condition:
        """A condition on absolute time, of which graph-scheduler itself refuses unknown arguments."""
        self.asked.update(dict.fromkeys(self.arguments))
        return self.absolute(self)

    def times(self, unit: TimeScale, sign: str, n: float | None = None) -> Condition:
        """Units of time that have passed, compared with `n`."""
        default = SEQUENCE if unit is UPDATE else UPDATE
        return Compare((self._passed(unit, default),), sign, self.number() if n is None else n)

    def _passed(self, unit: TimeScale, default: TimeScale = UPDATE) -> Times:
        within = self.scale(default)
        if (unit, within) == (CSE, PASS):
            raise ConditionError(
                f"the condition '{self.type}' counts within a pass, where graph-scheduler keeps no "
                "count of sets of nodes",
                self.where,
                "use another time_scale, e.g. TimeScale.ENVIRONMENT_STATE_UPDATE",
            )
        return Times(unit, within if within > unit else TimeScale.LIFE)

    def every_pass(self) -> Condition:
        """Every n-th pass."""
        return EveryNth(self._passed(PASS), self.nth())

    def calls(self, sign: str) -> Condition:
        """Runs of a node, compared with `n`."""
        return Compare((Calls(self.node(), self.scale()),), sign, self.number())

    def calls_of_all(self) -> Condition:
        """Runs of several nodes together, at least `n`; of no node at all, if none is named."""
        scale, n = self.scale(), self.number()
        return Compare(tuple(Calls(node, scale) for node in self.several()), ">=", n)

    def unused(self) -> Condition:
        """Runs of a node that the owner has not used."""
        if self.owner is None:
            raise ConditionError(
                f"'{self.type}' counts the runs of a node between two runs of another, so it cannot "
                "end an evaluation",
                self.where,
                "use AfterNCalls",
            )
        return Compare((Unused(self.node(), self.owner),), ">=", self.number())

    def all_have_run(self) -> Condition:
        """Every node has run; of the whole graph, if none is named."""
        scale, nodes = self.scale(), self.several() or self.nodes
        return AllOf(tuple(Compare((Calls(n, scale),), ">=", 1) for n in nodes))

    def _float(self, name: str, number: int | float) -> float:
        try:
            return float(number)
        except OverflowError:
            raise ConditionError(
                f"'{name}' of a Threshold is larger than a number with a point can be", self.where
            ) from None

    def threshold(self) -> Condition:
        """A value of a node, compared with a number."""
        sign, threshold = self.needed("comparator"), self.needed("threshold")
        if sign not in SIGNS:
            raise ConditionError(
                f"'{sign}' is no comparator of a Threshold", self.where, f"use {', '.join(SIGNS)}"
            )
        numbers = {"threshold": threshold, "atol": self.get("atol"), "rtol": self.get("rtol")}
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int | float | None):
                raise ConditionError(
                    f"'{name}' of a Threshold must be a number, not {number!r}", self.where
                )
        indices = self.get("indices")
        listed = () if indices is None else indices if isinstance(indices, list) else (indices,)
        if not all(isinstance(i, int) and not isinstance(i, bool) for i in listed):
            raise ConditionError(
                f"'indices' of a Threshold must be whole numbers, not {indices!r}", self.where
            )
        return Reaches(
            self.node(),
            str(self.needed("parameter")),
            tuple(listed),
            sign,
            self._float("threshold", threshold),
            self._float("atol", numbers["atol"] or 0),
            self._float("rtol", numbers["rtol"] or 0),
            self.where,
        )


def _sequence(compare: Callable[[int | float], bool]) -> Callable[[Written], Condition]:
    """A condition on the number of the environment sequence, which is always 0 in MDF."""
    return lambda w: Fixed(compare(w.number()))


_TYPES: dict[str, Callable[[Written], Condition]] = {
    "Always": lambda w: ALWAYS,
    "Never": lambda w: NEVER,
    "All": lambda w: AllOf(w.conditions()),
    "And": lambda w: AllOf(w.conditions()),
    "Any": lambda w: AnyOf(w.conditions()),
    "Or": lambda w: AnyOf(w.conditions()),
    "Not": lambda w: Not(w.inner(w.needed("condition"), "condition")),
    "NWhen": lambda w: FirstTimes(
        w.inner(w.needed("condition"), "condition"), math.ceil(w.number(default=1)), w.where
    ),
    "BeforeConsiderationSetExecution": lambda w: w.times(CSE, "<"),
    "AtConsiderationSetExecution": lambda w: w.times(CSE, "=="),
    "AfterConsiderationSetExecution": lambda w: w.times(CSE, ">"),
    "AfterNConsiderationSetExecutions": lambda w: w.times(CSE, ">="),
    "BeforePass": lambda w: w.times(PASS, "<"),
    "AtPass": lambda w: w.times(PASS, "=="),
    "AfterPass": lambda w: w.times(PASS, ">"),
    "AfterNPasses": lambda w: w.times(PASS, ">="),
    "EveryNPasses": lambda w: w.every_pass(),
    "BeforeEnvironmentStateUpdate": lambda w: w.times(UPDATE, "<"),
    "AtEnvironmentStateUpdate": lambda w: w.times(UPDATE, "=="),
    "AfterEnvironmentStateUpdate": lambda w: w.times(UPDATE, ">"),
    "AfterNEnvironmentStateUpdates": lambda w: w.times(UPDATE, ">="),
    "AtEnvironmentSequence": _sequence(lambda n: n == 0),
    "AfterEnvironmentSequence": _sequence(lambda n: n < 0),
    "AfterNEnvironmentSequences": _sequence(lambda n: n <= 0),
    "BeforeNCalls": lambda w: w.calls("<"),
    "AtNCalls": lambda w: w.calls("=="),
    "AfterCall": lambda w: w.calls(">"),
    "AfterNCalls": lambda w: w.calls(">="),
    "AfterNCallsCombined": lambda w: w.calls_of_all(),
    "EveryNCalls": lambda w: w.unused(),
    "JustRan": lambda w: JustRan(w.node()),
    "AllHaveRun": lambda w: w.all_have_run(),
    "AtEnvironmentStateUpdateStart": lambda w: Compare((Times(PASS),), "==", 0),
    "AtEnvironmentStateUpdateNStart": lambda w: AllOf(
        (Compare((Times(PASS),), "==", 0), w.times(UPDATE, "=="))
    ),
    "AtEnvironmentSequenceStart": lambda w: w.times(UPDATE, "==", 0),
    "AtEnvironmentSequenceNStart": lambda w: AllOf(
        (Compare((Times(UPDATE, SEQUENCE),), "==", 0), Fixed(w.number() == 0))
    ),
    "Threshold": lambda w: w.threshold(),
    "TimeInterval": lambda w: w.on_absolute_time(),
    "TimeTermination": lambda w: w.on_absolute_time(),
}

_REFUSED = {
    **dict.fromkeys(
        ("WhenFinished", "WhenFinishedAny", "WhenFinishedAll"),
        "asks nodes whether they are finished, which no part of an MDF node says; "
        "compare a value of the node with a Threshold",
    ),
    **dict.fromkeys(("While", "WhileNot", "Condition", "AbsoluteCondition"), "calls Python code"),
    **dict.fromkeys(
        (
            *("BeforeNode", "BeforeNodes", "WithNode", "AfterNode", "AfterNodes"),
            *("AddEdgeTo", "RemoveEdgeFrom", "CustomGraphStructureCondition"),
        ),
        "changes the order of the graph itself; use edges",
    ),
}


def read_condition(
    written: Any, owner: str | None, where: str, nodes: Sequence[str], absolute: Intervals
) -> Condition:
    """The condition that a mapping, or a modeci_mdf Condition, says.

    Raises:
        ConditionError: it lacks an argument, or has one that means nothing.
        UnsupportedError: no program can express conditions of its type; the sentence names it.
    """
    kind, arguments = type_and_arguments(written)
    if kind is None:
        raise ConditionError(
            f"a condition is written as {{type: ..., kwargs: ...}}, not {written!r}", where
        )
    if kind not in _TYPES:
        reason = _REFUSED.get(kind)
        if reason is None:
            raise ConditionError(
                f"there is no scheduler condition '{kind}'", where, suggestion(kind, _TYPES)
            )
        raise UnsupportedError(
            f"the scheduler condition '{kind}' cannot be compiled: it {reason}", where, IN_ENGINE
        )
    condition = Written(kind, arguments, owner, where, nodes, absolute)
    made = _TYPES[kind](condition)
    condition.refuse_unread()
    return made


def type_and_arguments(written: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Type and arguments of a condition, however it is held; no type if that is no text."""
    if isinstance(written, Mapping):
        kind, arguments = written.get("type"), written.get("kwargs")
    else:
        kind, arguments = getattr(written, "type", None), getattr(written, "kwargs", None)
    named = dict(arguments) if isinstance(arguments, Mapping) else {}
    return kind if isinstance(kind, str) else None, named
