"""Workers that die after they announce a result and before it is fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mdf_loop.cluster.clients import Connection
from mdf_loop.cluster.tasks import Outcome, SchedulerGoneError, Tasks

pytest.importorskip("distributed")

Fetch = Callable[[], Any]


class Future:
    """Future whose result is complete at once."""

    status = "finished"

    def __init__(self, fetch: Fetch) -> None:
        self.result = fetch

    def add_done_callback(self, then: Callable[[Future], None]) -> None:
        then(self)

    def release(self) -> None:
        pass


class Client:
    """Client of one worker with prepared answers."""

    status = "running"

    def __init__(self, *answers: Fetch) -> None:
        # The first answer is for the data shared by all items.
        self._answers = [lambda: None, *answers]

    def submit(self, function: Any, *values: Any, pure: bool) -> Future:
        return Future(self._answers.pop(0))

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": ["one"]}


def test_a_lost_result_is_computed_again() -> None:
    client = Client(failing_fetch(OSError("connection reset by peer")), lambda: 7)
    tasks = Tasks(Connection(client), max, None, retries=0)
    assert [*tasks.outcomes(["a"], lambda: None)] == [Outcome("a", 7, None)]


def test_a_scheduler_that_dies_before_fetching() -> None:
    client = Client(failing_fetch(OSError("connection reset by peer")))
    tasks = Tasks(Connection(client), max, None, retries=0)
    client.status = "closed"
    with pytest.raises(SchedulerGoneError, match="scheduler of the cluster is gone"):
        [*tasks.outcomes(["a"], lambda: None)]


def failing_fetch(error: Exception) -> Fetch:
    """Return a fetch that raises an error."""

    def fetch() -> Any:
        raise error

    return fetch
