"""Memory limit of this process, at which requests fail and growing runs stop.

    with limited(4_000_000_000):
        check(rows.nbytes, "the rows of 'A.v'")      # MemoryLimitError if the rows would exceed the limit

The limit applies to the resident size of the process. The default is three quarters of the memory of the
machine or its container, at least 1 GB. On systems that do not report the resident size (all except
Linux), only the size of each request is compared with the limit.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from mdf_loop import used_memory
from mdf_loop.errors import InputError, MemoryLimitError
from mdf_loop.quantities import Unit, convert

MIN_DEFAULT_BYTES = 10**9
"""Least default limit in bytes, even on a machine with less memory."""

_BYTES_PER_UNIT = {"": 1, "b": 1} | {
    f"{unit_prefix}{unit_suffix}": unit_base**power
    for power, unit_prefix in enumerate("kmgt", start=1)
    for unit_suffix, unit_base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_SIZE_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(b?|[kmgt](?:i?b)?)", re.ASCII)
_HINT = "give a number of bytes or a text with a unit, e.g. 4GB or 512MiB"


def checked_limit(argument: object) -> int | None:
    """Return a user's memory limit in bytes, or None without a limit.

    Raises:
        InputError: The argument is no positive size.
    """
    if argument is None:
        return None
    limit_bytes = _parse_bytes(convert(argument, Unit("byte"), "the memory limit"))
    if limit_bytes is None or not math.isfinite(limit_bytes):
        raise InputError(
            f"the memory limit is {argument!r}"[:200] + ", which is no size", hint=_HINT
        )
    if limit_bytes < 1:
        raise InputError(
            f"the memory limit is {argument!r}; it must be more than nothing", hint=_HINT
        )
    return int(limit_bytes)


def _parse_bytes(argument: object) -> float | None:
    """Return a memory size in bytes from a number or a text with a unit, or None for other objects."""
    if isinstance(argument, str):
        size_match = _SIZE_PATTERN.fullmatch(argument.strip().lower())
        return None if size_match is None else float(size_match[1]) * _BYTES_PER_UNIT[size_match[2]]
    if isinstance(argument, bool) or not hasattr(argument, "__float__"):
        return None
    try:
        return float(argument)
    except (TypeError, ValueError, OverflowError):
        return None


def as_text(size: float) -> str:
    """Return a number of bytes as text: `512 B`, `3.2 MB`, `1.5 GB`."""
    for unit_name, unit_bytes in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= unit_bytes:
            return f"{size / unit_bytes:.3g} {unit_name}"
    return f"{int(size)} B"


_REDUCE_HINT = "make it smaller, or allow more: memory_limit (--memory-limit)"

# --- the current limit ----------------------------------------------------------------------------

_CURRENT_LIMIT: ContextVar[int | None] = ContextVar("mdf_loop memory limit", default=None)


def limit() -> int:
    """Return the current memory limit in bytes."""
    explicit_limit = _CURRENT_LIMIT.get()
    return default_limit() if explicit_limit is None else explicit_limit


@contextlib.contextmanager
def limited(size: int | None) -> Iterator[None]:
    """Apply a memory limit inside this context, or keep the current limit if None is given."""
    context_token = _CURRENT_LIMIT.set(_CURRENT_LIMIT.get() if size is None else size)
    try:
        yield
    finally:
        _CURRENT_LIMIT.reset(context_token)


def too_large(size: float, what: str, where: str = "") -> MemoryLimitError:
    """Return the error for an object of `size` bytes that exceeds the memory limit."""
    return _request_error(size, what, where, f"the limit allows: {as_text(limit())}")


def check(size: float, what: str, where: str = "", hint: str = _REDUCE_HINT) -> None:
    """Raise MemoryLimitError if a request for memory would exceed the memory limit.

    Args:
        size: Requested bytes.
        what: Name of the requested object in the error.
        where: Place of the object in the model.
        hint: Remedy in the error.

    Raises:
        MemoryLimitError: The request would exceed the limit.
    """
    limit_bytes = limit()
    used_bytes = measure_use(size, limit_bytes)
    if used_bytes + size > limit_bytes:
        raise _request_error(size, what, where, _describe_limit(limit_bytes, used_bytes), hint)


def _describe_limit(limit_bytes: int, used_bytes: int) -> str:
    """Return a text with the memory limit and the memory in use."""
    return f"the limit allows: {as_text(limit_bytes)}, of which {as_text(used_bytes)} are in use"


def _request_error(
    size: float, what: str, where: str, allowed: str, hint: str = _REDUCE_HINT
) -> MemoryLimitError:
    """Return the error for a request of `size` bytes that exceeds the memory limit."""
    return MemoryLimitError(
        f"{what} would take {as_text(size)} of memory, more than {allowed}", where, hint
    )


def exceeded_error(limit_bytes: int) -> MemoryLimitError:
    """Return the error for a run that exceeded the memory limit."""
    return MemoryLimitError(
        f"the run took more memory than its limit of {as_text(limit_bytes)}",
        hint="record less (only, every, reduce), stream rows to disk (output='run.zarr', --output "
        "run.zarr), or allow more: memory_limit (--memory-limit)",
    )


def growth_error(size: float, used_bytes: int, limit_bytes: int) -> MemoryLimitError:
    """Return the error for a run stopped because growing values would exceed the memory limit."""
    return _request_error(
        size,
        "what the run carries from step to step grows and",
        "",
        _describe_limit(limit_bytes, used_bytes),
        "let it grow less, or allow more: memory_limit (--memory-limit)",
    )


# --- queries to the operating system --------------------------------------------------------------


def measure_use(more: float, limit_bytes: int) -> int:
    """Return the resident bytes of this process, and free pooled memory if the limit is near.

    The pool is freed if `more` bytes would exceed `limit_bytes`.
    """
    used_bytes = resident_bytes()
    return (
        resident_bytes()
        if used_bytes + more > limit_bytes and used_memory.free_pool()
        else used_bytes
    )


def resident_bytes() -> int:
    """Return the resident bytes of this process, or 0 where the system does not report them."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as status_file:
            return int(status_file.read(100).split()[1]) * _page_bytes()
    except (OSError, ValueError, IndexError):
        return 0


