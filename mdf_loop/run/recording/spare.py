"""A file that only takes room on the disk, to be given up when the disk is full."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mdf_loop.files import NO_SPACE

BLOCK = 1 << 20


class Spare:
    """Room for what waits to be written: `usual` bytes, or more where more waits.

    It is at first no more than an eighth of what is free.
    """

    def __init__(self, path: Path, usual: int) -> None:
        self._path = path
        self._size = 0
        self.give_up()  # that of a run which was killed
        self._usual = min(usual, shutil.disk_usage(path.parent).free // 8)

    def covers(self, size: int) -> bool:
        """Whether there is room for so many bytes, whatever else fills the disk."""
        if size <= self._size:
            return True
        return self._grows_to(max(size, self._usual)) or self._grows_to(size)

    def give_up(self) -> None:
        """Leave the room to others."""
        self._path.unlink(missing_ok=True)
        self._size = 0

    def _grows_to(self, size: int) -> bool:
        try:
            with self._path.open("ab") as file:
                try:
                    _take(file.fileno(), self._size, size - self._size)
                except OSError:
                    file.truncate(self._size)
                    raise
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return False
        self._size = size
        return True


def _take(file: int, start: int, length: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, length)
        return
    while length > 0:
        length -= os.write(file, bytes(min(length, BLOCK)))
