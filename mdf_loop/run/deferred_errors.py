"""Stream wrapper that hides write errors from HDF5, since HDF5 would abort the process.

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
def defer_stream_errors(stream: BinaryIO) -> Iterator[io.BufferedIOBase]:
    """Yield a wrapper that hides write errors of a stream, and raise the first error at exit."""
    stream.flush()
    wrapper = _ErrorHidingStream(
        getattr(stream, "raw", stream)
    )  # a buffer would raise again at each flush
    try:
        yield wrapper
    finally:
        if wrapper.error is not None:
            raise wrapper.error


class _ErrorHidingStream(io.BufferedIOBase):
    def __init__(self, stream: Any) -> None:
        self.error: OSError | None = None
        self._stream = stream

    def _apply(self, operation: Callable[[Any], Any]) -> Any:
        """Apply an operation to the stream, or (after an error) to the stream's in-memory copy."""
        position = self._stream.tell()
        try:
            return operation(self._stream)
        except OSError as error:
            self.error = error
            self._stream = _copy_to_memory(self._stream, position)
            return operation(self._stream)

    def write(self, data: Any, /) -> int:
        """Write all of the data, and return the number of bytes."""
        remaining_bytes = memoryview(data).cast("B")
        while remaining_bytes:
            remaining_bytes = remaining_bytes[self._apply(methodcaller("write", remaining_bytes)) :]
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None, /) -> int:
        """Truncate the stream to `size` bytes, and return the size."""
        return int(self._apply(methodcaller("truncate", size)))

    def readinto(self, buffer: Any, /) -> int:
        """Read bytes into a buffer, and return the number of bytes."""
        return int(self._stream.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the stream, and return the position."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """Return the current position in the stream."""
        return int(self._stream.tell())

    def readable(self) -> bool:
        """Return True, since the stream is readable."""
        return True

    def writable(self) -> bool:
        """Return True, since the stream is writable."""
        return True

    def seekable(self) -> bool:
        """Return True, since the stream is seekable."""
        return True


def _copy_to_memory(stream: Any, position: int) -> io.BytesIO:
    """Return an in-memory copy of a stream, at position `position`."""
    memory_stream = io.BytesIO()
    stream.seek(0)
    shutil.copyfileobj(stream, memory_stream)
    memory_stream.seek(position)
    return memory_stream