@functools.cache
def _page_bytes() -> int:
    """Return the size of a memory page in bytes."""
    return os.sysconf("SC_PAGE_SIZE")


@functools.cache
def default_limit() -> int:
    """Return the default memory limit in bytes."""
    return max(MIN_DEFAULT_BYTES, read_machine_memory(Path("/")) * 3 // 4)


def read_machine_memory(root: Path) -> int:
    """Return the bytes of memory of the machine, or of its container if that has less.

    Args:
        root: Folder of the system's files, which is `/` except in tests.
    """
    memory_sizes = list(_read_group_limits(root))
    with contextlib.suppress(AttributeError, ValueError, OSError):  # unavailable on some systems
        memory_sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(
        (memory_size for memory_size in memory_sizes if memory_size > 0), default=sys.maxsize
    )


def _read_group_limits(root: Path) -> Iterator[int]:
    """Yield the memory limits of the control groups (cgroups, versions 1 and 2) of this process."""
    groups_folder = root / "sys/fs/cgroup"
    for group_line in _read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, group_path = (*group_line.split(":", 2), "", "")[:3]
        if not controllers:
            top_folder, limit_file_name = groups_folder, "memory.max"
        elif "memory" in controllers.split(","):
            top_folder, limit_file_name = groups_folder / "memory", "memory.limit_in_bytes"
        else:
            continue
        group_folder = top_folder / group_path.lstrip("/")
        for folder in (group_folder, *group_folder.parents):  # outer groups limit inner groups
            if not folder.is_relative_to(top_folder):
                break
            if (limit_text := _read_text(folder / limit_file_name).strip()).isdecimal():
                yield int(limit_text)


def _read_text(path: Path) -> str:
    """Return the text of a file, or an empty text if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
