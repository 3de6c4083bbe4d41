"""Locks of a store: one owner or several owners of disjoint regions; locks of dead processes expire."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from mdf_loop.errors import InputError
from mdf_loop.run.recording import lock as lock_module
from mdf_loop.run.recording.lock import SILENT_SECONDS, Lock, Owner, Region, describe_this_process
from mdf_loop.run.run_id import describe_run, new_run_id


def lock(path: Path, region: Region | None = None, **other: Any) -> Lock:
    return Lock(path / "x.zarr", replace(describe_this_process(new_run_id(), region), **other))


def file(path: Path) -> Path:
    return path / "x.zarr.lock"


def owners(path: Path) -> list[str]:
    return [entry["run"] for entry in json.loads(file(path).read_text())["mdf_loop_lock"]]


def write(path: Path, *entries: Owner) -> None:
    file(path).write_text(json.dumps({"mdf_loop_lock": [asdict(entry) for entry in entries]}))


def forged(heard: float, **other: Any) -> Owner:
    """Return an owner on another host, whose last sign of life was at `heard`."""
    return replace(
        describe_this_process("20260101-000000-00000000"),
        host="far",
        system="far 1 2",
        heard=heard,
        **other,
    )


def in_threads(count: int, work: Callable[[], None]) -> None:
    """Call the function in several threads at once and wait for all of them."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- one owner ----------------------------------------------------------------------------------


def test_one_owner_at_a_time(tmp_path):
    first, second = lock(tmp_path), lock(tmp_path)
    first.acquire()
    first.check()
    with pytest.raises(InputError) as refused:
        second.acquire()
    assert refused.value.report == (
        f"InputError: '{tmp_path}/x.zarr' is being written by run {first.owner.run} (process "
        f"{os.getpid()} on {first.owner.host}, since {first.owner.since})\n"
        "  hint: give the output another name; wait until it has ended, or stop it"
    )
    with pytest.raises(InputError, match=f"no more to this run, {second.owner.run}: run "):
        second.check()
    assert owners(tmp_path) == [first.owner.run]
    second.release()
    first.check()
    first.release()
    assert list(tmp_path.iterdir()) == []
    second.acquire()
    second.release()


def test_links_to_a_store_share_one_lock(tmp_path):
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "link.zarr").symlink_to(tmp_path / "x.zarr")
    lock(tmp_path).acquire()
    with pytest.raises(InputError, match=r"link.zarr' is being written by run"):
        Lock(tmp_path / "link.zarr", describe_this_process(new_run_id())).acquire()


def test_a_lock_that_was_taken_away(tmp_path):
    mine = lock(tmp_path)
    mine.acquire()
    file(tmp_path).unlink()
    with pytest.raises(InputError, match=r"its lock file is gone or was changed"):
        mine.check()
    mine.renew()
    mine.release()
    assert list(tmp_path.iterdir()) == []
    other = lock(tmp_path)
    other.acquire()
    mine.renew()
    mine.release()
    with pytest.raises(InputError, match=f"run {other.owner.run} .* has taken it over"):
        mine.check()
    assert owners(tmp_path) == [other.owner.run]


def test_threads_that_all_begin_at_once(tmp_path):
    begin, acquired, refused = threading.Barrier(8), [], []

    def tried() -> None:
        mine = lock(tmp_path)
        begin.wait()
        try:
            mine.acquire()
            acquired.append(mine)
        except InputError as error:
            refused.append(error)

    in_threads(8, tried)
    assert (len(acquired), len(refused)) == (1, 7)
    assert owners(tmp_path) == [acquired[0].owner.run]


