"""Names in an ONNX file are text; protobuf hands out bytes where a file breaks that promise."""

from __future__ import annotations

from typing import Any

import onnx

from mdf_loop.errors import ModelError


def check_text(model: onnx.ModelProto) -> None:
    """Refuse names that are no text (UTF-8)."""
    waiting: list[tuple[Any, str]] = [(model, "$")]
    while waiting:
        message, where = waiting.pop()
        for field, value in message.ListFields():
            place = f"{where}.{field.name}"
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            values = [value] if isinstance(value, str | bytes) or _is_one(value) else value
            if field.type == field.TYPE_MESSAGE:
                waiting.extend((inner, place) for inner in values)
            elif any(isinstance(text, bytes) for text in values):
                raise ModelError("a name in the file is not text", place, "the file is damaged")


def _is_one(value: Any) -> bool:
    return hasattr(value, "ListFields")
