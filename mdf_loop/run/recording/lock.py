"""Lock of a Zarr store: a file beside the store that lists the runs that write the store.

    x.zarr/         the store, which may be replaced while it has an owner
    x.zarr.lock     {"mdf_loop_lock": [{"run": "20261123-012011-9f3c2a71", "process": 4711, ...}]}

A store has one owner, or several owners that write disjoint regions of rows. `flock` protects the file
while it is read and changed. Without `flock` on a file system, two runs that begin at the same moment
may both write the file. The last one is listed then, and the other run detects the loss in the check
before each write.

Dead owners are ignored: an owner on this host whose process has ended, or an owner on another host that
has not renewed its entry for a minute. Times are those of the file system, which hosts share.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from mdf_loop.errors import InputError
from mdf_loop.files import real_place, write_error
from mdf_loop.processes import is_running

try:
    import fcntl
except ImportError:  # Windows has no fcntl
    fcntl = None  # type: ignore[assignment]

Region: TypeAlias = tuple[int, int]
"""Range of rows `first <= row < last`. Both ends are chunk boundaries of all arrays of the store."""

SILENT_SECONDS = 60.0
"""Seconds without a renewal after which an owner on another host counts as dead."""

WAIT_SECONDS = 10.0
"""Seconds to wait for other processes that read or change the file, which takes a millisecond."""

_OWNERS_KEY = "mdf_loop_lock"
_MAX_FILE_BYTES = 1 << 20
_TEXT_PATTERN = re.compile(r"[\w.:+\[\] -]{0,200}")
_UNSUPPORTED_ERRORS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


# --- owners ---------------------------------------------------------------------------------------


class Owner(Struct, frozen=True):
    """Run that writes a Zarr store, or a range of rows of the store.

    `system` identifies the host and its process namespace. `began` is the start time of the process as the
    system reports it, since process numbers are reused. `heard` is the time of the last renewal. `since` is
    the time when the run locked the store, for messages.
    """

    run: str
    host: str
    system: str
    process: int
    began: str
    since: str
    heard: float = 0.0
    region: Region | None = None

    def __str__(self) -> str:
        return f"run {self.run} (process {self.process} on {self.host}, since {self.since})"

    def is_alive(self, now: float) -> bool:
        """Return True if the run's process still exists, or renewed its lock recently."""
        if self.system != _system_id():
            return abs(now - self.heard) < SILENT_SECONDS
        start_time = _process_start_time(self.process)
        return start_time is not None and (
            start_time == self.began or "" in (start_time, self.began)
        )

    def overlaps(self, region: Region | None) -> bool:
        """Return True if the run writes rows of `region` (None means the whole store)."""
        if self.region is None or region is None:
            return True
        return max(self.region[0], region[0]) < min(self.region[1], region[1])


def describe_this_process(run: str, region: Region | None = None) -> Owner:
    """Return the lock entry of a run in this process."""
    process_id = os.getpid()
    lock_time = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
    start_time = _process_start_time(process_id) or ""
    return Owner(run, _host_name(), _system_id(), process_id, start_time, lock_time, region=region)


@cache
def _host_name() -> str:
    """Return the name of this host without special characters, or "" if it is unknown."""
    return re.sub(r"[^\w.-]", "_", platform.node())[:100]


@cache
def _system_id() -> str:
    """Return an id of this host, its current boot, and its process namespace (container)."""
    boot_id, process_namespace = "", ""
    with suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        process_namespace = os.readlink("/proc/self/ns/pid")
    return f"{_host_name()} {boot_id} {process_namespace}"


def _process_start_time(process: int) -> str | None:
    """Return the start time of a process as text, or None if the process has ended.

    The text is empty if the time is unknown.
    """
    try:
        status_line = Path(f"/proc/{process}/stat").read_text(errors="replace")
        process_state, *status_fields = status_line.rpartition(")")[2].split()
        return None if process_state in "ZX" else status_fields[18]
    except (OSError, ValueError, IndexError):
        with suppress(OverflowError):
            return "" if is_running(process) else None
        return None


