"""Atomic reading and writing of files, with errors of one sentence."""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import lzma
import math
import os
import platform
import re
import secrets
import shutil
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

import numpy as np

from mdf_loop.errors import DiskFullError, InputError
from mdf_loop.ir import Array
from mdf_loop.paths import path_of, refuse_overwriting
from mdf_loop.processes import is_running


def checked_target(path: str | Path, suffixes: Collection[str], what: str) -> Path:
    """Return the path of a file to write, after checks of its suffix and its folder.

    Args:
        path: Path that the user specifies.
        suffixes: Allowed suffixes, such as `.csv`.
        what: Content of the file, for errors.

    Raises:
        InputError: The suffix is not allowed, or the folder does not exist.
    """
    target_path = path_of(path, f"the file for {what}")
    if target_path.suffix.lower() not in suffixes:
        *other_suffixes, last_suffix = suffixes
        suffixes_text = (
            f"{', '.join(other_suffixes)} or {last_suffix}" if other_suffixes else last_suffix
        )
        raise InputError(
            f"cannot save {what} as '{target_path.suffix or target_path.name}'",
            hint=f"use {suffixes_text}",
        )
    _check_folder(target_path)
    return target_path


def checked_place(path: str | Path) -> Path:
    """Return the real path of a file to write, after a check that the file can be written there.

    Raises:
        InputError: The path is no file, its folder does not exist or is not writable, or the file was
            read before.
    """
    target_path = real_place(path_of(path, "the file to write"))
    if target_path.exists() and not target_path.is_file():
        raise InputError(f"cannot write '{path}': it is no file", hint="give another name")
    _check_folder(target_path)
    if not os.access(target_path.parent, os.W_OK):
        raise InputError(
            f"cannot write '{path}': no files may be created in '{target_path.parent}'",
            hint="name another folder",
        )
    refuse_overwriting(Path(path))
    return target_path


def real_place(path: str | Path) -> Path:
    """Return a path with all symbolic links resolved, so that writing keeps the links."""
    return Path(os.path.realpath(path))


def _check_folder(target: Path) -> None:
    """Raise InputError if the folder of a file does not exist."""
    if not target.parent.is_dir():
        raise InputError(
            f"cannot write '{target}': there is no folder '{target.parent}'",
            hint="create it first",
        )


