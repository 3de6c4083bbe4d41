"""Handling of signals such as Ctrl-C, with functions that listen to them.

    SIGINT             handled during a run in the main thread, unless the program has its own handler
    SIGTERM, SIGHUP    handled only by commands of the command line (`handling_signals`), and by runs in commands

Handlers are installed only during a run or a command. A listener, such as a run, handles the first signal
and then saves its partial results. A second signal, or a signal without a listener, ends the computation
at once with an exception.

Python calls handlers in the main thread only, between two operations of the interpreter. So during a run,
signals also write to a `WakeupSocket`, on which another thread waits. The bytes are forwarded to the
previous wake-up descriptor, such as that of asyncio. The command line also has a watchdog
(`mdf_loop.cli.watchdog`), which ends the process if the main thread does not handle a signal.

Signals raise no exception while a command starts or imports a module, since an exception during the import
of a C++ module can cause SIGSEGV. During the start a signal ends the process at once, since nothing is
computed yet. During later imports the signal is deferred, and the watchdog calls the handler again after
the import. A forked process is in no run of its parent, so handlers and listeners are removed in the child.
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
"""Stop reason of each handled signal."""

_signal_module: Any = importlib.import_module("_signal")
"""C module behind `signal`. Direct calls avoid the conversion to enums, which costs 10 us in each run."""

_DEFAULT_HANDLERS: dict[int, Any] = {
    int(signal.SIGINT): signal.default_int_handler,
    int(signal.SIGTERM): _signal_module.SIG_DFL,
}
"""Default handler of each handled signal."""

if hasattr(signal, "SIGHUP"):
    REASONS[signal.SIGHUP] = StopReason.HUNG_UP
    _DEFAULT_HANDLERS[int(signal.SIGHUP)] = _signal_module.SIG_DFL

REPETITION_SECONDS = 1.0
"""Seconds during which a second SIGTERM or SIGHUP counts as a repetition of the first one.

`timeout` sends each signal twice. When a terminal is closed, both the system and the shell send SIGHUP."""

Listener: TypeAlias = Callable[[StopReason], bool]
"""Function that is called in the main thread for a signal.

It returns True if the signal is its first one, so that the listener handles the signal."""

_LISTENERS: list[Listener] = []
_HANDLED_SIGNALS: set[int] = set()
_LAST_SIGNAL_TIMES: dict[int, float] = {}

_interrupt_count = 0
_command_depth = 0

_end_process: Callable[[StopReason], object] | None = None
"""Function that ends the process at a signal, or None if a signal raises an exception."""

_can_defer = False
"""True if a watchdog calls the handler again for the signals in `DEFERRED_SIGNALS`."""

DEFERRED_SIGNALS: set[int] = set()
"""Signals without a listener that arrived while the main thread imported a module."""

_finishing_depth = 0
_is_answered = False
_has_abandoned_thread = False


class Signalled(KeyboardInterrupt):
    """Exception for a signal, with the results if the signal came after the computation.

    Attributes:
        reason: Stop reason of the signal.
        results: `Results` of the computation if the signal came after its end, else None.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.results: Any = None


def stop_exception(reason: StopReason) -> KeyboardInterrupt:
    """Return the exception to raise for a signal: KeyboardInterrupt for Ctrl-C, else `Signalled`."""
    return KeyboardInterrupt() if reason is StopReason.INTERRUPTED else Signalled(reason)


# --- handlers -------------------------------------------------------------------------------------


def in_main_thread() -> bool:
    """Return True in the main thread, which receives signals."""
    return threading.current_thread() is threading.main_thread()


def install_handlers(numbers: Iterable[int]) -> list[int]:
    """Install this module's handler for signals that have their default handler.

    Return the numbers of these signals.
    """
    handled_signal_numbers = []
    for signal_number in numbers:
        if _signal_module.getsignal(signal_number) == _DEFAULT_HANDLERS[signal_number]:
            _signal_module.signal(signal_number, _handle)
            _HANDLED_SIGNALS.add(signal_number)
            handled_signal_numbers.append(signal_number)
    return handled_signal_numbers


def remove_handlers(numbers: Iterable[int]) -> None:
    """Restore the default handlers of signals, unless another handler was installed later."""
    for signal_number in numbers:
        if _signal_module.getsignal(signal_number) is _handle:
            _signal_module.signal(signal_number, _DEFAULT_HANDLERS[signal_number])
        _HANDLED_SIGNALS.discard(signal_number)


def add_listener(listener: Listener) -> None:
    """Add a function to call for each signal."""
    _LISTENERS.append(listener)


def remove_listener(listener: Listener) -> None:
    """Remove a function that is called for each signal, if it was added."""
    if listener in _LISTENERS:  # a fork removes all listeners in the child
        _LISTENERS.remove(listener)


