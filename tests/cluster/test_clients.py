"""Connections to a cluster that are stopped while they are opened."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from mdf_loop.cluster import clients


def test_a_stop_that_the_thread_of_the_connection_notices_first_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread cancels the connection before the waiting loop checks for the stop."""
    is_over = Event()

    def cancelled(cluster: Any, is_stopped: Any) -> Any:
        is_over.wait()
        raise clients._StoppedError

    monkeypatch.setattr(clients, "_open_connection", cancelled)
    connecting = clients.ConnectionThread(1, is_over.is_set)
    assert connecting.connection(lambda: None if is_over.is_set() else is_over.set()) is None
    connecting.close(10)


def test_a_stop_during_the_wait_for_the_outcome_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The waiting loop has just checked that nothing is stopped, and receives the cancelled connection."""

    def cancelled(cluster: Any, is_stopped: Any) -> Any:
        raise clients._StoppedError

    monkeypatch.setattr(clients, "_open_connection", cancelled)
    connecting = clients.ConnectionThread(1, lambda: False)
    assert connecting.connection() is None
    connecting.close(10)