def test_many_threads_take_and_release_the_lock(tmp_path):
    """Check that no thread holds a lock file that another thread has removed."""
    inside, most, rounds = 0, 0, []
    counting = threading.Lock()

    def worker() -> None:
        nonlocal inside, most
        while len(rounds) < 200:
            mine = lock(tmp_path)
            try:
                mine.acquire()
            except InputError:
                continue
            with counting:
                inside += 1
                most = max(most, inside)
            mine.check()
            with counting:
                inside -= 1
            mine.release()
            rounds.append(mine)

    in_threads(4, worker)
    assert most == 1
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_was_forked_gives_nothing_up(tmp_path):
    mine = lock(tmp_path)
    mine.acquire()
    mine.owner = replace(mine.owner, process=mine.owner.process + 1)
    mine.release()
    assert owners(tmp_path) == [mine.owner.run]


# --- regions ------------------------------------------------------------------------------------


def test_owners_of_disjoint_regions_share_the_lock(tmp_path):
    first, second, last = (lock(tmp_path, region) for region in ((0, 10), (10, 20), (40, 50)))
    for each in (first, last, second):
        each.acquire()
    for region in (None, (0, 1), (9, 11), (15, 16), (0, 100), (45, 60)):
        with pytest.raises(InputError, match="is being written by run"):
            lock(tmp_path, region).acquire()
    between = lock(tmp_path, (20, 40))
    between.acquire()
    for each in (first, second, last, between):
        each.check()
        each.renew()
    second.release()
    assert set(owners(tmp_path)) == {own.owner.run for own in (first, last, between)}
    lock(tmp_path, (12, 20)).acquire()
    with pytest.raises(InputError, match=r"has taken it over"):
        second.check()


def test_the_whole_store_requires_no_region_owner(tmp_path):
    part = lock(tmp_path, (0, 10))
    part.acquire()
    with pytest.raises(InputError, match="is being written by run"):
        lock(tmp_path).acquire()
    part.release()
    lock(tmp_path).acquire()


# --- owners that are gone -----------------------------------------------------------------------


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        return process.pid


def test_a_process_that_has_ended(tmp_path):
    write(
        tmp_path,
        replace(describe_this_process("20260101-000000-00000000"), process=ended_process()),
    )
    mine = lock(tmp_path)
    mine.acquire()
    assert owners(tmp_path) == [mine.owner.run]


def test_a_killed_process_without_a_waiting_parent(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE
    ) as process:
        other = replace(
            describe_this_process("20260101-000000-00000000"),
            process=process.pid,
            began=lock_module._process_start_time(process.pid) or "",
        )
        write(tmp_path, other)
        with pytest.raises(InputError, match=f"process {process.pid} on"):
            lock(tmp_path).acquire()
        process.kill()
        # The process is a zombie from here on.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        lock(tmp_path).acquire()


def test_a_process_that_has_the_number_of_another(tmp_path):
    write(tmp_path, replace(describe_this_process("20260101-000000-00000000"), began="1"))
    mine = lock(tmp_path)
    mine.acquire()
    assert owners(tmp_path) == [mine.owner.run]


def test_a_host_that_does_not_say_when_processes_began(tmp_path):
    write(tmp_path, replace(describe_this_process("20260101-000000-00000000"), began=""))
    with pytest.raises(InputError, match="is being written by run"):
        lock(tmp_path).acquire()


@pytest.mark.parametrize("silent", [0.0, SILENT_SECONDS - 5, -5.0])
def test_another_host_that_was_heard_of(tmp_path, silent):
    write(tmp_path, forged(time.time() - silent))
    with pytest.raises(InputError, match=r"on far, since .*\n.*the store is free in \d+ s\)"):
        lock(tmp_path).acquire()


@pytest.mark.parametrize("silent", [SILENT_SECONDS + 1, 1e6, -1e6, float("nan"), float("inf")])
def test_another_host_that_is_silent(tmp_path, silent):
    write(tmp_path, forged(time.time() - silent))
    mine = lock(tmp_path)
    mine.acquire()
    assert owners(tmp_path) == [mine.owner.run]


