"""Locks that stay usable in the parent and in the child after a fork of the process.

A fork copies only the thread that calls it. A lock that another thread holds at that moment would stay
locked in the child forever, and the guarded data may be incomplete there. The package has two locks:

    ForkSafeLock        guards data that are consistent at any moment: the child gets a new lock
    LockHeldOverForks   guards a library with internal state: a fork waits until the lock is free
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import weakref
from typing import Any

MAX_IMPORT_WAIT_SECONDS = 10.0
"""Largest number of seconds that a fork waits for imports of other threads.

The wait is limited, because such an import may wait for the forking thread."""

IMPORT_CHECK_SECONDS = 0.001
"""Seconds between two checks for imports of other threads."""


class ForkSafeLock:
    """Reentrant lock that is free in the child of a fork, unless the forking thread holds it."""

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

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, and return True.

        If another thread holds the lock, return False at once if `blocking` is False, or after `timeout` seconds.
        A negative `timeout` is no limit.
        """
        is_acquired = self._lock.acquire(blocking, timeout)
        if is_acquired:
            self._owner = threading.get_ident()
            self._depth += 1
        return is_acquired

    def release(self) -> None:
        """Undo one `acquire` of the reentrant lock."""
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
        self._lock.release()

    def renew_in_child(self) -> None:
        """Replace the lock in the child of a fork, unless the forking thread holds the lock.

        The forking thread is the only thread of the child.
        """
        if self._owner != threading.get_ident():
            self._lock, self._owner, self._depth = threading.RLock(), None, 0


class LockHeldOverForks:
    """Reentrant lock that is acquired before a process forks and released afterwards.

    A thread must not hold two such locks at once, so that a fork can acquire all of them in any order. The
    locks exist until the process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS_HELD_OVER_FORKS.append(self)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock."""
        self._lock.acquire()

    def release(self) -> None:
        """Undo one `acquire` of the reentrant lock."""
        self._lock.release()


_LOCKS: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_LOCKS_HELD_OVER_FORKS: list[LockHeldOverForks] = []


# --- handlers of forks ----------------------------------------------------------------------------


def _before_fork() -> None:
    """Acquire all `LockHeldOverForks`, and wait until no other thread is importing."""
    deadline = time.monotonic() + MAX_IMPORT_WAIT_SECONDS
    while True:
        for lock in _LOCKS_HELD_OVER_FORKS:
            lock.acquire()
        if not _is_importing_elsewhere() or time.monotonic() > deadline:
            return
        _release_all()  # the import may need one of the locks
        time.sleep(IMPORT_CHECK_SECONDS)


def _release_all() -> None:
    """Release all `LockHeldOverForks`."""
    for lock in _LOCKS_HELD_OVER_FORKS:
        lock.release()


def _after_fork_in_child() -> None:
    """Replace locks held by threads that do not exist in the forked child."""
    for lock in tuple(_LOCKS):
        lock.renew_in_child()
    _release_all()


def _is_importing_elsewhere() -> bool:
    """Return True if another thread imports a module.

    Python has a lock for each module that is being imported. The lock stays locked in the child of a fork.
    """
    bootstrap_module: Any = getattr(importlib, "_bootstrap", None)
    module_locks = (
        lock_reference()
        for lock_reference in tuple(getattr(bootstrap_module, "_module_locks", {}).values())
    )
    owner_threads = {getattr(module_lock, "owner", None) for module_lock in module_locks}
    return not owner_threads <= {None, threading.get_ident()}


if sys.platform != "win32":
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_release_all,
        after_in_child=_after_fork_in_child,
    )
