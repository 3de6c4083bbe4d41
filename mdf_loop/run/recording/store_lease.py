"""Exclusive right of a run to write a Zarr store, guarded by a lock file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mdf_loop.errors import InputError, LoopError
from mdf_loop.files import real_place
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.lock import Lock, describe_this_process
from mdf_loop.run.run_id import describe_run

RENEWAL_SECONDS = 10.0
"""Seconds between two renewals of the lock by a running process, independent of the duration of steps."""


class StoreLease:
    """Exclusive right of a run to write the Zarr store at `path`.

    Attributes:
        path: Path of the store as the user gave it.
        place: Absolute path of the store, independent of the working directory.
        run_id: Id of the run that the rows belong to: this run, or the run that it resumes.
    """

    def __init__(self, path: Path, run: str, lock: Lock, *, overwrite: bool) -> None:
        self.path = path
        self.place = real_place(path)
        self.run_id = run
        self._lock = lock
        self._overwrite = overwrite

    def check(self) -> None:
        """Raise an error if this run does not hold the lock of the store any more.

        Raises:
            InputError: Another run has locked the store.
        """
        self._lock.check()

    def check_place(self) -> None:
        """Raise an error if the path of the store refers to another place than at the start.

        Raises:
            InputError: The path now refers to another place.
        """
        if real_place(self.path) != self.place:
            raise InputError(
                f"'{self.path}' was '{self.place}' when the run began, and is another place now",
                hint="give the output as an absolute path, or stay in one working directory",
            )

    def check_can_create(self) -> None:
        """Raise an error if the path of the store has content that the run must not replace.

        Raises:
            InputError: The path has other content, or the complete rows of another run that must not be
                overwritten.
        """
        self.check_place()
        folder.check_target(self.path)
        stored_attributes = folder.read_own_attributes(self.path)
        is_own = stored_attributes.get(folder.RUN_ATTRIBUTE) == self.run_id
        if stored_attributes and not (
            is_own or folder.UNFINISHED_ATTRIBUTE in stored_attributes or self._overwrite
        ):
            raise InputError(
                f"'{self.path}' has the rows of {describe_run(stored_attributes.get(folder.RUN_ATTRIBUTE))}",
                hint="give the output another name, or say that it may be overwritten "
                "(overwrite=True, --overwrite)",
            )

    def check_can_resume(self) -> None:
        """Raise an error if the rows in the store belong to another run than the one to resume.

        Raises:
            InputError: The rows belong to another run.
        """
        stored_attributes = folder.read_own_attributes(self.path)
        if stored_attributes and stored_attributes.get(folder.RUN_ATTRIBUTE) != self.run_id:
            raise InputError(
                f"the run cannot go on: '{self.path}' has the rows of "
                f"{describe_run(stored_attributes.get(folder.RUN_ATTRIBUTE))}, and no more those of {describe_run(self.run_id)}",
                hint="put its own store back, or begin anew",
            )


@contextmanager
def lease_store(path: Path, run: str, *, overwrite: bool) -> Iterator[StoreLease]:
    """Yield the exclusive right to write a Zarr store, and release it at exit.

    Raises:
        InputError: Another run writes the store.
    """
    lock = Lock(path, describe_this_process(run))
    end_event = threading.Event()
    renewer = threading.Thread(
        target=_renew_lock, args=(lock, end_event), name="mdf_loop lock", daemon=True
    )
    try:
        lock.acquire()
        renewer.start()
        yield StoreLease(path, run, lock, overwrite=overwrite)
    finally:
        end_event.set()
        with suppress(LoopError):  # the next owner sees that this process has ended
            lock.release()


def _renew_lock(lock: Lock, is_over: threading.Event) -> None:
    while not is_over.wait(RENEWAL_SECONDS):
        with suppress(LoopError):  # the next write reports the error
            lock.renew()
