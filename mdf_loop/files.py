"""Files are read and written whole or not at all, and what is wrong is said in one sentence."""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array


def checked_target(path: str | Path, suffixes: Collection[str], what: str) -> Path:
    """The path, if it can be written as one of these kinds of files.

    Raises:
        InputError: its suffix is none of them, or there is no such folder.
    """
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        *others, last = suffixes
        words = f"{', '.join(others)} or {last}" if others else last
        raise InputError(
            f"cannot save {what} as '{target.suffix or target.name}'", hint=f"use {words}"
        )
    if not target.parent.is_dir():
        raise InputError(
            f"cannot write '{target}': there is no folder '{target.parent}'",
            hint="create it first",
        )
    return target


def write_whole(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside the target, which then takes its place.

    Raises:
        InputError: the file cannot be written; what was there before is untouched.
    """
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as stream:
            write(stream)
        os.replace(part, target)
    except OSError as error:
        raise InputError(f"cannot write '{target}': {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):  # after a success there is none
            part.unlink()


def write_arrays(
    stream: BinaryIO, arrays: Mapping[str, Array], compression: int = zipfile.ZIP_STORED
) -> None:
    """Write arrays as an `.npz` file; unlike numpy's own function under any names."""
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # without the time of day
            entry.compress_type = compression
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


ARCHIVE_ERRORS = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
"""What numpy, zip and zlib raise for an `.npz` file that is damaged, or is none."""


def read_arrays(path: str | Path) -> dict[str, Array]:
    """The arrays of a `.npz` file by name.

    Raises:
        InputError: there is no such file, or it is of another kind.
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file '{source}'")
    try:
        with np.load(source, allow_pickle=False) as archive:
            return dict(archive)
    except ARCHIVE_ERRORS as error:
        raise InputError(f"'{source.name}' is not an npz file: {error}") from None
