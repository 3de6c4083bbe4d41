"""One function of many items, computed by all workers: results come as they are made.

A few items for each worker are asked for at once, so what waits here is bounded. An item whose worker
dies is asked for again. What all items share is sent once, and kept by the scheduler as a task, so that
it is there again when all workers have died.
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

from mdf_loop.errors import RunError
from mdf_loop.stopped_by import StoppedBy

LOST = 10.0
"""Seconds without a scheduler after which it is taken for gone."""

_AHEAD = 2
"""Items for each worker that are asked for at once."""

_LOOKS = 0.1
"""Seconds between two looks at whether all goes on."""

T = TypeVar("T")
R = TypeVar("R")


class SchedulerGoneError(RunError):
    """Nobody knows any more what the workers do."""


class WorkerDiedError(RunError):
    """The worker of an item has died, again and again."""


class Outcome(Struct, Generic[T, R], frozen=True):
    """What became of an item: a result, or an error."""

    item: T
    result: R | None
    error: Exception | None


class Tasks(Generic[T, R]):
    """Asks the workers of a client for `function(shared, item)` of many items."""

    def __init__(
        self, client: Any, function: Callable[[Any, T], R], shared: Any, retries: int
    ) -> None:
        self._client = client
        self._function = function
        self._retries = retries
        self._done: queue.SimpleQueue[tuple[Any, T, int]] = queue.SimpleQueue()
        self._asked: set[Any] = set()
        self._since: float | None = None
        self._workers = 0
        self._packed = pickle.dumps(shared)
        self._shared = self._send()

    def outcomes(
        self, items: Iterable[T], stopped: Callable[[], StoppedBy | None]
    ) -> Iterator[Outcome[T, R]]:
        """What becomes of each item, in any order, until somebody stops it.

        Raises:
            SchedulerGoneError: the scheduler is gone.
        """
        waiting = iter(items)
        try:
            self._ask(islice(waiting, self._wanted()))
            while self._asked and stopped() is None:
                outcome = self._next()
                if outcome is not None:
                    yield outcome
                self._ask(islice(waiting, max(0, self._wanted() - len(self._asked))))
        finally:
            for future in self._asked:
                future.release()
            self._asked.clear()

    def _send(self) -> Any:
        return self._client.submit(_unpacked, self._packed, pure=False)

    def have_workers(self) -> bool:
        """Whether anybody has come who computes."""
        return self._workers > 0 or self._count() > 0

    def _count(self) -> int:
        self._workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        return self._workers

    def _wanted(self) -> int:
        return _AHEAD * max(1, self._count())

    def _ask(self, items: Iterable[T]) -> None:
        for item in items:
            self._ask_for(item, 0)

    def _ask_for(self, item: T, died: int) -> None:
        future = self._client.submit(self._function, self._shared, item, pure=False)
        self._asked.add(future)
        future.add_done_callback(lambda future: self._done.put((future, item, died)))

    def _next(self) -> Outcome[T, R] | None:
        """What has become of an item; None if that is not yet known."""
        try:
            future, item, died = self._done.get(timeout=_LOOKS)
        except queue.Empty:
            self._look()
            return None
        self._asked.discard(future)
        if future.status == "finished":
            with suppress(*_lost()):
                return Outcome(item, future.result(), None)
        if future.status == "error":
            return self._failed(future.exception(), item, died)
        self._look()
        self._ask_for(item, died)  # it was lost with who had it
        return None

    def _failed(self, error: Exception, item: T, died: int) -> Outcome[T, R] | None:
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            return Outcome(item, None, error)
        if self._shared.status == "error":  # workers died while it was unpacked there
            self._shared = self._send()
        if died < self._retries:
            self._ask_for(item, died + 1)
            return None
        times = died + 1
        return Outcome(
            item,
            None,
            WorkerDiedError(
                f"its worker died {'once' if times == 1 else f'{times} times'}",
                hint="the worker may lack memory: a smaller block needs less (block, --block)",
            ),
        )

    def _look(self) -> None:
        """Look whether the scheduler is there."""
        if self._client.status == "running":
            self._since = None
            return
        self._since = self._since or time.monotonic()
        if self._client.status == "closed" or time.monotonic() - self._since > LOST:
            raise SchedulerGoneError("the scheduler of the cluster is gone")


def _lost() -> tuple[type[BaseException], ...]:
    """What the fetching of a result raises if who has it, or who knows who has it, is gone."""
    from distributed import CancelledError, KilledWorker

    return OSError, CancelledError, KilledWorker


def _unpacked(packed: bytes) -> Any:
    return pickle.loads(packed)  # what this user has sent to his own workers