# --- the file -------------------------------------------------------------------------------------


class Lock:
    """Lock file of a Zarr store, from the viewpoint of one run that writes the store.

    All methods raise InputError if the file is not a list of owners, or cannot be read or written.
    """

    def __init__(self, store: Path, owner: Owner) -> None:
        self.owner = owner
        self._store = store
        real_path = real_place(store)  # a link shares the lock of its target
        self._path = real_path.with_name(f"{real_path.name}.lock")
        self._encoded_run_id = json.dumps(owner.run).encode()

    def acquire(self) -> None:
        """Lock the store: add this run to the runs in the lock file.

        Raises:
            InputError: Another owner already writes the same rows.
        """
        with self._open_locked(os.O_CREAT) as file_descriptor:
            assert file_descriptor is not None
            now = _file_system_time(file_descriptor)
            owners = [owner for owner in self._read_owners(file_descriptor) if owner.is_alive(now)]
            for owner in owners:
                if owner.overlaps(self.owner.region):
                    raise self._locked_error(owner, now)
            try:
                _write_owners(file_descriptor, [*owners, replace(self.owner, heard=now)])
            except OSError:
                self._write_or_remove(file_descriptor, owners)
                raise

    def check(self) -> None:
        """Raise an error if the lock file does not list this run any more.

        Raises:
            InputError: Another run has replaced the owner, or this process is a fork of the owner's process.
        """
        if os.getpid() != self.owner.process:
            raise InputError(
                f"'{self._store}' belongs to the process from which this one was forked",
                hint="begin a run of its own in the new process, with another output",
            )
        with suppress(OSError):
            if self._encoded_run_id in self._path.read_bytes():
                return
        with self._open_locked() as file_descriptor:  # an unlocked read may overlap a write
            owners = [] if file_descriptor is None else self._read_owners(file_descriptor)
        if not any(owner.run == self.owner.run for owner in owners):
            raise self._lost_error(owners)

    def renew(self) -> None:
        """Update the time of this run's entry in the lock file.

        Nothing is written if another run has replaced the entry.
        """
        with self._open_locked() as file_descriptor:
            if file_descriptor is not None:
                now = _file_system_time(file_descriptor)
                owners = self._read_owners(file_descriptor)
                other_owners = [owner for owner in owners if owner.run != self.owner.run]
                if len(other_owners) < len(owners):
                    _write_owners(file_descriptor, [*other_owners, replace(self.owner, heard=now)])

    def release(self) -> None:
        """Unlock the store: remove this run from the runs in the lock file.

        A fork of the process does not unlock the store.
        """
        if os.getpid() != self.owner.process:
            return
        with self._open_locked() as file_descriptor:
            if file_descriptor is not None:
                owners = self._read_owners(file_descriptor)
                other_owners = [owner for owner in owners if owner.run != self.owner.run]
                if len(other_owners) < len(owners):
                    self._write_or_remove(file_descriptor, other_owners)

    def _write_or_remove(self, file: int, owners: Sequence[Owner]) -> None:
        if owners:
            _write_owners(file, owners)
        else:
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _open_locked(self, flags: int = 0) -> Iterator[int | None]:
        """Open the lock file under an exclusive file lock, and yield its descriptor.

        Yield None if the file does not exist.
        """
        try:
            file_descriptor = self._wait_for_lock(flags)
            try:
                yield file_descriptor
            finally:
                if file_descriptor is not None:
                    _unlock_and_close(file_descriptor)
        except OSError as error:
            raise write_error(self._path, error) from None

    def _wait_for_lock(self, flags: int) -> int | None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                file_descriptor = os.open(
                    self._path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | flags, 0o666
                )
            except FileNotFoundError:
                if flags:
                    raise
                return None
            try:
                if _try_lock(file_descriptor) and self._is_current_file(file_descriptor):
                    return file_descriptor
            except BaseException:
                os.close(file_descriptor)
                raise
            _unlock_and_close(file_descriptor)
            if time.monotonic() > deadline:
                raise InputError(
                    f"cannot write '{self._store}': another process keeps '{self._path.name}'",
                    hint="find out what it is, and end it",
                )
            time.sleep(0.002)

    def _is_current_file(self, file_descriptor: int) -> bool:
        """Return True if an open lock file was not deleted or replaced before it was locked."""
        try:
            return os.path.samestat(
                os.fstat(file_descriptor), os.stat(self._path, follow_symlinks=False)
            )
        except FileNotFoundError:
            return False

    def _read_owners(self, file_descriptor: int) -> list[Owner]:
        """Read the list of runs from the lock file.

        An empty new file has none.
        """
        os.lseek(file_descriptor, 0, os.SEEK_SET)
        line = os.read(file_descriptor, _MAX_FILE_BYTES).split(b"\n")[0].strip(b"\0 ")
        if not line:
            return []
        try:
            return [_parse_owner(**owner_entry) for owner_entry in json.loads(line)[_OWNERS_KEY]]
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            raise InputError(
                f"cannot write '{self._store}': '{self._path.name}' beside it is not of mdf_loop",
                hint="give the output another name, or remove that file",
            ) from None

    def _locked_error(self, owner: Owner, now: float) -> InputError:
        wait_hint = "wait until it has ended, or stop it"
        if owner.system != _system_id():
            seconds_until_free = max(1, round(owner.heard + SILENT_SECONDS - now))
            wait_hint += f" (if it was killed, the store is free in {seconds_until_free} s)"
        return InputError(
            f"'{self._store}' is being written by {owner}",
            hint=f"give the output another name; {wait_hint}",
        )

    def _lost_error(self, owners: Sequence[Owner]) -> InputError:
        overlapping_owners = [owner for owner in owners if owner.overlaps(self.owner.region)]
        cause_text = (
            f"{overlapping_owners[0]} has taken it over"
            if overlapping_owners
            else "its lock file is gone or was changed"
        )
        return InputError(
            f"'{self._store}' belongs no more to this run, {self.owner.run}: {cause_text}",
            hint="nothing more is written to it; begin anew with another output",
        )


