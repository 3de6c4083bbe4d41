"""Checks of user-supplied paths, and protection of input files against being overwritten.

Examples:
    path_of("", "the output")                InputError: the output has no name
    with track_read_files() as files:            records the files that are read inside this context
    record_read_file(path).read_bytes()
    refuse_overwriting(target)           InputError if the target is a recorded file or a link to one
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from mdf_loop.errors import InputError

Files: TypeAlias = frozenset[Path]


def path_of(argument: Any, what: str) -> Path:
    """Convert a user-supplied path to a Path, or raise an error if the path is invalid.

    Errors call the path `what`.

    Raises:
        InputError: The argument is no path, or no file can have this name.
    """
    path_text = os.fspath(argument) if isinstance(argument, os.PathLike) else argument
    if not isinstance(path_text, str):
        raise InputError(f"{what} is no path: {argument!r}"[:200], hint="give the name of a file")
    if not path_text:
        raise InputError(
            f"{what} has no name: the text that was given is empty",
            hint="give the name of a file; is a variable of the shell unset?",
        )
    try:
        os.lstat(path_text)
    except (ValueError, UnicodeError):  # a NUL character, or a lone surrogate
        raise InputError(f"{what} '{path_text}': no file can be called so") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{what} '{path_text}': the name is too long for a file") from None
    return Path(path_text)


def replace_suffix(path: Path, ending: str) -> Path:
    """Return a path with another suffix, such as `.svg`.

    Raises:
        InputError: The path is no path of a file.
    """
    try:
        return path.with_suffix(ending)
    except ValueError:
        raise InputError(f"'{path}' is no file", hint="give the name of a file") from None


# --- record of input files --------------------------------------------------------------------

_READ_FILES: ContextVar[tuple[set[Path], ...]] = ContextVar("noted", default=())
"""Recorded files of each active `track_read_files` context."""


@contextmanager
def track_read_files(known: Iterable[Path] = ()) -> Iterator[set[Path]]:
    """Yield a set that collects the paths of all files that are read inside this context."""
    read_files = set(known)
    context_token = _READ_FILES.set((*_READ_FILES.get(), read_files))
    try:
        yield read_files
    finally:
        _READ_FILES.reset(context_token)


def record_read_file(path: Path) -> Path:
    """Record that a file was read, for `track_read_files`, and return the path."""
    for read_files in _READ_FILES.get():
        read_files.add(Path(os.path.abspath(path)))
    return path


def refuse_overwriting(target: Path) -> None:
    """Raise an error for an output path that would overwrite a file that was read.

    Raises:
        InputError: The target would overwrite an input file.
    """
    for read_files in _READ_FILES.get():
        for read_file in sorted(read_files):
            if _overlap(read_file, target):
                is_same_file = Path(os.path.abspath(target)) == read_file
                explanation = (
                    "" if is_same_file else f", for '{read_file}' is the same or lies in it"
                )
                raise InputError(
                    f"cannot write '{target}': the model or what it is given is read from there{explanation}",
                    hint="give another name",
                )


def refuse_overlapping_outputs(targets: Mapping[str, Path | None]) -> None:
    """Raise an error for output paths that are equal or lie inside each other.

    Args:
        targets: Path of each output, by the name of the output in errors.

    Raises:
        InputError: Two paths are equal, or one lies inside the other.
    """
    named_paths = [(output_name, path) for output_name, path in targets.items() if path is not None]
    for (first_output, path), (other_output, other_path) in combinations(named_paths, 2):
        if _overlap(path, other_path):
            shared_path_text = (
                f"'{path}'"
                if path == other_path
                else f"the same place, '{path}' and '{other_path}'"
            )
            raise InputError(
                f"{first_output} and {other_output} both name {shared_path_text}",
                hint="give two names",
            )


def _overlap(path: Path, other: Path) -> bool:
    """Return True if two paths lead to the same file or folder, or one path lies inside the other."""
    real_path, other_real_path = (
        Path(os.path.normcase(os.path.realpath(path_to_resolve)))
        for path_to_resolve in (path, other)
    )
    if real_path.is_relative_to(other_real_path) or other_real_path.is_relative_to(real_path):
        return True
    try:
        return os.path.samefile(path, other)  # hard links, or names that differ only in case
    except OSError:
        return False
