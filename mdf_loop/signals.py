"""What is asked of the operating system about signals, and who is told of one.

    SIGINT             a run in the main thread hears of it, unless the program has a handler for it
    SIGTERM, SIGHUP    left alone, but by the command line (`heeded`): then a run hears of them, too

Nothing is asked for but while a run or a command lasts. A first signal is taken by who listens, such
as a run, which then saves what it has reached; where nobody listens, or for a second time, it ends
what is being done at once.

A handler of Python waits for the main thread. So while a run lasts signals also ring a `Bell`, which
a thread hears; what was rung is passed on to whom it was for before (asyncio has such a descriptor).
A forked process is in no run of its parent: nothing of this is left in it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TypeAlias

from mdf_loop.stopped_by import StoppedBy

REASONS: dict[int, StoppedBy] = {
    signal.SIGINT: StoppedBy.INTERRUPTED,
    signal.SIGTERM: StoppedBy.TERMINATED,
}
"""What a signal means for a run."""

_system: Any = importlib.import_module("_signal")
"""What `signal` calls, which makes members of enums of all numbers: that is 10 us more in each run."""

_USUAL: dict[int, Any] = {
    int(signal.SIGINT): signal.default_int_handler,
    int(signal.SIGTERM): _system.SIG_DFL,
}
"""What becomes of a signal that a program says nothing about."""

if hasattr(signal, "SIGHUP"):
    REASONS[signal.SIGHUP] = StoppedBy.HUNG_UP
    _USUAL[int(signal.SIGHUP)] = _system.SIG_DFL

ECHO = 1.0
"""Seconds in which a second SIGTERM or SIGHUP is the first one once more: `timeout` sends each twice,
and of a terminal that is closed both the system and the shell tell."""

Listener: TypeAlias = Callable[[StoppedBy], bool]
"""Is told of a signal in the main thread; whether it is the first one for it, so that it is taken."""

_LISTENERS: list[Listener] = []
_TAKEN: set[int] = set()
_LAST: dict[int, float] = {}

_interrupts = 0
_commands = 0


class Signalled(KeyboardInterrupt):
    """A signal has ended what was done, or did so after it was finished.

    Attributes:
        reason: which one.
        results: what was reached (`Results`), if it came when that was already there.
    """

    def __init__(self, reason: StoppedBy) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.results: Any = None


def ending(reason: StoppedBy) -> KeyboardInterrupt:
    """What is raised where a signal ends all at once; of Ctrl-C it is Python's own."""
    return KeyboardInterrupt() if reason is StoppedBy.INTERRUPTED else Signalled(reason)


# --- handlers -------------------------------------------------------------------------------------


def in_main_thread() -> bool:
    """Whether signals are for the one who asks."""
    return threading.current_thread() is threading.main_thread()


def take(numbers: Iterable[int]) -> list[int]:
    """Let listeners hear of those of the signals that the program says nothing about."""
    taken = []
    for number in numbers:
        if _system.getsignal(number) == _USUAL[number]:
            _system.signal(number, _handle)
            _TAKEN.add(number)
            taken.append(number)
    return taken


def give_back(taken: Iterable[int]) -> None:
    """The other way round; a handler that came in between stays."""
    for number in taken:
        if _system.getsignal(number) is _handle:
            _system.signal(number, _USUAL[number])
        _TAKEN.discard(number)


def listen(listener: Listener) -> None:
    """From now on it is told."""
    _LISTENERS.append(listener)


def listen_no_more(listener: Listener) -> None:
    """From now on it is not."""
    if listener in _LISTENERS:  # it is not where a forked process has left the run
        _LISTENERS.remove(listener)


def interrupts() -> int:
    """Return how often Ctrl-C has ended something that went on to give what it had reached."""
    return _interrupts


def count_interrupt() -> None:
    """Count a Ctrl-C that came as a KeyboardInterrupt, where it was caught to give what was reached."""
    global _interrupts
    _interrupts += 1


def in_command() -> bool:
    """Return True within a command of the command line, which has its own way to end."""
    return _commands > 0