def interrupt_count() -> int:
    """Return how many Ctrl-C signals have led to partial results instead of an exception."""
    return _interrupt_count


def count_interrupt() -> None:
    """Count a Ctrl-C whose KeyboardInterrupt was caught so that partial results are returned."""
    global _interrupt_count
    _interrupt_count += 1
    record_answer()


def in_command() -> bool:
    """Return True inside a command of the `mdf-loop` program, which handles interrupts itself."""
    return _command_depth > 0


def is_repetition(number: int, last: float | None, now: float) -> bool:
    """Return True if a signal at the time `now` repeats the signal at the time `last`."""
    return number != signal.SIGINT and last is not None and now < last + REPETITION_SECONDS


def _handle(number: int, frame: FrameType | None) -> None:
    """Handle a signal in the main thread by calling all listeners or raising an exception."""
    global _interrupt_count
    reason, current_time = REASONS[number], time.monotonic()
    last_time = _LAST_SIGNAL_TIMES.get(number)
    _LAST_SIGNAL_TIMES[number] = current_time
    if number in DEFERRED_SIGNALS:
        DEFERRED_SIGNALS.discard(number)
    elif is_repetition(number, last_time, current_time):
        return
    if _end_process is not None:
        _end_process(reason)
    if reason is StopReason.HUNG_UP:
        _redirect_terminal()
    listener_answers = {listener(reason) for listener in tuple(_LISTENERS)}  # call all of them
    if True not in listener_answers:
        if _can_defer and _is_importing(frame):
            DEFERRED_SIGNALS.add(number)
            return
        raise stop_exception(reason)
    if reason is StopReason.INTERRUPTED:
        _interrupt_count += 1


_IMPORT_SYSTEM = ("importlib._bootstrap", "_frozen_importlib")
"""Names of the module that implements Python's import system."""


def _is_importing(frame: FrameType | None) -> bool:
    """Return True if a stack frame or one of its callers imports a module."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def _redirect_terminal() -> None:
    """Redirect terminal output to the null device, because the terminal was closed."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                null_device = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null_device, descriptor)
                os.close(null_device)


@contextlib.contextmanager
def handling_signals(
    end_process: Callable[[StopReason], object] | None = None, *, to_the_end: bool = False
) -> Iterator[None]:
    """Handle all signals in `REASONS` inside this context of a command, unless they are ignored.

    Args:
        end_process: Function that ends the process for a signal outside of `raising_signals`. With None, signals
            always raise.
        to_the_end: True if the process ends with the command. Signals are then handled until Python's
            finalization, and ignored during it.
    """
    global _command_depth, _end_process
    handled_signal_numbers = install_handlers(REASONS) if in_main_thread() else []
    if handled_signal_numbers:
        _end_process = end_process
        if to_the_end:  # registered first, so that it is called last
            atexit.register(_ignore_handled)
    _command_depth += 1
    try:
        yield
    finally:
        _command_depth -= 1
        if not to_the_end:
            _end_process = None
            remove_handlers(handled_signal_numbers)


@contextlib.contextmanager
def raising_signals() -> Iterator[None]:
    """Make signals raise exceptions inside this context, instead of ending the process."""
    global _end_process
    outer_end_process, _end_process = _end_process, None
    try:
        yield
    finally:
        _end_process = outer_end_process


def _ignore_handled() -> None:
    """Ignore all handled signals at exit, before Python restores their default handlers."""
    for signal_number in tuple(_HANDLED_SIGNALS):
        _signal_module.signal(signal_number, _signal_module.SIG_IGN)


@contextlib.contextmanager
def deferring_signals() -> Iterator[None]:
    """Defer signals that arrive during an import inside this context."""
    global _can_defer
    _can_defer = True
    try:
        yield
    finally:
        _can_defer = False


def record_answer() -> None:
    """Record that the main thread reacts to a signal, so that the watchdog lets it finish."""
    global _is_answered
    _is_answered = True


def is_answered() -> bool:
    """Return True if the main thread reacts to a signal, or is in `delaying_interrupt`."""
    return _is_answered or _finishing_depth > 0


def abandon_thread() -> None:
    """Record that a thread is still computing for a run that has already ended."""
    global _has_abandoned_thread
    _has_abandoned_thread = True


def has_abandoned_thread() -> bool:
    """Return True if a thread may still be computing for a run that has ended."""
    return _has_abandoned_thread


def ignore_repetitions() -> None:
    """Ignore repetitions of the signal that ended the program, to keep its exit code."""
    for signal_number in tuple(_HANDLED_SIGNALS):
        if (
            signal_number != signal.SIGINT
            and time.monotonic()
            < _LAST_SIGNAL_TIMES.get(signal_number, -REPETITION_SECONDS) + REPETITION_SECONDS
        ):
            _signal_module.signal(signal_number, _signal_module.SIG_IGN)


