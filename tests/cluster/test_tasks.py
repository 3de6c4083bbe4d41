"""Who has a result may die between the word that it is there and its fetching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mdf_loop.cluster.tasks import Outcome, SchedulerGoneError, Tasks

pytest.importorskip("distributed")

Fetch = Callable[[], Any]


class Future:
    """What a client gives for something that is asked for: here it is there at once."""

    status = "finished"

    def __init__(self, fetch: Fetch) -> None:
        self.result = fetch

    def add_done_callback(self, then: Callable[[Future], None]) -> None:
        then(self)

    def release(self) -> None:
        pass


class Client:
    """A client of one worker that answers what it is told to, in turn."""

    status = "running"

    def __init__(self, *answers: Fetch) -> None:
        self._answers = [lambda: None, *answers]  # the first is for what all items share

    def submit(self, function: Any, *values: Any, pure: bool) -> Future:
        return Future(self._answers.pop(0))

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": ["one"]}


def test_a_result_whose_worker_died_is_computed_again() -> None:
    client = Client(raised(OSError("connection reset by peer")), lambda: 7)
    tasks = Tasks(client, max, None, retries=0)
    assert [*tasks.outcomes(["a"], lambda: None)] == [Outcome("a", 7, None)]


def test_a_scheduler_that_died_before_the_result_was_fetched() -> None:
    client = Client(raised(OSError("connection reset by peer")))
    tasks = Tasks(client, max, None, retries=0)
    client.status = "closed"
    with pytest.raises(SchedulerGoneError, match="scheduler of the cluster is gone"):
        [*tasks.outcomes(["a"], lambda: None)]


def raised(error: Exception) -> Fetch:
    """A fetching that fails."""

    def fetch() -> Any:
        raise error

    return fetch