def write_atomically(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: `write` fills a temporary file, which then replaces the target.

    The content is forced to the disk before the replacement. Otherwise some file systems (XFS) may have
    the new name without its content after a power loss.

    Raises:
        InputError: The file cannot be written. A previous file is unchanged.
    """
    target_path = real_place(target)
    try:
        with temporary_path(target_path) as temporary_file:
            with temporary_file.open("x+b") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary_file, target_path)
            sync(target_path.parent)
    except OSError as error:
        raise write_error(target, error) from None


def sync(place: Path) -> None:
    """Force the content of a file, or the directory entries of a folder, to the disk.

    Folders are skipped on file systems that cannot do this.
    """
    is_folder = place.is_dir()
    if is_folder and os.name != "posix":
        return
    file_descriptor = os.open(place, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(file_descriptor)
    except OSError as error:
        if not is_folder or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(file_descriptor)


def sync_all(folder: Path) -> None:
    """Force a folder and all of its content to the disk."""
    for folder_path, _, file_names in os.walk(folder):
        for file_name in file_names:
            sync(Path(folder_path, file_name))
        sync(Path(folder_path))


@contextlib.contextmanager
def temporary_path(target: Path) -> Iterator[Path]:
    """Yield an unused temporary path beside a target file, and remove it afterwards.

    Each process and each call has another path. Temporary files of killed processes beside the target
    are removed, too.
    """
    temporary_file = target.with_name(
        f"{target.name}{_process_suffix(os.getpid())}{next(_FILE_NUMBERS)}.part"
    )
    remove_abandoned(target)
    try:
        yield temporary_file
    finally:
        _remove(temporary_file)


def _remove(part: Path) -> None:
    """Remove a file or a folder if it exists and may be removed."""
    with contextlib.suppress(OSError):  # another process may remove it at the same time
        if part.is_dir():
            _remove_folder(part)
        else:
            part.unlink(missing_ok=True)


def _remove_folder(folder: Path) -> None:
    """Remove a folder, and try again while threads of zarr still write files to it."""
    for wait_seconds in (0.0, 0.01, 0.1, 0.5):
        time.sleep(wait_seconds)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


NO_SPACE_ERROR_CODES = (errno.ENOSPC, errno.EDQUOT)
"""Error codes of the operating system for a full disk and for an exceeded quota."""


def write_error(target: Path, error: OSError) -> InputError:
    """Return the error for a file that could not be written."""
    error_class = DiskFullError if error.errno in NO_SPACE_ERROR_CODES else InputError
    return error_class(f"cannot write '{target}': {error.strerror or error}")


_HOST_ID = f"{zlib.crc32(platform.node().encode()):08x}"
_PROCESS_ID = secrets.token_hex(4)  # unique, since process numbers are reused in containers
_FILE_NUMBERS = itertools.count()


def _process_suffix(process: int) -> str:
    """Return the suffix with which a process names its temporary files."""
    return f".{_HOST_ID}-{process}-{_PROCESS_ID}-"


_PART_PATTERN = re.compile(r"\.(\w+)-(\d+)-\w+-\d+\.part")
"""Pattern of the end of the name of a temporary file, with the machine and the number of the process."""

ABANDONED_SECONDS = 3600.0
"""Seconds without a change after which a temporary file of another machine counts as abandoned."""


def remove_abandoned(target: Path) -> None:
    """Remove the temporary files beside a target file that ended processes have left."""
    for temporary_file in target.parent.glob(f"{glob.escape(target.name)}.*.part"):
        if (part_match := _PART_PATTERN.fullmatch(temporary_file.name[len(target.name) :])) is None:
            continue
        is_own_file = temporary_file.name.startswith(target.name + _process_suffix(os.getpid()))
        if not is_own_file and (_has_ended(*part_match.groups()) or _is_stale(temporary_file)):
            _remove(temporary_file)


def _has_ended(host: str, process: str) -> bool:
    """Return True if a process of this machine has ended, and False for other machines."""
    process_number = int(process)
    with contextlib.suppress(OverflowError):
        return host == _HOST_ID and (
            process_number == os.getpid() or not is_running(process_number)
        )
    return False


def _is_stale(part: Path) -> bool:
    """Return True if a temporary file was not changed for `ABANDONED_SECONDS`, False for a folder."""
    with contextlib.suppress(OSError):
        return part.is_file() and time.time() > part.stat().st_mtime + ABANDONED_SECONDS
    return False


class LazyArray(Protocol):
    """Protocol of an array whose elements are read or computed on access."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array's elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis of the array."""

    def __getitem__(self, place: Any, /) -> Any:
        """Return a part of the elements of the array as a NumPy array."""


BLOCK_BYTES = 1 << 22
"""Target size in bytes of a part of a lazy array that is read at once."""


def iterate_blocks(rows: LazyArray, size: int = BLOCK_BYTES) -> Iterator[tuple[Any, Array]]:
    """Yield parts of about `size` bytes of an array, each with its position along the first axis."""
    if not rows.shape:
        yield (), np.asarray(rows[()])
        return
    block_length = max(1, size // max(1, rows.dtype.itemsize * math.prod(rows.shape[1:])))
    for start in range(0, rows.shape[0], block_length):
        block_slice = slice(start, start + block_length)
        yield block_slice, np.asarray(rows[block_slice])


def write_arrays(
    stream: BinaryIO, arrays: Mapping[str, LazyArray], compression: int = zipfile.ZIP_STORED
) -> None:
    """Write arrays by name as an `.npz` file.

    The names may have any characters except NUL.

    Raises:
        InputError: A name contains a NUL character, at which zip would truncate the name.
    """
    if invalid_names := [name for name in arrays if "\0" in name]:
        raise InputError(
            f"an npz file cannot hold the name '{invalid_names[0]}', which has a character 0"
        )
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for array_name, array in arrays.items():
            # ZipInfo has a fixed date, so that equal arrays give equal files.
            entry_info = zipfile.ZipInfo(f"{array_name}.npy")
            entry_info.compress_type = compression
            with archive.open(entry_info, "w", force_zip64=True) as entry_file:
                if isinstance(array, np.ndarray):
                    np.lib.format.write_array(entry_file, array, allow_pickle=False)
                else:
                    _write_rows(entry_file, array)


def _write_rows(file: IO[bytes], rows: LazyArray) -> None:
    """Write a lazy array in NumPy's file format, block by block."""
    header = {
        "descr": np.lib.format.dtype_to_descr(rows.dtype),
        "fortran_order": False,
        "shape": rows.shape,
    }
    np.lib.format.write_array_header_1_0(file, header)
    for _, block in iterate_blocks(rows):
        file.write(block.tobytes())


ARCHIVE_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    SyntaxError,  # damaged header of NumPy's format
    tokenize.TokenError,
    MemoryError,  # damaged size
    OverflowError,
    RuntimeError,  # unsupported zip flags
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Exceptions of NumPy, zipfile and the decompressors for a file that is damaged or no `.npz` file."""
