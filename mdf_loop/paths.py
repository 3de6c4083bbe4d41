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
    """Return the path that a user specifies. Errors call the path `what`, such as `the output`.

    Raises:
        InputError: The argument is no path, or no file can have this name.
    """
    text = os.fspath(argument) if isinstance(argument, os.PathLike) else argument
    if not isinstance(text, str):
        raise InputError(f"{what} is no path: {argument!r}"[:200], hint="give the name of a file")
    if not text:
        raise InputError(
            f"{what} has no name: the text that was given is empty",
            hint="give the name of a file; is a variable of the shell unset?",
        )
    try:
        os.lstat(text)
    except (ValueError, UnicodeError):  # a NUL character, or a lone surrogate
        raise InputError(f"{what} '{text}': no file can be called so") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{what} '{text}': the name is too long for a file") from None
    return Path(text)


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
    """Yield a set that contains the `known` files and all files that are read inside this context."""
    files = set(known)
    token = _READ_FILES.set((*_READ_FILES.get(), files))
    try:
        yield files
    finally:
        _READ_FILES.reset(token)


def record_read_file(path: Path) -> Path:
    """Record a path as read in all active `track_read_files` contexts, and return the path."""
    for files in _READ_FILES.get():
        files.add(Path(os.path.abspath(path)))
    return path


def refuse_overwriting(target: Path) -> None:
    """Refuse to write to a recorded input file, to a link to one, or to a folder that contains one.

    Raises:
        InputError: The target would overwrite an input file.
    """
    for files in _READ_FILES.get():
        for file in sorted(files):
            if _overlap(file, target):
                is_it = Path(os.path.abspath(target)) == file
                why = "" if is_it else f", for '{file}' is the same or lies in it"
                raise InputError(
                    f"cannot write '{target}': the model or what it is given is read from there{why}",
                    hint="give another name",
                )


def refuse_overlapping_outputs(targets: Mapping[str, Path | None]) -> None:
    """Refuse output paths that are equal or that lie inside each other.

    Args:
        targets: Path of each output, by the name of the output in errors.

    Raises:
        InputError: Two paths are equal, or one lies inside the other.
    """
    named_paths = [(what, path) for what, path in targets.items() if path is not None]
    for (what, path), (other, place) in combinations(named_paths, 2):
        if _overlap(path, place):
            both = f"'{path}'" if path == place else f"the same place, '{path}' and '{place}'"
            raise InputError(f"{what} and {other} both name {both}", hint="give two names")


def _overlap(path: Path, other: Path) -> bool:
    """Return True if two paths lead to the same file or folder, or one path lies inside the other."""
    first, second = (Path(os.path.normcase(os.path.realpath(p))) for p in (path, other))
    if first.is_relative_to(second) or second.is_relative_to(first):
        return True
    try:
        return os.path.samefile(path, other)  # hard links, or names that differ only in case
    except OSError:
        return False