def test_an_owner_is_heard_of_by_the_clock_of_the_file_system(tmp_path, monkeypatch):
    far = lock(tmp_path, system="far", host="far")
    far.acquire()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(lock_module, "SILENT_SECONDS", 0.05)
    with pytest.raises(InputError, match="is being written by run"):
        lock(tmp_path).acquire()
    time.sleep(0.1)
    far.renew()
    with pytest.raises(InputError, match="is being written by run"):
        lock(tmp_path).acquire()
    time.sleep(0.1)
    mine = lock(tmp_path)
    mine.acquire()
    with pytest.raises(InputError, match=f"run {mine.owner.run} .* has taken it over"):
        far.check()


# --- files that are no such list ------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\0" * 300, b" \n garbage", b'{"mdf_loop_lock": []}']
)
def test_a_file_that_was_not_written_to(tmp_path, content):
    """Check that a lock file left empty by a kill or a power loss is ignored."""
    file(tmp_path).write_bytes(content)
    mine = lock(tmp_path)
    mine.acquire()
    assert owners(tmp_path) == [mine.owner.run]


def entry(**other: Any) -> bytes:
    return json.dumps({"mdf_loop_lock": [asdict(describe_this_process("a")) | other]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"mine",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"mdf_loop_lock": 3}',
        b'{"mdf_loop_lock": [3]}',
        b"[" * 100_000,
        entry(more=1),
        entry(run=3),
        entry(host="\x1b[2J"),
        entry(process="3"),
        entry(process=None),
        entry(process=0),
        entry(process=-1),
        entry(heard="x"),
        entry(heard=10**400),
        entry(region=[1]),
        entry(region=["a", "b"]),
        entry(region=3),
    ],
    ids=count(),
)
def test_a_lock_file_with_foreign_content(tmp_path, content):
    file(tmp_path).write_bytes(content)
    with pytest.raises(InputError, match=r"'x.zarr.lock' beside it is not of mdf_loop"):
        lock(tmp_path).acquire()
    assert file(tmp_path).read_bytes() == content


def test_a_number_that_no_process_has(tmp_path):
    file(tmp_path).write_bytes(entry(process=10**30))
    mine = lock(tmp_path)
    mine.acquire()
    assert owners(tmp_path) == [mine.owner.run]


def test_a_link_or_a_folder(tmp_path):
    (tmp_path / "other").touch()
    file(tmp_path).symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match=r"cannot write '.*x.zarr.lock'"):
        lock(tmp_path).acquire()
    assert (tmp_path / "other").read_bytes() == b""
    file(tmp_path).unlink()
    file(tmp_path).mkdir()
    with pytest.raises(InputError, match=r"cannot write '.*x.zarr.lock'"):
        lock(tmp_path).acquire()


# --- file systems -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_flock_the_list_counts(tmp_path, monkeypatch, number):
    def flock(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock_module.fcntl, "flock", flock)
    first = lock(tmp_path)
    first.acquire()
    first.check()
    with pytest.raises(InputError, match="is being written by run"):
        lock(tmp_path).acquire()
    first.release()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_keeps_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "WAIT_SECONDS", 0.05)
    with file(tmp_path).open("w") as stream:
        lock_module.fcntl.flock(stream, lock_module.fcntl.LOCK_EX)
        with pytest.raises(InputError, match=r"another process keeps 'x.zarr.lock'"):
            lock(tmp_path).acquire()


def test_a_full_disk(tmp_path, monkeypatch):
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lock_module.os, "write", full)
    with pytest.raises(InputError, match=r"cannot write '.*x.zarr.lock': No space left on device"):
        lock(tmp_path).acquire()
    assert list(tmp_path.iterdir()) == []


# --- names --------------------------------------------------------------------------------------


def test_names_of_runs():
    names = {new_run_id() for _ in range(100)}
    assert len(names) == 100
    assert describe_run(min(names)) == f"run {min(names)}"
    for other in (None, 3, "", "a b", "\x1b[2J", "x" * 65, ["a"]):
        assert describe_run(other) == "a run without a name"
