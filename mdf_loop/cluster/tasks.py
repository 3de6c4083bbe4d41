"""Evaluation of a function for many items on a cluster, with results in order of completion.

Only a few items per worker are submitted at once, which limits the number of waiting outcomes. An item
whose worker dies is submitted again. The data that all items share are sent once, and are a task of the
scheduler, which recomputes them after all workers have died.
"""

from __future__ import annotations

import pickle
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mdf_loop.cluster.clients import Connection
from mdf_loop.errors import RunError
from mdf_loop.stopped_by import StopReason

SCHEDULER_LOSS_SECONDS = 10.0
"""Seconds without a connection after which the scheduler counts as ended."""

_ITEMS_PER_WORKER = 2
"""Number of items per worker that are submitted at once."""

_POLL_SECONDS = 0.1
"""Seconds between two checks of the scheduler."""

ItemType = TypeVar("ItemType")
ResultType = TypeVar("ResultType")


class SchedulerGoneError(RunError):
    """Error that the scheduler of a cluster has ended or cannot be reached."""


class WorkerDiedError(RunError):
    """Error that the workers of a work item died, and no retries are left."""


class Outcome(Struct, Generic[ItemType, ResultType], frozen=True):
    """Outcome of the computation of one work item: a result, or an error."""

    item: ItemType
    result: ResultType | None
    error: Exception | None


class Tasks(Generic[ItemType, ResultType]):
    """Evaluation of `function(shared, item)` for many items on the workers of a cluster."""

    def __init__(
        self,
        connection: Connection,
        function: Callable[[Any, ItemType], ResultType],
        shared: Any,
        retries: int,
    ) -> None:
        self._connection, self._client = connection, connection.client
        self._function = function
        self._retries = retries
        self._finished_tasks: queue.SimpleQueue[tuple[Any, ItemType, int]] = queue.SimpleQueue()
        self._submitted_futures: set[Any] = set()
        self._loss_time: float | None = None
        self._worker_count = 0
        self._pickled_data = pickle.dumps(shared)
        self._shared_future = self._submit_shared()

    def outcomes(
        self, items: Iterable[ItemType], stopped: Callable[[], StopReason | None]
    ) -> Iterator[Outcome[ItemType, ResultType]]:
        """Yield each work item's outcome in order of completion, until `stopped` returns a reason.

        Raises:
            SchedulerGoneError: The scheduler ended.
            RunError: The processes of this machine cannot start.
        """
        remaining_items = iter(items)
        try:
            self._submit_all(islice(remaining_items, self._capacity()))
            while self._submitted_futures and stopped() is None:
                outcome = self._next_outcome()
                if outcome is not None:
                    yield outcome
                self._submit_all(
                    islice(remaining_items, max(0, self._capacity() - len(self._submitted_futures)))
                )
        finally:
            for future in self._submitted_futures:
                future.release()
            self._submitted_futures.clear()

    def _submit_shared(self) -> Any:
        """Submit the data shared by all work items to the cluster, as one task."""
        return self._client.submit(_unpack, self._pickled_data, pure=False)

    def has_workers(self) -> bool:
        """Return True if at least one worker is connected to the cluster."""
        return self._worker_count > 0 or self._count_workers() > 0

    def _count_workers(self) -> int:
        """Return the number of workers in the cluster."""
        self._worker_count = len(self._client.scheduler_info(n_workers=-1)["workers"])
        return self._worker_count

    def _capacity(self) -> int:
        """Return the maximum number of work items that are submitted at the same time."""
        return _ITEMS_PER_WORKER * max(1, self._count_workers())

    def _submit_all(self, items: Iterable[ItemType]) -> None:
        """Submit several work items to the cluster, each as one task."""
        for item in items:
            self._submit(item, 0)

    def _submit(self, item: ItemType, death_count: int) -> None:
        """Submit one work item to the cluster as a task.

        `death_count` is the number of workers that died while they computed the item.
        """
        future = self._client.submit(self._function, self._shared_future, item, pure=False)
        self._submitted_futures.add(future)
        future.add_done_callback(
            lambda future: self._finished_tasks.put((future, item, death_count))
        )

    def _next_outcome(self) -> Outcome[ItemType, ResultType] | None:
        """Return the outcome of the next completed work item, or None after a short wait."""
        try:
            future, item, death_count = self._finished_tasks.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            self._check_scheduler()
            return None
        self._submitted_futures.discard(future)
        if future.status == "finished":
            with suppress(*_fetch_errors()):
                return Outcome(item, future.result(), None)
        if future.status == "error":
            return self._retry_or_report_failure(future.exception(), item, death_count)
        self._check_scheduler()
        self._submit(item, death_count)  # the worker ended before the result was fetched
        return None

    def _retry_or_report_failure(
        self, error: Exception, item: ItemType, death_count: int
    ) -> Outcome[ItemType, ResultType] | None:
        """Submit a work item again if its worker died, else return an outcome with the error.

        The item is submitted again at most `retries` times. The result is then None.
        """
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            return Outcome(item, None, error)
        if (
            self._shared_future.status == "error"
        ):  # workers died while they unpacked the shared data
            self._shared_future = self._submit_shared()
        if death_count < self._retries:
            self._submit(item, death_count + 1)
            return None
        attempt_count = death_count + 1
        return Outcome(
            item,
            None,
            WorkerDiedError(
                f"its worker died {'once' if attempt_count == 1 else f'{attempt_count} times'}",
                hint="the worker may lack memory: a smaller block needs less (block, --block)",
            ),
        )

    def _check_scheduler(self) -> None:
        """Raise an error if the scheduler is gone, or if local worker processes cannot start.

        Raises:
            SchedulerGoneError: The scheduler ended, or has been unreachable for a while.
            RunError: The processes of this machine cannot start.
        """
        self._connection.check()
        if self._client.status == "running":
            self._loss_time = None
            return
        self._loss_time = self._loss_time or time.monotonic()
        if (
            self._client.status == "closed"
            or time.monotonic() - self._loss_time > SCHEDULER_LOSS_SECONDS
        ):
            raise SchedulerGoneError("the scheduler of the cluster is gone")


def _fetch_errors() -> tuple[type[BaseException], ...]:
    """Return the exception types that Dask raises if a worker or scheduler with results died."""
    from distributed import CancelledError, KilledWorker

    return OSError, CancelledError, KilledWorker


def _unpack(packed: bytes) -> Any:
    """Return the object in pickled bytes."""
    return pickle.loads(packed)  # the user's own client has sent these data
