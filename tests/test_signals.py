"""Signal handlers and wakeup descriptors during runs; tests/cli/test_interrupted.py tests whole processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import signals
from mdf_loop.ir import StopReason
from mdf_loop.run.control.stopping import Stopping
from tests.long_runs.processes import ENDLESS, WALK

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def unchanged_handlers() -> Iterator[None]:
    """Check that a test leaves all signal handlers and the wakeup descriptor unchanged."""
    descriptor = signal.set_wakeup_fd(-1)
    state_before = {number: signal.getsignal(number) for number in ALL}
    signals._LAST_SIGNAL_TIMES.clear()
    yield
    assert {number: signal.getsignal(number) for number in ALL} == state_before
    assert signal.set_wakeup_fd(descriptor) == -1


def run(progress: Callable[[Any], object]) -> mdf_loop.Results:
    """Run a model over several chunks with a progress callback."""
    return mdf_loop.compile(WALK["g"], native="off").run(
        steps=300_000, only=["walk.x"], progress=progress
    )


# --- handlers of programs -------------------------------------------------------------------------


def test_a_run_leaves_other_signals_unchanged() -> None:
    with Stopping():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.slow
def test_a_handler_of_the_program_is_kept() -> None:
    """Check that only the handler of the program is called, and that the run continues."""
    numbers: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: numbers.append(number))

    def interrupt(progress: Any) -> None:
        if 0 < progress.done < 300_000 and len(numbers) < 3:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.01)  # gives the watcher thread time to react

    try:
        results = run(interrupt)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert numbers
    assert results.stopped_by is StopReason.COMPLETED
    assert len(results["walk.x"]) == 300_000


def test_a_handler_installed_during_a_run_is_kept() -> None:
    def own(number: int, _: Any) -> None:
        pass

    try:
        with Stopping() as stopping:
            signal.signal(signal.SIGINT, own)
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.01)
        assert signal.getsignal(signal.SIGINT) is own
        assert stopping.reason is None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.handling_signals(), Stopping() as stopping:
            signal.raise_signal(signal.SIGHUP)
            time.sleep(0.01)
        assert stopping.reason is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


# --- a command ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGINT, StopReason.INTERRUPTED), (signal.SIGTERM, StopReason.TERMINATED)],
)
def test_a_second_signal_ends_at_once(monkeypatch, number, reason) -> None:
    monkeypatch.setattr(signals, "REPETITION_SECONDS", 0.0)
    with signals.handling_signals():
        with Stopping() as stopping:
            signal.raise_signal(number)
            assert stopping.reason is stopping.received_signal is reason
            with pytest.raises(KeyboardInterrupt) as caught:
                signal.raise_signal(number)
        assert getattr(caught.value, "reason", StopReason.INTERRUPTED) is reason


def test_a_second_signal_may_be_of_another_kind() -> None:
    with signals.handling_signals(), Stopping() as stopping:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stopping.reason is StopReason.TERMINATED


def test_a_signal_without_a_run_ends_at_once() -> None:
    with signals.handling_signals(), pytest.raises(signals.Signalled) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.reason is StopReason.TERMINATED


def actions_with_signal(number: int, *, heard: bool = False) -> tuple[list[str], Any]:
    """Send a signal between two actions; return the completed actions and the stop reason."""
    actions = ["one"]
    try:
        with signals.delaying_interrupt(heard=heard):
            signal.raise_signal(number)
            actions.append("two")
    except KeyboardInterrupt as interrupt:
        return actions, getattr(interrupt, "reason", None)
    return actions, "nothing"


def test_a_command_completes_an_action_before_it_ends() -> None:
    with signals.handling_signals():
        outcome = actions_with_signal(signal.SIGTERM)
        assert outcome == (["one", "two"], StopReason.TERMINATED)
        assert actions_with_signal(signal.SIGINT, heard=True) == (["one"], None)


def test_ctrl_c_in_a_script_waits_for_the_end_of_an_action() -> None:
    saved = actions_with_signal(signal.SIGINT)
    assert saved == (["one", "two"], StopReason.INTERRUPTED)
    assert actions_with_signal(signal.SIGINT, heard=True) == (["one"], None)


def test_a_signal_in_a_short_evaluation_is_not_lost() -> None:
    compiled = mdf_loop.compile(ENDLESS, device="cpu", max_iterations=10)
    unbroken_run = compiled.run()
    once = compiled.prepared.latest_evaluation.single_run
    running = once.session.run

    def interrupted(*arguments: Any) -> Any:
        arrays = running(*arguments)
        signal.raise_signal(signal.SIGINT)
        return arrays

    once.session.run = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt) as caught:
        compiled.run()
    results = caught.value.results  # type: ignore[attr-defined]
    assert results.stopped_by is StopReason.INTERRUPTED
    assert {name: np.asarray(a).tolist() for name, a in results.items()} == {
        name: np.asarray(a).tolist() for name, a in unbroken_run.items()
    }


# --- asyncio --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_handlers_of_asyncio_are_called_after_the_run(number) -> None:
    numbers: list[int] = []

    def interrupt(progress: Any) -> None:
        if progress.done == 0:
            signal.raise_signal(number)

    async def main() -> mdf_loop.Results:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(number, numbers.append, number)
        try:
            results = run(interrupt)
            await asyncio.sleep(0.01)
            return results
        finally:
            loop.remove_signal_handler(number)

    loop = asyncio.new_event_loop()
    try:
        results = loop.run_until_complete(main())
    finally:
        loop.close()
    assert numbers == [number]
    assert results.stopped_by is StopReason.COMPLETED
    if number == signal.SIGINT:  # asyncio restores Python's own handler
        assert signal.getsignal(number) is signal.default_int_handler


def test_a_descriptor_closed_during_a_run_is_not_restored() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    with Stopping() as stopping:
        os.close(writing)
        os.close(reading)
        signal.raise_signal(signal.SIGINT)
    assert stopping.reason is StopReason.INTERRUPTED
    assert signal.set_wakeup_fd(-1) == -1


# --- processes ------------------------------------------------------------------------------------


def test_a_signal_to_a_child_does_not_stop_the_run_of_its_parent() -> None:
    """Check that a signal to the child stops the child, not the run of the parent."""
    with signals.handling_signals(), Stopping() as stopping:
        process = os.fork()
        if process == 0:
            is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            is_default &= signal.set_wakeup_fd(-1) == -1
            try:
                signal.raise_signal(signal.SIGINT)
                os._exit(3)
            except KeyboardInterrupt:
                os._exit(0 if is_default and stopping.reason is None else 4)
        _, status = os.waitpid(process, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)  # gives the watcher thread time to react
        assert stopping.reason is None
        signal.raise_signal(signal.SIGINT)
        assert stopping.reason is StopReason.INTERRUPTED


def test_a_child_can_interrupt_its_own_run() -> None:
    with Stopping(60.0):
        process = os.fork()
        if process == 0:
            with Stopping(60.0) as own:
                signal.raise_signal(signal.SIGINT)
            os._exit(0 if own.reason is StopReason.INTERRUPTED else 1)
        _, status = os.waitpid(process, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_run_in_another_thread_is_not_interrupted() -> None:
    reasons = []

    def in_thread() -> None:
        with Stopping(0.05) as stopping:
            while stopping.reason is None:
                time.sleep(0.001)
        reasons.append(stopping.reason)

    thread = threading.Thread(target=in_thread)
    with Stopping():
        thread.start()
        signal.raise_signal(signal.SIGINT)
        thread.join()
    assert reasons == [StopReason.TIME_LIMIT]