@contextlib.contextmanager
def delaying_interrupt(*, heard: bool = False) -> Iterator[None]:
    """Delay the first signal, such as Ctrl-C, until the end of this context.

    Args:
        heard: True if a signal came before. The next signal then raises at once.

    Raises:
        Signalled: A signal came inside the context.
    """
    global _finishing_depth
    reasons: list[StopReason] = []

    def hears(reason: StopReason) -> bool:
        reasons.append(reason)
        return len(reasons) == 1

    if not in_main_thread():
        yield
        return
    _finishing_depth += 1
    handled_signal_numbers: list[int] = []
    if not heard:
        add_listener(hears)
        handled_signal_numbers = install_handlers((int(signal.SIGINT),))
    try:
        yield
    finally:
        _finishing_depth -= 1
        remove_handlers(handled_signal_numbers)
        remove_listener(hears)
    if reasons:
        raise Signalled(reasons[0])


# --- the wake-up descriptor -----------------------------------------------------------------------


class WakeupSocket:
    """Socket that receives the numbers of signals through Python's wake-up descriptor.

    Attributes:
        socket: Socket to wait for. After it becomes readable, `receive` returns the bytes.
    """

    def __init__(self) -> None:
        import socket  # here: a command imports this module before it handles signals

        self.socket, self._sending_socket = socket.socketpair()
        self.socket.setblocking(False)
        self._sending_socket.setblocking(False)
        self._previous_descriptor = -1
        self._descriptor = self._sending_socket.fileno()

    def wake(self) -> None:
        """Wake the thread that waits on the socket, without sending a signal."""
        with contextlib.suppress(BlockingIOError):  # a full buffer wakes the thread, too
            self._sending_socket.send(b"\0")

    def install(self) -> bool:
        """Install the socket as Python's wake-up descriptor, unless it is installed already.

        Return True if it was not installed before.
        """
        previous_descriptor = signal.set_wakeup_fd(self._descriptor, warn_on_full_buffer=False)
        if previous_descriptor == self._descriptor:
            return False
        self._previous_descriptor = previous_descriptor
        _INSTALLED_SOCKETS.append(self)
        return True

    def uninstall(self) -> None:
        """Restore the file descriptor that `signal.set_wakeup_fd` had before `install`."""
        if self in _INSTALLED_SOCKETS:
            _INSTALLED_SOCKETS.remove(self)
            _replace_wakeup_fd(self._descriptor, self._previous_descriptor)

    def detach_in_child(self) -> None:
        """Remove the wake-up descriptor in a forked process, as the parent owns the socket."""
        _replace_wakeup_fd(self._descriptor, -1)

    def receive(self) -> bytes | None:
        """Return the signal numbers received by the socket as bytes, or None if there are none.

        A byte 0 stands for a wake-up without a signal. Other bytes are forwarded to the previous wake-up
        descriptor.
        """
        try:
            received_bytes = self.socket.recv(4096)
        except BlockingIOError:
            return None
        signal_bytes = received_bytes.replace(b"\0", b"")
        if signal_bytes and self._previous_descriptor != -1:
            with contextlib.suppress(OSError):  # the descriptor is full or closed
                os.write(self._previous_descriptor, signal_bytes)
        return received_bytes


_INSTALLED_SOCKETS: list[WakeupSocket] = []


def _replace_wakeup_fd(own: int, other: int) -> None:
    """Replace a wake-up descriptor by another one, unless a third one is installed."""
    current_descriptor = signal.set_wakeup_fd(-1)
    if current_descriptor == own:
        current_descriptor = other
    if current_descriptor != -1:
        with contextlib.suppress(OSError, ValueError):  # the descriptor is closed
            signal.set_wakeup_fd(current_descriptor)


def reasons_in(data: bytes) -> set[StopReason]:
    """Return the stop reasons of the received signal numbers that this module handles."""
    return {
        REASONS[signal_number]
        for signal_number in data
        if signal_number in REASONS and signal.getsignal(signal_number) is _handle
    }


# --- a forked process -----------------------------------------------------------------------------


def _reset_in_child() -> None:
    """Remove all signal handlers and listeners in a forked process."""
    global _end_process, _can_defer
    _end_process, _can_defer = None, False
    DEFERRED_SIGNALS.clear()
    remove_handlers(tuple(_HANDLED_SIGNALS))
    for wakeup_socket in _INSTALLED_SOCKETS:
        wakeup_socket.detach_in_child()
    _INSTALLED_SOCKETS.clear()
    _LISTENERS.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_reset_in_child)
