"""Writing of ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, write_atomically
from mdf_loop.paths import Files, path_of, track_read_files


def checked_file(path: str | Path, read: Files) -> Path:
    """Return the path of an ONNX file to write, or raise an error if the model was read from it.

    Raises:
        InputError: The file cannot be written, or its name does not end in .onnx.
    """
    target_path = path_of(path, "the ONNX file")
    if target_path.suffix.lower() != ".onnx":
        raise InputError(f"'{target_path.name}' does not end in .onnx", hint="name it model.onnx")
    with track_read_files(read):
        checked_place(target_path)
    return target_path


def write_file(target: Path, model: Any) -> None:
    """Write an ONNX model atomically, so that no incomplete file remains after an error."""
    write_atomically(target, lambda stream: stream.write(model.SerializeToString()))
