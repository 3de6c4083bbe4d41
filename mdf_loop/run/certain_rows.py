"""Stream wrapper that hides write errors from HDF5, which would abort the process.

HDF5 aborts the process if closing a file fails. After the first error, the wrapper therefore continues in
memory and raises the error at the end.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import methodcaller
from typing import Any, BinaryIO


@contextmanager
def without_failing(stream: BinaryIO) -> Iterator[io.BufferedIOBase]:
    """Yield a wrapper that hides write errors of a stream, and raise the first error at exit."""
    stream.flush()
    sure = _CertainRows(getattr(stream, "raw", stream))  # a buffer would raise again at each flush
    try:
        yield sure
    finally:
        if sure.error is not None:
            raise sure.error


class _CertainRows(io.BufferedIOBase):
    def __init__(self, stream: Any) -> None:
        self.error: OSError | None = None
        self._stream = stream

    def _done(self, act: Callable[[Any], Any]) -> Any:
        """Apply an operation to the file, or to a copy of the file in memory after the first error."""
        place = self._stream.tell()
        try:
            return act(self._stream)
        except OSError as error:
            self.error = error
            self._stream = _copied(self._stream, place)
            return act(self._stream)

    def write(self, data: Any, /) -> int:
        """Write all of the data and return its number of bytes."""
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._done(methodcaller("write", rest)) :]
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None, /) -> int:
        """Truncate the stream to `size` bytes and return the size."""
        return int(self._done(methodcaller("truncate", size)))

    def readinto(self, room: Any, /) -> int:
        """Read bytes into a buffer and return their number."""
        return int(self._stream.readinto(room))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the stream and return the position."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """Return the position in the stream."""
        return int(self._stream.tell())

    def readable(self) -> bool:
        """Return True, since the stream can be read."""
        return True

    def writable(self) -> bool:
        """Return True, since the stream can be written."""
        return True

    def seekable(self) -> bool:
        """Return True, since the stream has positions."""
        return True


def _copied(stream: Any, place: int) -> io.BytesIO:
    """Return a copy of a stream in memory, at the given position."""
    memory = io.BytesIO()
    stream.seek(0)
    shutil.copyfileobj(stream, memory)
    memory.seek(place)
    return memory
