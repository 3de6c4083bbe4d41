"""Order in which nodes ran in each evaluation, like `execution_list` of graph-scheduler."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any, TypeAlias, overload

from mdf_loop.ir import Array
from mdf_loop.reading.schedule.plan import Schedule

NodeSets: TypeAlias = tuple[tuple[str, ...], ...]
"""Sets of nodes that ran together in one evaluation. Ids within a set are in document order."""


ExecutionList: TypeAlias = Sequence[NodeSets]
"""Sets of nodes of each evaluation, in order of execution."""

EndPosition: TypeAlias = tuple[int, int]
"""End position of an `OrderOfExecution`: the number of groups and the length of the last group."""


_MAX_PRINTED_EVALUATIONS = 20
"""Maximum number of evaluations in a printed list."""


class OrderOfExecution(Sequence[NodeSets]):
    """Execution order of the nodes in a run, run-length encoded.

    Each entry of `runs` has the node sets of an evaluation and the number of repetitions.
    """

    def __init__(self, runs: Iterable[tuple[NodeSets, int]] = ()) -> None:
        self.runs = list(runs)

    @classmethod
    def read(cls, runs: Any) -> OrderOfExecution | None:
        """Decode an execution order from a JSON value, or return None for invalid content."""
        if not isinstance(runs, list) or not all(map(_is_run_length_pair, runs)):
            return None
        return cls(
            (tuple(tuple(nodes) for nodes in node_sets), repetitions)
            for node_sets, repetitions in runs
        )

    def add(self, sets: NodeSets, repetitions: int) -> None:
        """Append `repetitions` evaluations, in each of which the same sets of nodes ran."""
        if self.runs and self.runs[-1][0] == sets:
            self.runs[-1] = (sets, self.runs[-1][1] + repetitions)
        else:
            self.runs.append((sets, repetitions))

    def end_position(self) -> EndPosition:
        """Return the end of the list as a position for `truncate`."""
        return len(self.runs), self.runs[-1][1] if self.runs else 0

    def truncate(self, position: EndPosition) -> None:
        """Remove all evaluations after a position that `end_position` returned."""
        run_count, last_repetitions = position
        del self.runs[run_count:]
        if self.runs:
            self.runs[-1] = (self.runs[-1][0], last_repetitions)

    def __len__(self) -> int:
        return sum(repetitions for _, repetitions in self.runs)

    @overload
    def __getitem__(self, index: int) -> NodeSets: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[NodeSets, ...]: ...

    def __getitem__(self, index: int | slice) -> NodeSets | tuple[NodeSets, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        run_ends = list(accumulate(repetitions for _, repetitions in self.runs))
        return self.runs[bisect_right(run_ends, index % len(self))][0]

    def __iter__(self) -> Iterator[NodeSets]:
        for node_sets, repetitions in self.runs:
            yield from repeat(node_sets, repetitions)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OrderOfExecution):
            return self.runs == other.runs
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # the list is mutable

    def __repr__(self) -> str:
        if len(self) <= _MAX_PRINTED_EVALUATIONS:
            return repr(tuple(self))
        return f"{repr(self[:_MAX_PRINTED_EVALUATIONS])[:-1]}, ... {len(self)} evaluations)"


def _is_run_length_pair(run: Any) -> bool:
    """Return True if a JSON value is a pair `[list of node sets, number of repetitions]`."""
    match run:
        case [list() as sets, int() as times] if times >= 0:
            return all(
                isinstance(nodes, list) and all(isinstance(node, str) for node in nodes)
                for nodes in sets
            )
    return False


def executed_node_sets(flags: Array, schedule: Schedule) -> NodeSets:
    """Return the sets of nodes that ran in one evaluation, from flags that the program computed.

    Each row has, for every layer, a flag for the visit of the layer and one flag per node that ran.
    """
    node_sets: list[tuple[str, ...]] = []
    for flag_row in flags.tolist():
        flag_iterator = iter(flag_row)
        previous_count = len(node_sets)
        for layer in schedule.layers:
            is_layer_visited = next(flag_iterator)
            executed_nodes = tuple(node for node in layer if next(flag_iterator))
            if executed_nodes or (schedule.has_absolute_time and is_layer_visited):
                node_sets.append(executed_nodes)
        if len(node_sets) == previous_count and not schedule.has_absolute_time:
            node_sets.append(())
    return tuple(node_sets)
