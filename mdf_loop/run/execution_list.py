"""Which nodes ran, in order: graph-scheduler's `execution_list`, evaluation by evaluation."""

from __future__ import annotations

from typing import TypeAlias

from mdf_loop.ir import Array
from mdf_loop.reading.schedule.plan import Schedule

Sets: TypeAlias = tuple[tuple[str, ...], ...]
"""The sets of nodes that ran together; ids within a set are in document order."""

ExecutionList: TypeAlias = tuple[Sets, ...]
"""What ran: for each evaluation its sets of nodes."""


def sets_that_ran(flags: Array, schedule: Schedule) -> Sets:
    """The sets of one evaluation, from a row of flags for every pass.

    A row has, for every layer, whether it was visited and which of its nodes ran.
    """
    sets: list[tuple[str, ...]] = []
    for row in flags.tolist():
        flag = iter(row)
        before = len(sets)
        for layer in schedule.layers:
            visited = next(flag)
            together = tuple(node for node in layer if next(flag))
            if together or (schedule.absolute and visited):
                sets.append(together)
        if len(sets) == before and not schedule.absolute:
            sets.append(())
    return tuple(sets)
