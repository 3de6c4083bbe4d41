"""Locks that a fork of the process leaves usable on both sides.

A fork copies only the thread that calls it. A lock that another thread holds at that moment would stay locked in the
child for good, and what the lock guards may be half changed there. Every lock of the package is one of these:

    ForkSafeLock        what it guards is consistent at any moment: the child has a new one
    LockHeldOverForks   it guards a library with a state of its own: a fork waits until no other thread holds it
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import weakref
from typing import Any

LONGEST_WAIT_FOR_IMPORTS = 10.0
"""Seconds that a fork waits for imports of other threads, which may wait for the thread that forks."""

LOOKS_FOR_IMPORTS = 0.001
"""Seconds from one look at the imports of other threads to the next."""


class ForkSafeLock:
    """A lock that is free in the child of a fork, unless the thread that forks holds it.

    One thread may acquire it several times.
    """

    __slots__ = ("__weakref__", "_depth", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._depth = 0
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the lock; return False if `blocking` is False and another thread holds it."""
        acquired = self._lock.acquire(blocking)
        if acquired:
            self._owner = threading.get_ident()
            self._depth += 1
        return acquired

    def release(self) -> None:
        """Undo one `acquire`."""
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
        self._lock.release()

    def renew_in_child(self) -> None:
        """Be free, unless this thread holds the lock: no other thread exists in the child of a fork."""
        if self._owner != threading.get_ident():
            self._lock, self._owner, self._depth = threading.RLock(), None, 0


class LockHeldOverForks:
    """A lock that a fork takes, too, until it is over; the same thread may take it several times.

    No thread may hold two of these at once, so that a fork can take all of them in any order. They live as long as the
    process.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _HELD_OVER_FORKS.append(self)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock."""
        self._lock.acquire()

    def release(self) -> None:
        """Undo one `acquire`."""
        self._lock.release()


_LOCKS: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_HELD_OVER_FORKS: list[LockHeldOverForks] = []


# --- a fork ---------------------------------------------------------------------------------------


def _before_fork() -> None:
    """Wait until no other thread is in a library with a state of its own, or imports a module."""
    deadline = time.monotonic() + LONGEST_WAIT_FOR_IMPORTS
    while True:
        for lock in _HELD_OVER_FORKS:
            lock.acquire()
        if not _is_importing_elsewhere() or time.monotonic() > deadline:
            return
        _release_all()  # the import may need one of the locks
        time.sleep(LOOKS_FOR_IMPORTS)


def _release_all() -> None:
    for lock in _HELD_OVER_FORKS:
        lock.release()


def _after_fork_in_child() -> None:
    """Make locks anew that threads hold which the child does not have."""
    for lock in tuple(_LOCKS):
        lock.renew_in_child()
    _release_all()


def _is_importing_elsewhere() -> bool:
    """Return True if another thread imports a module.

    Python has a lock for each module that is being imported, and leaves it locked in the child of a fork.
    """
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    locks = (reference() for reference in tuple(getattr(bootstrap, "_module_locks", {}).values()))
    owners = {getattr(lock, "owner", None) for lock in locks}
    return not owners <= {None, threading.get_ident()}


if sys.platform != "win32":
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_release_all,
        after_in_child=_after_fork_in_child,
    )