def _handle(number: int, frame: FrameType | None) -> None:
    """Python's handler, in the main thread."""
    reason, now = REASONS[number], time.monotonic()
    last = _LAST.get(number)
    _LAST[number] = now
    if number != signal.SIGINT and last is not None and now < last + ECHO:
        return
    if reason is StoppedBy.HUNG_UP:
        _leave_terminal()
    heard = {listener(reason) for listener in tuple(_LISTENERS)}  # each of them
    if True not in heard:
        raise ending(reason)
    if reason is StoppedBy.INTERRUPTED:
        count_interrupt()


def _leave_terminal() -> None:
    """Nobody reads any more what is written to the terminal, and to write there is an error."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, number)
                os.close(nothing)


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """A command: while it lasts all signals in `REASONS` are heeded, but those that are ignored."""
    global _commands
    taken = take(REASONS) if in_main_thread() else []
    _commands += 1
    try:
        yield
    finally:
        _commands -= 1
        give_back(taken)


def let_echoes_pass() -> None:
    """The end of a program: what has ended it, and is sent once more, does not change its exit code."""
    for number in tuple(_TAKEN):
        if number != signal.SIGINT and time.monotonic() < _LAST.get(number, -ECHO) + ECHO:
            _system.signal(number, _system.SIG_IGN)


@contextlib.contextmanager
def finished(*, heard: bool = False) -> Iterator[None]:
    """Finish what is done within before a first signal ends the command, or Ctrl-C a script.

    If one was `heard` before, the next ends it at once.

    Raises:
        Signalled: there was a signal.
    """
    reasons: list[StoppedBy] = []

    def hears(reason: StoppedBy) -> bool:
        reasons.append(reason)
        return len(reasons) == 1

    if heard or not in_main_thread():
        yield
        return
    listen(hears)
    taken = take((int(signal.SIGINT),))
    try:
        yield
    finally:
        give_back(taken)
        listen_no_more(hears)
    if reasons:
        raise Signalled(reasons[0])


# --- the wake-up descriptor -----------------------------------------------------------------------


class Bell:
    """A socket that signals write their numbers to at once, while it hangs.

    Attributes:
        socket: what to wait for; whoever waits then asks what was `heard`.
    """

    def __init__(self) -> None:
        self.socket, self._writing = socket.socketpair()
        self.socket.setblocking(False)
        self._writing.setblocking(False)
        self._before = -1
        self._own = self._writing.fileno()

    def ring(self) -> None:
        """Wake who waits, without a signal."""
        with contextlib.suppress(BlockingIOError):  # it is full of reasons to look
            self._writing.send(b"\0")

    def hang(self) -> bool:
        """Let signals ring; whether they did not yet."""
        before = signal.set_wakeup_fd(self._own, warn_on_full_buffer=False)
        if before == self._own:
            return False
        self._before = before
        _HANGING.append(self)
        return True

    def take_down(self) -> None:
        """The other way round; a descriptor that came in between stays."""
        if self in _HANGING:
            _HANGING.remove(self)
            _replace(self._own, self._before)

    def leave(self) -> None:
        """In a forked process: it is the parent's."""
        _replace(self._own, -1)

    def heard(self) -> bytes | None:
        """What has rung, 0 for no signal; None if nothing has.

        It is passed on to the descriptor that was there before.
        """
        try:
            data = self.socket.recv(4096)
        except BlockingIOError:
            return None
        numbers = data.replace(b"\0", b"")
        if numbers and self._before != -1:
            with contextlib.suppress(OSError):  # it is full, or was closed
                os.write(self._before, numbers)
        return data


_HANGING: list[Bell] = []


def _replace(own: int, other: int) -> None:
    """Put the other descriptor where the own one is, if it is there."""
    now = signal.set_wakeup_fd(-1)
    if now == own:
        now = other
    if now != -1:
        with contextlib.suppress(OSError, ValueError):  # it was closed
            signal.set_wakeup_fd(now)


def reasons_in(data: bytes) -> set[StoppedBy]:
    """The reasons to stop in what a bell has rung: not those that the program handles itself."""
    return {REASONS[n] for n in data if n in REASONS and signal.getsignal(n) is _handle}


# --- a forked process -----------------------------------------------------------------------------


def _leave() -> None:
    """All is as if there were no run."""
    give_back(tuple(_TAKEN))
    for bell in _HANGING:
        bell.leave()
    _HANGING.clear()
    _LISTENERS.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave)
