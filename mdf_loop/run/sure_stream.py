"""A stream for HDF5, which cannot close a file that it could not write, and then ends the process.

So it is told of no error: after the first one it goes on in memory, and the error is raised when
it is done.
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
    """The stream as one that never fails; what went wrong is raised at the end."""
    stream.flush()
    sure = _Sure(getattr(stream, "raw", stream))  # a buffer would fail again and again
    try:
        yield sure
    finally:
        if sure.error is not None:
            raise sure.error


class _Sure(io.BufferedIOBase):
    def __init__(self, stream: Any) -> None:
        self.error: OSError | None = None
        self._stream = stream

    def _done(self, act: Callable[[Any], Any]) -> Any:
        """What an action gives, on the disk or, after the first error, in memory."""
        place = self._stream.tell()
        try:
            return act(self._stream)
        except OSError as error:
            self.error = error
            self._stream = _copied(self._stream, place)
            return act(self._stream)

    def write(self, data: Any, /) -> int:
        """Write all of the data."""
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._done(methodcaller("write", rest)) :]
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None, /) -> int:
        """Cut, or lengthen."""
        return int(self._done(methodcaller("truncate", size)))

    def readinto(self, room: Any, /) -> int:
        """Read."""
        return int(self._stream.readinto(room))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """The place."""
        return int(self._stream.tell())

    def readable(self) -> bool:
        """It can be read."""
        return True

    def writable(self) -> bool:
        """It can be written."""
        return True

    def seekable(self) -> bool:
        """It has places."""
        return True


def _copied(stream: Any, place: int) -> io.BytesIO:
    """All that is in a stream, at this place of it."""
    memory = io.BytesIO()
    stream.seek(0)
    shutil.copyfileobj(stream, memory)
    memory.seek(place)
    return memory
