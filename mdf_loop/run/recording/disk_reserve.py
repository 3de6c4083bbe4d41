"""Reserved disk space that is used to write buffered rows when the disk is full."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from mdf_loop.files import NO_SPACE_ERROR_CODES

BLOCK_BYTES = 1 << 20


class DiskReserve:
    """Disk space that is reserved in a file, so that buffered rows fit on a full disk.

    The reserve normally has `usual` bytes. Initially, at most an eighth of the free space is reserved. The file has no name in its directory, so the
    operating system frees the space when the process ends, even if it is killed.
    """

    def __init__(self, folder: Path, usual: int) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._size = 0
        self._default_size = min(usual, shutil.disk_usage(folder).free // 8)

    def try_reserve(self, size: int) -> bool:
        """Enlarge the reserved disk space to `size` bytes, and return True on success."""
        if size <= self._size:
            return True
        return self._try_grow(max(size, self._default_size)) or self._try_grow(size)

    def release(self) -> None:
        """Release the reserved disk space."""
        if self._file is not None:
            self._file.close()
        self._file, self._size = None, 0

    def __del__(self) -> None:
        self.release()  # after a run that ended with an error

    def _try_grow(self, size: int) -> bool:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            try:
                _allocate(self._file.fileno(), self._size, size - self._size)
            except OSError:
                self._file.truncate(self._size)
                raise
        except OSError as error:
            if error.errno not in NO_SPACE_ERROR_CODES:
                raise
            return False
        self._size = size
        return True


def _allocate(file: int, start: int, length: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, length)
        return
    os.lseek(file, start, os.SEEK_SET)
    while length > 0:
        length -= os.write(file, bytes(min(length, BLOCK_BYTES)))
