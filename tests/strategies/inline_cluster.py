"""A cluster without processes, which computes the blocks of a run in the test process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import pytest

from mdf_loop.api import clustered
from mdf_loop.api.cluster_job import ComputedBlock, Job, write_block
from mdf_loop.cluster.clients import Connection
from mdf_loop.cluster.partition import MemberBlock
from mdf_loop.cluster.tasks import Outcome
from mdf_loop.stopped_by import StopReason


class InlineTasks:
    """`Tasks` that computes each block on retrieval; `blocks` collects the block numbers."""

    blocks: ClassVar[list[int]] = []

    def __init__(self, connection: Any, function: Any, shared: Job, retries: int) -> None:
        self._job = shared

    def has_workers(self) -> bool:
        """Return True, since the test process is the worker."""
        return True

    def outcomes(
        self, items: Iterable[MemberBlock], stopped: Callable[[], StopReason | None]
    ) -> Iterator[Outcome[MemberBlock, ComputedBlock]]:
        """Compute the blocks as a worker does."""
        for block in items:
            if stopped() is not None:
                return
            self.blocks.append(block.block_number)
            outcome = self._job.compute_block(block.first_member, block.end_member)
            if self._job.store is not None:
                write_block(self._job.store, block, outcome)
                outcome = ComputedBlock((), outcome.failures, outcome.first_nonfinite_value)
            yield Outcome(block, outcome, None)


class InlineConnecting:
    """`ConnectionThread` that connects immediately."""

    def __init__(self, cluster: Any, is_stopped: Callable[[], bool], head_start: float) -> None:
        pass

    def begin(self) -> None:
        """Do nothing, since a cluster without processes needs no connection."""

    def connection(self, report: Callable[[], object]) -> Connection:
        """Return a connection without a client."""
        return Connection(None)

    def close(self, seconds: float) -> None:
        """Do nothing, since no connection is open."""


def compute_inline(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let runs on a cluster compute in this process; return the list of block numbers, which grows."""
    monkeypatch.setattr(clustered, "Tasks", InlineTasks)
    monkeypatch.setattr(clustered, "ConnectionThread", InlineConnecting)
    monkeypatch.setattr(clustered, "dashboard_text", lambda client: "")
    monkeypatch.setattr(InlineTasks, "blocks", [])
    return InlineTasks.blocks
