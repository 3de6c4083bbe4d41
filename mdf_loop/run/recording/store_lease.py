"""A store belongs to one run: from before it is touched until all is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mdf_loop.errors import InputError, LoopError
from mdf_loop.files import real_place
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.lock import Lock, this_process
from mdf_loop.run.run_id import run_named

BEAT = 10.0
"""Seconds after which a run lets others know again that it goes on, however long a step takes."""


class StoreLease:
    """The right of a run to write the store at `path`.

    Attributes:
        path: the store as it was named.
        place: where it is, wherever the process goes meanwhile.
        run: whose rows the store has: this run, or the one that it goes on with.
    """

    def __init__(self, path: Path, run: str, lock: Lock, *, overwrite: bool) -> None:
        self.path = path
        self.place = real_place(path)
        self.run = run
        self._lock = lock
        self._overwrite = overwrite

    def check(self) -> None:
        """To be asked before anything is written.

        Raises:
            InputError: another run has taken the store over.
        """
        self._lock.check()

    def check_place(self) -> None:
        """To be asked before a store is made under its name.

        Raises:
            InputError: by now the name is that of another place.
        """
        if real_place(self.path) != self.place:
            raise InputError(
                f"'{self.path}' was '{self.place}' when the run began, and is another place now",
                hint="give the output as an absolute path, or stay in one working directory",
            )

    def check_new(self) -> None:
        """To be asked before the store is made.

        Raises:
            InputError: something else is there, or what another run has finished, and was not to
                be overwritten.
        """
        self.check_place()
        folder.checked_store(self.path)
        there = folder.attributes_of(self.path)
        is_own = there.get(folder.RUN) == self.run
        if there and not (is_own or folder.UNFINISHED in there or self._overwrite):
            raise InputError(
                f"'{self.path}' has the rows of {run_named(there.get(folder.RUN))}",
                hint="give the output another name, or say that it may be overwritten "
                "(overwrite=True, --overwrite)",
            )

    def check_old(self) -> None:
        """To be asked before the rows of a store are gone on with.

        Raises:
            InputError: they are those of another run.
        """
        there = folder.attributes_of(self.path)
        if there and there.get(folder.RUN) != self.run:
            raise InputError(
                f"the run cannot go on: '{self.path}' has the rows of "
                f"{run_named(there.get(folder.RUN))}, and no more those of {run_named(self.run)}",
                hint="put its own store back, or begin anew",
            )


@contextmanager
def claimed(path: Path, run: str, *, overwrite: bool) -> Iterator[StoreLease]:
    """Give a run the right to write a store within this context.

    Raises:
        InputError: another run writes the store.
    """
    lock = Lock(path, this_process(run))
    over = threading.Event()
    heart = threading.Thread(target=_beat, args=(lock, over), name="mdf_loop lock", daemon=True)
    try:
        lock.take()
        heart.start()
        yield StoreLease(path, run, lock, overwrite=overwrite)
    finally:
        over.set()
        with suppress(LoopError):  # who looks at it next sees that this process is gone
            lock.give_up()


def _beat(lock: Lock, over: threading.Event) -> None:
    while not over.wait(BEAT):
        with suppress(LoopError):  # what is wrong is said when the store is written
            lock.renew()
