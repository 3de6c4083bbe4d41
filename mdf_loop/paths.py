"""Paths of users, and protection of files that were read against being overwritten.

path_of("", "the output")                InputError: the output has no name
with noting() as files:                  what is read in here is noted
noted(path).read_bytes()
refuse_overwriting(target)           InputError, if that is the file or a link to it
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
    """Return the path that a user specifies for `what` ("the output").

    Raises:
        InputError: it is none, or no file can be called so.
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
    except (ValueError, UnicodeError):  # a character 0, or half of one
        raise InputError(f"{what} '{text}': no file can be called so") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{what} '{text}': the name is too long for a file") from None
    return Path(text)


def with_ending(path: Path, ending: str) -> Path:
    """Return the path beside a file that differs in its suffix, such as `.svg`.

    Raises:
        InputError: it is no path of a file.
    """
    try:
        return path.with_suffix(ending)
    except ValueError:
        raise InputError(f"'{path}' is no file", hint="give the name of a file") from None


# --- what was read ----------------------------------------------------------------------------

_NOTED: ContextVar[tuple[set[Path], ...]] = ContextVar("noted", default=())
"""The files that were read in each of the blocks that are entered."""


@contextmanager
def noting(known: Iterable[Path] = ()) -> Iterator[set[Path]]:
    """Record the files that are read inside this context, and those that were read before."""
    files = set(known)
    token = _NOTED.set((*_NOTED.get(), files))
    try:
        yield files
    finally:
        _NOTED.reset(token)


def noted(path: Path) -> Path:
    """Return the same path, and record it as read."""
    for files in _NOTED.get():
        files.add(Path(os.path.abspath(path)))
    return path


def refuse_overwriting(target: Path) -> None:
    """Refuse to write to a file that was read, under any name, or to a folder that contains it.

    Raises:
        InputError: it is such a place.
    """
    for files in _NOTED.get():
        for file in sorted(files):
            if _clash(file, target):
                is_it = Path(os.path.abspath(target)) == file
                why = "" if is_it else f", for '{file}' is the same or lies in it"
                raise InputError(
                    f"cannot write '{target}': the model or what it is given is read from there{why}",
                    hint="give another name",
                )


def refuse_clashes(targets: Mapping[str, Path | None]) -> None:
    """Refuse to write two outputs to one place, or one into the other. The mapping names the outputs.

    Raises:
        InputError: two of them clash.
    """
    named_paths = [(what, path) for what, path in targets.items() if path is not None]
    for (what, path), (other, place) in combinations(named_paths, 2):
        if _clash(path, place):
            both = f"'{path}'" if path == place else f"the same place, '{path}' and '{place}'"
            raise InputError(f"{what} and {other} both name {both}", hint="give two names")


def _clash(path: Path, other: Path) -> bool:
    """Return True if two paths lead to one file or folder, or one into the other."""
    first, second = (Path(os.path.normcase(os.path.realpath(p))) for p in (path, other))
    if first.is_relative_to(second) or second.is_relative_to(first):
        return True
    try:
        return os.path.samefile(path, other)  # a hard link; or names that differ in case only
    except OSError:
        return False
