"""Signal handlers of the process, and their listeners.

    SIGINT             a run in the main thread hears of it, unless the program has a handler for it
    SIGTERM, SIGHUP    left alone, but by the command line (`heeded`): then a run hears of them, too

Nothing is asked for but while a run or a command lasts. A first signal is taken by who listens, such
as a run, which then saves what it has reached; where nobody listens, or for a second time, it ends
what is being done at once.

A handler of Python waits for the main thread. So while a run lasts signals also ring a `WakeupSocket`, which
a thread hears; what was rung is passed on to whom it was for before (asyncio has such a descriptor).
The command line has a watchdog, too (`mdf_loop.cli.watchdog`), which ends the process if the main thread
does not answer a signal.

Nothing is raised while a command starts or imports a module: an exception within the import of a module of C++
can end the process by SIGSEGV. While it starts the process is ended at once instead, since nothing is computed
yet; later the watchdog calls the handler again when the import is over.
A forked process is in no run of its parent: nothing of this is left in it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TypeAlias

from mdf_loop.stopped_by import StopReason

REASONS: dict[int, StopReason] = {
    signal.SIGINT: StopReason.INTERRUPTED,
    signal.SIGTERM: StopReason.TERMINATED,
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
    REASONS[signal.SIGHUP] = StopReason.HUNG_UP
    _USUAL[int(signal.SIGHUP)] = _system.SIG_DFL

ECHO = 1.0
"""Seconds in which a second SIGTERM or SIGHUP is the first one once more: `timeout` sends each twice,
and of a terminal that is closed both the system and the shell tell."""

Listener: TypeAlias = Callable[[StopReason], bool]
"""Is told of a signal in the main thread; whether it is the first one for it, so that it is taken."""

_LISTENERS: list[Listener] = []
_TAKEN: set[int] = set()
_LAST: dict[int, float] = {}

_interrupts = 0
_commands = 0

_end_process: Callable[[StopReason], object] | None = None
"""Function that ends the process at a signal; None where a signal raises an exception."""

_can_defer = False
"""True if a watchdog calls the handler again for the signals in `DEFERRED`."""

DEFERRED: set[int] = set()
"""Signals that came while the main thread imported a module, and were given to no listener."""

_finishing = 0
_answered = False
_has_abandoned_thread = False


class Signalled(KeyboardInterrupt):
    """Interruption by a signal, either of a computation or after its end.

    Attributes:
        reason: which one.
        results: what was reached (`Results`), if it came when that was already there.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.results: Any = None


def ending(reason: StopReason) -> KeyboardInterrupt:
    """Return the exception for a signal that ends everything; Python's own for Ctrl-C."""
    return KeyboardInterrupt() if reason is StopReason.INTERRUPTED else Signalled(reason)


# --- handlers -------------------------------------------------------------------------------------


def in_main_thread() -> bool:
    """Return True in the main thread, which receives signals."""
    return threading.current_thread() is threading.main_thread()


def take(numbers: Iterable[int]) -> list[int]:
    """Install handlers for those signals that the program does not handle itself, and return their numbers."""
    numbers_taken = []
    for number in numbers:
        if _system.getsignal(number) == _USUAL[number]:
            _system.signal(number, _handle)
            _TAKEN.add(number)
            numbers_taken.append(number)
    return numbers_taken


def give_back(numbers: Iterable[int]) -> None:
    """Remove handlers that were installed by `take`. Later handlers stay."""
    for number in numbers:
        if _system.getsignal(number) is _handle:
            _system.signal(number, _USUAL[number])
        _TAKEN.discard(number)


def listen(listener: Listener) -> None:
    """Add a listener."""
    _LISTENERS.append(listener)


def listen_no_more(listener: Listener) -> None:
    """Remove a listener."""
    if listener in _LISTENERS:  # it is not where a forked process has left the run
        _LISTENERS.remove(listener)


def interrupts() -> int:
    """Return how often Ctrl-C has ended a call that returned partial results."""
    return _interrupts


def count_interrupt() -> None:
    """Count a Ctrl-C whose KeyboardInterrupt was caught to return partial results."""
    global _interrupts
    _interrupts += 1
    answer()


def in_command() -> bool:
    """Return True within a command of the command line, which has its own way to end."""
    return _commands > 0


def is_echo(number: int, last: float | None, now: float) -> bool:
    """Return True if a signal at `now` is the one at `last` once more."""
    return number != signal.SIGINT and last is not None and now < last + ECHO


def _handle(number: int, frame: FrameType | None) -> None:
    """Handle a signal in the main thread."""
    global _interrupts
    reason, now = REASONS[number], time.monotonic()
    last = _LAST.get(number)
    _LAST[number] = now
    if number in DEFERRED:
        DEFERRED.discard(number)
    elif is_echo(number, last, now):
        return
    if _end_process is not None:
        _end_process(reason)
    if reason is StopReason.HUNG_UP:
        _leave_terminal()
    heard = {listener(reason) for listener in tuple(_LISTENERS)}  # each of them
    if True not in heard:
        if _can_defer and _is_importing(frame):
            DEFERRED.add(number)
            return
        raise ending(reason)
    if reason is StopReason.INTERRUPTED:
        _interrupts += 1


_IMPORT_SYSTEM = ("importlib._bootstrap", "_frozen_importlib")
"""Names of the module of Python that imports others."""


def _is_importing(frame: FrameType | None) -> bool:
    """Return True if a frame or one of its callers imports a module."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def _leave_terminal() -> None:
    """Redirect terminal output to nowhere, since writing to a closed terminal is an error."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, number)
                os.close(nothing)


