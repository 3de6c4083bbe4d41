"""Check that the names and strings in an ONNX file are UTF-8.

protobuf returns bytes for names that are not UTF-8, and for all strings in fields of bytes.
"""

from __future__ import annotations

from typing import Any

import onnx

from mdf_loop.errors import ModelError

_STRING_FIELDS = ("s", "strings", "string_data")
"""Fields of attributes and tensors that contain strings as bytes."""


def check_text(model: onnx.ModelProto) -> None:
    """Raise ModelError if a name or a string in the ONNX model is not UTF-8."""
    pending_messages: list[tuple[Any, str]] = [(model, "$")]
    while pending_messages:
        proto_message, message_path = pending_messages.pop()
        for field, field_value in proto_message.ListFields():
            field_path = f"{message_path}.{field.name}"
            if field.name in _STRING_FIELDS and not all(map(_is_utf8, _as_list(field_value))):
                raise ModelError(
                    "a text in the file is not UTF-8", field_path, "the file is damaged"
                )
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            field_values = _as_list(field_value)
            if field.type == field.TYPE_MESSAGE:
                pending_messages.extend(
                    (nested_message, field_path) for nested_message in field_values
                )
            elif any(isinstance(string, bytes) for string in field_values):
                raise ModelError(
                    "a name in the file is not text", field_path, "the file is damaged"
                )


def _as_list(value: Any) -> Any:
    """Return the values of a single or repeated protobuf field as a list."""
    has_one_value = isinstance(value, str | bytes) or hasattr(value, "ListFields")
    return [value] if has_one_value else value


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
