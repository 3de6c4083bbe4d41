"""Crash points: the moments at which a process changes files of a folder.

Crash points lie before each file that is opened for writing, renamed, removed or forced to the
disk, and before each folder that is created or removed. The next crash point therefore lies after
each change. Written contents are in the file when the process renames the file or forces it to the
disk.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
_WRITING = os.O_CREAT | os.O_TRUNC


def kill_at(folder: Path, point: int | None, log: Path) -> None:
    """Kill this process at a crash point, if the process reaches the point.

    The log lists the files that were written to (`+`), forced to the disk (`-`) and renamed (`>`).
    """
    numbers = itertools.count()
    log_file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    place = os.path.realpath(folder)

    def tell(*words: str) -> None:
        os.write(log_file, ("\t".join(words) + "\n").encode())

    def at(path: Any) -> str | None:
        """Return the absolute path if it is in the folder, else None."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        whole = os.path.abspath(os.fsdecode(path))
        return whole if whole.startswith(place + os.sep) else None

    def reached() -> None:
        if next(numbers) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITING and (file := at(path)) is not None:
                reached()
                tell("+", file)
        elif event in _EVENTS and (file := at(arguments[0])) is not None:
            reached()
            if event == "os.rename":
                tell(">", file, os.path.abspath(os.fsdecode(arguments[1])))

    sync = os.fsync

    def forced(file: int) -> None:
        path = at(os.readlink(f"/proc/self/fd/{file}"))
        if path is not None:
            reached()
        sync(file)
        if path is not None:
            tell("-", path)

    os.fsync = forced
    sys.addaudithook(heard)


def lose_power(log: Path) -> list[Path]:
    """Empty the files that were written to and not forced to the disk, as some file systems do."""
    dirty: set[str] = set()
    for line in log.read_text().splitlines():
        what, file, *to = line.split("\t")
        if what == "+":
            dirty.add(file)
        elif what == "-":
            dirty.discard(file)
        else:
            dirty = {_moved(name, file, to[0]) for name in dirty if name != to[0] or name == file}
    lost = [Path(name) for name in sorted(dirty) if Path(name).is_file()]
    for file in lost:
        file.write_bytes(b"")
    return lost


def _moved(name: str, old: str, new: str) -> str:
    """Return the path of a file after the file, or a folder around it, was renamed."""
    if name == old or name.startswith(old + os.sep):
        return new + name[len(old) :]
    return name