def _parse_owner(*, region: Sequence[int] | None, **owner_entry: Any) -> Owner:
    """Convert the entry of a run in the lock file to an `Owner`, or raise if it is invalid."""
    first_row, end_row = (0, 0) if region is None else region
    owner = Owner(**owner_entry, region=None if region is None else (first_row, end_row))
    text_fields = (owner.run, owner.host, owner.system, owner.began, owner.since)
    if not all(isinstance(text, str) and _TEXT_PATTERN.fullmatch(text) for text in text_fields):
        raise ValueError("no plain text")
    if not all(isinstance(number, int) for number in (owner.process, first_row, end_row)):
        raise ValueError("no whole number")
    if owner.process <= 0:  # such a number means a group of processes
        raise ValueError("no process")
    return replace(owner, heard=float(owner.heard))


def _write_owners(file_descriptor: int, owners: Sequence[Owner]) -> None:
    """Replace the list of runs in the lock file.

    Only the first line counts, so one write is enough.
    """
    encoded_owners = json.dumps({_OWNERS_KEY: [asdict(owner) for owner in owners]}).encode() + b"\n"
    content_size = len(encoded_owners)
    os.lseek(file_descriptor, 0, os.SEEK_SET)
    while encoded_owners:
        encoded_owners = encoded_owners[os.write(file_descriptor, encoded_owners) :]
    os.ftruncate(file_descriptor, content_size)


def _file_system_time(file_descriptor: int) -> float:
    """Return the current time by the clock of the file system, by touching the file."""
    os.utime(file_descriptor)
    return os.fstat(file_descriptor).st_mtime


def _try_lock(file_descriptor: int) -> bool:
    """Try to lock a file, and return True on success or if the file system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED_ERRORS:
            raise
    return True


def _unlock_and_close(file_descriptor: int) -> None:
    """Unlock a file, and close it.

    A fork that has the file open does not hold the lock either.
    """
    with suppress(OSError):
        if fcntl is not None:
            fcntl.flock(file_descriptor, fcntl.LOCK_UN)
    os.close(file_descriptor)
