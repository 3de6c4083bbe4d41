"""Script of the worker process that infers the types of serialized ONNX models.

Every message is preceded by its length in 8 bytes. An answer of length 0 means that onnx has raised an error.
The process ends when its input ends. If the parent does not kill the process, `SIGALRM` ends it some seconds
after the time limit. The script imports nothing of this package, so that it starts fast. Its argument is the
list of folders to import from, as JSON.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from typing import IO

TIME_LIMIT_SECONDS = 60.0
"""Time limit in seconds for the inference of one model."""

_ALARM_DELAY_SECONDS = 5
_LENGTH_FORMAT = struct.Struct("<Q")


def infer(model: bytes) -> bytes:
    """Return a serialized model with inferred types, or empty bytes if onnx raises an error."""
    import onnx

    try:
        typed_model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - onnx raises several kinds of its own
        return b""
    typed_bytes: bytes = typed_model.SerializeToString()
    return typed_bytes


def write_message(stream: IO[bytes], content: bytes) -> None:
    """Write one message to a stream, preceded by its length."""
    stream.write(_LENGTH_FORMAT.pack(len(content)))
    stream.write(content)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None if the stream ends before the message is complete."""
    length_field = stream.read(_LENGTH_FORMAT.size)
    if len(length_field) < _LENGTH_FORMAT.size:
        return None
    (message_length,) = _LENGTH_FORMAT.unpack(length_field)
    message_bytes = stream.read(message_length)
    return message_bytes if len(message_bytes) == message_length else None


def serve() -> None:
    """Serve type inference: read models from standard input, and write the typed models."""
    set_alarm = getattr(signal, "alarm", None)  # Windows has no alarm
    while (model_bytes := read_message(sys.stdin.buffer)) is not None:
        if set_alarm is not None:
            set_alarm(int(TIME_LIMIT_SECONDS) + _ALARM_DELAY_SECONDS)
        write_message(sys.stdout.buffer, infer(model_bytes))
        if set_alarm is not None:
            set_alarm(0)


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    serve()
