"""Conversion of scheduler conditions in a document to `Condition` objects, with argument checks.

A condition is written as `{type: EveryNCalls, kwargs: {dependency: A, n: 2}}`.

Source: modeci_mdf.execution_engine.EvaluableGraph.parse_condition (0.4.15), graph_scheduler 1.2.2.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import (
    ConditionError,
    Finding,
    UnknownNameError,
    raise_findings,
)
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.entries import MAX_INTEGER
from mdf_loop.reading.schedule.arguments import (
    INNER_CONDITION,
    NODE_ARGUMENTS,
    Arguments,
    node_id,
    scale_name,
)
from mdf_loop.reading.schedule.conditions import (
    AllOf,
    Compare,
    Condition,
    EveryNth,
    RunCount,
    RunsSinceReader,
    ThresholdCondition,
    TimeCount,
    TimeScale,
)
from mdf_loop.reading.schedule.known import COMPARATORS

ENGINE_HINT = "run this model in modeci_mdf's engine: engine='modeci' (--engine modeci)"

EXECUTION_SET = TimeScale.CONSIDERATION_SET_EXECUTION
PASS = TimeScale.PASS
UPDATE = TimeScale.ENVIRONMENT_STATE_UPDATE
SEQUENCE = TimeScale.ENVIRONMENT_SEQUENCE

TimeConditionReader = Callable[["WrittenCondition"], Condition]
"""Function that converts a condition on absolute time."""
ConditionReader = Callable[[Any, str | None, str, Sequence[str], TimeConditionReader], Condition]
"""Function with the signature of `table.read_condition`."""


class WrittenCondition(Arguments, frozen=True, eq=False):
    """Scheduler condition as written in a document, with its type, arguments and owner node.

    Attributes:
        owner: Node that the condition governs, or None for a termination condition.
        where: Path of the condition.
        node_ids: Ids of all nodes of the graph.
        convert_time: Function that converts conditions on absolute time.
        read_condition: Function that reads inner conditions.
    """

    owner: str | None
    where: str
    node_ids: Sequence[str]
    convert_time: TimeConditionReader
    read_condition: ConditionReader

    # --- arguments ------------------------------------------------------------------------------

    def get_required(self, *names: str) -> Any:
        """Return the value of a required argument, which may have one of several names.

        Raise ConditionError if the condition has none of these arguments.
        """
        argument_value = self.get(*names)
        if argument_value is None:
            close_matches = difflib.get_close_matches(names[0], self.arguments, n=1)
            raise ConditionError(
                f"the condition '{self.type}' has no '{names[0]}'",
                self.where,
                f"rename '{close_matches[0]}', which nothing reads"
                if close_matches
                else "add it to kwargs",
            )
        return argument_value

    def read_number(self, *, default: int | None = None) -> int | float:
        """Return the argument `n` of the condition as a number."""
        argument_value = self.get("n")
        argument_value = (
            self.get_required("n")
            if argument_value is None and default is None
            else default
            if argument_value is None
            else argument_value
        )
        if (
            isinstance(argument_value, int | float)
            and MAX_INTEGER < abs(argument_value) != math.inf
        ):
            raise ConditionError(
                f"'n' of the condition '{self.type}' does not fit into 64 bits", self.where
            )
        if (
            isinstance(argument_value, bool)
            or not isinstance(argument_value, int | float)
            or not math.isfinite(argument_value)
        ):
            raise ConditionError(
                f"'n' of the condition '{self.type}' must be a number, not {argument_value!r}",
                self.where,
            )
        return int(argument_value) if argument_value == int(argument_value) else argument_value

    def read_period(self) -> int:
        """Return the argument `n` of the condition, which must be a positive integer."""
        period = self.read_number()
        if not isinstance(period, int) or period < 1:
            raise ConditionError(
                f"'n' of the condition '{self.type}' must be a whole number above 0, not {period}",
                self.where,
            )
        return period

    def read_node(self) -> str:
        """Return the id of the node that the condition refers to."""
        return self._check_node(self.get_required(*NODE_ARGUMENTS))

    def read_nodes(self) -> tuple[str, ...]:
        """Return the ids of the nodes that the condition refers to."""
        return tuple(self._check_node(node) for node in self.node_arguments())

    def _check_node(self, node: DocumentValue) -> str:
        """Return the id of a node, or raise UnknownNameError if the graph has no node with this id."""
        referenced_id = node_id(node)
        if not isinstance(referenced_id, str) or referenced_id not in self.node_ids:
            raise UnknownNameError(
                f"the condition '{self.type}' names '{referenced_id}', which is not a node of the graph",
                self.where,
                suggest(str(referenced_id), self.node_ids),
            )
        return referenced_id

    def read_scale(self, default: TimeScale = UPDATE) -> TimeScale:
        """Return the unit of time in the argument `time_scale`, or the default."""
        time_scale = self.get("time_scale")
        if time_scale is None:
            return default
        scale_text = scale_name(time_scale)
        if scale_text not in TimeScale.__members__:
            raise ConditionError(
                f"the condition '{self.type}' has an unknown time_scale '{time_scale}'",
                self.where,
                "use " + ", ".join(f"TimeScale.{scale.name}" for scale in TimeScale),
            )
        return TimeScale[scale_text]

    # --- inner conditions -----------------------------------------------------------------------

    def read_inner(self, written: DocumentValue, path: str) -> Condition:
        """Convert an inner condition to a `Condition` object.

        `path` is its path in this condition.
        """
        return self.read_condition(
            written, self.owner, f"{self.where}.{path}", self.node_ids, self.convert_time
        )

    def read_all_inner(self) -> tuple[Condition, ...]:
        """Convert all inner conditions of a composite condition to `Condition` objects."""
        return tuple(
            self.read_inner(inner_condition, condition_path)
            for condition_path, inner_condition in self.parts()
        )

    def read_inner_argument(self) -> Condition:
        """Convert the inner condition of `Not` or `NWhen` to a `Condition` object."""
        return self.read_inner(self.get_required(INNER_CONDITION), INNER_CONDITION)

    def refuse_unread(self) -> None:
        """Raise an error for arguments that the condition's type does not have."""
        unread_names = (
            argument_name
            for argument_name in self.arguments
            if argument_name not in self.names_read
        )
        raise_findings(
            Finding(
                "ConditionError",
                f"the condition '{self.type}' has the argument '{argument_name}', which nothing reads",
                self.where,
                _unread_hint(argument_name, self.names_read),
            )
            for argument_name in unread_names
        )

    # --- conversion to data ---------------------------------------------------------------------

    def convert_absolute_time(self) -> Condition:
        """Convert a time condition to a condition on the number of node sets processed so far.

        graph-scheduler itself checks the arguments.
        """
        self.names_read.update(dict.fromkeys(self.arguments))
        return self.convert_time(self)

    def compare_time(self, unit: TimeScale, sign: str, n: float | None = None) -> Condition:
        """Return a condition that compares the number of elapsed units of time with `n`."""
        default_scale = SEQUENCE if unit is UPDATE else UPDATE
        return Compare(
            (self._read_time_count(unit, default_scale),),
            sign,
            self.read_number() if n is None else n,
        )

    def _read_time_count(self, unit: TimeScale, default: TimeScale = UPDATE) -> TimeCount:
        """Return the counter of passes (or another `unit`) since the current `time_scale` began."""
        longer_unit = self.read_scale(default)
        if (unit, longer_unit) == (EXECUTION_SET, PASS):
            raise ConditionError(
                f"the condition '{self.type}' counts within a pass, where graph-scheduler keeps no "
                "count of sets of nodes",
                self.where,
                "use another time_scale, e.g. TimeScale.ENVIRONMENT_STATE_UPDATE",
            )
        return TimeCount(unit, longer_unit if longer_unit > unit else TimeScale.LIFE)

    def repeat_in_passes(self) -> Condition:
        """Return the condition that holds in every n-th pass."""
        return EveryNth(self._read_time_count(PASS), self.read_period())

    def compare_runs(self, sign: str) -> Condition:
        """Return a condition that compares the number of runs of a node with `n`."""
        return Compare((RunCount(self.read_node(), self.read_scale()),), sign, self.read_number())

    def compare_total_runs(self) -> Condition:
        """Return the condition that several nodes have run at least `n` times in total.

        The sum of no nodes is 0.
        """
        time_scale, min_count = self.read_scale(), self.read_number()
        return Compare(
            tuple(RunCount(node, time_scale) for node in self.read_nodes()), ">=", min_count
        )

    def compare_runs_since_owner(self) -> Condition:
        """Return the condition that a node has run at least `n` times since the condition's owner last ran.

        The owner is the node that the condition governs.
        """
        if self.owner is None:
            raise ConditionError(
                f"'{self.type}' counts the runs of a node between two runs of another, so it cannot "
                "end an evaluation",
                self.where,
                "use AfterNCalls",
            )
        return Compare((RunsSinceReader(self.read_node(), self.owner),), ">=", self.read_number())

    def require_runs(self) -> Condition:
        """Return the condition that every named node, or every node of the graph, has run."""
        time_scale, required_nodes = self.read_scale(), self.read_nodes() or self.node_ids
        return AllOf(
            tuple(Compare((RunCount(node, time_scale),), ">=", 1) for node in required_nodes)
        )

    def _to_float(self, name: str, number: int | float) -> float:
        """Return a number as a float.

        Raise ConditionError if the number is too large.
        """
        try:
            return float(number)
        except OverflowError:
            raise ConditionError(
                f"'{name}' of a Threshold is larger than a number with a point can be", self.where
            ) from None

    def compare_threshold(self) -> Condition:
        """Return the condition that compares a value of a node with a number."""
        comparator, threshold = self.get_required("comparator"), self.get_required("threshold")
        if comparator not in COMPARATORS:
            raise ConditionError(
                f"'{comparator}' is no comparator of a Threshold",
                self.where,
                f"use {', '.join(COMPARATORS)}",
            )
        numbers_by_name = {
            "threshold": threshold,
            "atol": self.get("atol"),
            "rtol": self.get("rtol"),
        }
        for argument_name, number in numbers_by_name.items():
            if isinstance(number, bool) or not isinstance(number, int | float | None):
                raise ConditionError(
                    f"'{argument_name}' of a Threshold must be a number, not {number!r}", self.where
                )
        indices = self.get("indices")
        index_list = () if indices is None else indices if isinstance(indices, list) else (indices,)
        if not all(isinstance(i, int) and not isinstance(i, bool) for i in index_list):
            raise ConditionError(
                f"'indices' of a Threshold must be whole numbers, not {indices!r}", self.where
            )
        return ThresholdCondition(
            self.read_node(),
            str(self.get_required("parameter")),
            tuple(index for index in index_list if isinstance(index, int)),
            comparator,
            self._to_float("threshold", threshold),
            self._to_float("atol", numbers_by_name["atol"] or 0),
            self._to_float("rtol", numbers_by_name["rtol"] or 0),
            self.where,
        )


def _unread_hint(name: str, names: Iterable[str]) -> str:
    """Return a hint for an error about an argument that the condition type does not have."""
    if name == "time_scale":
        return (
            "remove it: this condition always counts within one evaluation; EveryNPasses and "
            "AtNCalls, AfterCall, AfterNCalls have a time_scale"
        )
    return suggest(name, names) or "remove it"
