"""Names and texts in an ONNX file are UTF-8.

Of names that are not, protobuf hands out the bytes; of all other texts it always does.
"""

from __future__ import annotations

from typing import Any

import onnx

from mdf_loop.errors import ModelError

_TEXTS = ("s", "strings", "string_data")
"""Fields of bytes that hold texts: those of attributes and of tensors."""


def check_text(model: onnx.ModelProto) -> None:
    """Refuse names and texts that are no text (UTF-8)."""
    waiting: list[tuple[Any, str]] = [(model, "$")]
    while waiting:
        message, where = waiting.pop()
        for field, value in message.ListFields():
            place = f"{where}.{field.name}"
            if field.name in _TEXTS and not all(map(_is_text, _several(value))):
                raise ModelError("a text in the file is not UTF-8", place, "the file is damaged")
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            values = _several(value)
            if field.type == field.TYPE_MESSAGE:
                waiting.extend((inner, place) for inner in values)
            elif any(isinstance(text, bytes) for text in values):
                raise ModelError("a name in the file is not text", place, "the file is damaged")


def _several(value: Any) -> Any:
    """The values of a field, which has one or several."""
    one = isinstance(value, str | bytes) or hasattr(value, "ListFields")
    return [value] if one else value


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