@contextlib.contextmanager
def heeded(
    end_process: Callable[[StopReason], object] | None = None, *, to_the_end: bool = False
) -> Iterator[None]:
    """Heed all signals in `REASONS` within a command, except those that are ignored.

    Args:
        end_process: Ends the process for a signal that comes outside of `raising`. None: signals always raise.
        to_the_end: True if the process ends with the command. Its signals are heeded until Python's
            finalization, and ignored during it.
    """
    global _commands, _end_process
    numbers = take(REASONS) if in_main_thread() else []
    if numbers:
        _end_process = end_process
        if to_the_end:  # registered first, so that it is called last
            atexit.register(_ignore_taken)
    _commands += 1
    try:
        yield
    finally:
        _commands -= 1
        if not to_the_end:
            _end_process = None
            give_back(numbers)


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """Let signals raise within a command, whose code can handle the exception."""
    global _end_process
    end_process, _end_process = _end_process, None
    try:
        yield
    finally:
        _end_process = end_process


def _ignore_taken() -> None:
    """Ignore the signals that were heeded, before Python gives them their defaults again."""
    for number in tuple(_TAKEN):
        _system.signal(number, _system.SIG_IGN)


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Let signals that come during an import wait in `DEFERRED` until the handler is called again."""
    global _can_defer
    _can_defer = True
    try:
        yield
    finally:
        _can_defer = False


def answer() -> None:
    """Note that the main thread has taken a signal, and finishes what it has reached."""
    global _answered
    _answered = True


def is_answered() -> bool:
    """Return True if the main thread finishes what it has computed, after a signal or before it."""
    return _answered or _finishing > 0


def abandon_thread() -> None:
    """Note that a thread still computes for a run that has ended."""
    global _has_abandoned_thread
    _has_abandoned_thread = True


def has_abandoned_thread() -> bool:
    """Return True if a thread may still compute for a run that has ended."""
    return _has_abandoned_thread


def let_echoes_pass() -> None:
    """Ignore repetitions of the signal that ended the program, which would change its exit code."""
    for number in tuple(_TAKEN):
        if number != signal.SIGINT and time.monotonic() < _LAST.get(number, -ECHO) + ECHO:
            _system.signal(number, _system.SIG_IGN)


@contextlib.contextmanager
def finished(*, heard: bool = False) -> Iterator[None]:
    """Complete a block before a first signal ends the command, or Ctrl-C a script.

    If one was `heard` before, the next ends it at once.

    Raises:
        Signalled: there was a signal.
    """
    global _finishing
    reasons: list[StopReason] = []

    def hears(reason: StopReason) -> bool:
        reasons.append(reason)
        return len(reasons) == 1

    if not in_main_thread():
        yield
        return
    _finishing += 1
    numbers: list[int] = []
    if not heard:
        listen(hears)
        numbers = take((int(signal.SIGINT),))
    try:
        yield
    finally:
        _finishing -= 1
        give_back(numbers)
        listen_no_more(hears)
    if reasons:
        raise Signalled(reasons[0])


# --- the wake-up descriptor -----------------------------------------------------------------------


class WakeupSocket:
    """Socket to which signals write their numbers while it is installed.

    Attributes:
        socket: what to wait for; whoever waits then asks what was `heard`.
    """

    def __init__(self) -> None:
        import socket  # here, since a command imports this module before it heeds signals

        self.socket, self._writing = socket.socketpair()
        self.socket.setblocking(False)
        self._writing.setblocking(False)
        self._before = -1
        self._own = self._writing.fileno()

    def ring(self) -> None:
        """Wake the waiting thread without a signal."""
        with contextlib.suppress(BlockingIOError):  # it is full of reasons to look
            self._writing.send(b"\0")

    def hang(self) -> bool:
        """Install the socket, and return True if it was not installed before."""
        before = signal.set_wakeup_fd(self._own, warn_on_full_buffer=False)
        if before == self._own:
            return False
        self._before = before
        _HANGING.append(self)
        return True

    def take_down(self) -> None:
        """Remove the socket. A descriptor that was installed later stays."""
        if self in _HANGING:
            _HANGING.remove(self)
            _replace(self._own, self._before)

    def leave(self) -> None:
        """Forget the socket in a forked process, since it belongs to the parent."""
        _replace(self._own, -1)

    def heard(self) -> bytes | None:
        """Return the received bytes (0 for no signal), or None if there are none.

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


_HANGING: list[WakeupSocket] = []


def _replace(own: int, other: int) -> None:
    """Replace the wake-up descriptor if it is the expected one."""
    now = signal.set_wakeup_fd(-1)
    if now == own:
        now = other
    if now != -1:
        with contextlib.suppress(OSError, ValueError):  # it was closed
            signal.set_wakeup_fd(now)


def reasons_in(data: bytes) -> set[StopReason]:
    """Return the stop reasons of received signal numbers, without signals that the program handles itself."""
    return {REASONS[n] for n in data if n in REASONS and signal.getsignal(n) is _handle}


# --- a forked process -----------------------------------------------------------------------------


def _leave() -> None:
    """Reset all state in a forked process."""
    global _end_process, _can_defer
    _end_process, _can_defer = None, False
    DEFERRED.clear()
    give_back(tuple(_TAKEN))
    for bell in _HANGING:
        bell.leave()
    _HANGING.clear()
    _LISTENERS.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave)
