"""Reading of `.npz` files, whose arrays are checked before they are decompressed.

    archive = Archive(zipfile.ZipFile(path), "model.npz")
    archive.names                 ('W', 'b')
    archive.array("W")            an array whose size fits its header and the memory limit

A small compressed file may contain an array of many gigabytes. The size of each array is read from
its header. This size must equal the size in the directory of the zip file, and must not exceed the
memory limit (see `memory_limit`).
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from mdf_loop.array_conversion import in_native_byte_order
from mdf_loop.errors import InputError, LoopError
from mdf_loop.files import ARCHIVE_ERRORS
from mdf_loop.ir import Array
from mdf_loop.memory_limit import check
from mdf_loop.paths import path_of

_MIN_TEXT_BYTES = 64
"""Least number of bytes of a text in memory, even if the text is shorter in the file."""


class Archive:
    """Reader of an open `.npz` file, which reads an array only on access.

    The methods raise one of `ARCHIVE_ERRORS` if the file is damaged.

    Attributes:
        names: Names of the arrays.
    """

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive = archive
        self._name = name
        file_names = (file_name for file_name in archive.namelist() if file_name.endswith(".npy"))
        self.names = tuple(
            dict.fromkeys(file_name.removesuffix(".npy") for file_name in file_names)
        )

    def check(self, names: Iterable[str]) -> None:
        """Raise MemoryLimitError if the named arrays together exceed the memory limit.

        Raises:
            MemoryLimitError: The arrays would exceed the memory limit.
        """
        array_names = tuple(names)
        total_size = sum(self._size(name) for name in array_names)
        array_text = "arrays" if len(array_names) > 1 else f"array '{''.join(array_names)}'"
        check(total_size, f"the {array_text} of '{self._name}'"[:300])

    def array(self, name: str) -> Array:
        """Read an array of the `.npz` file by name, in the byte order of the file.

        Raises:
            MemoryLimitError: The array would exceed the memory limit.
        """
        self.check([name])
        with self._archive.open(f"{name}.npy") as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):  # zipfile checks the checksum only when the end is read
                raise ValueError(f"'{name}' is longer than it says")
        return array

    def _size(self, name: str) -> int:
        """Return the number of bytes that an array of the `.npz` file takes in memory."""
        archive_entry = self._archive.getinfo(f"{name}.npy")
        with self._archive.open(archive_entry) as stream:
            shape, dtype = _read_header(stream)
            data_offset = stream.tell()
        if not all(type(extent) is int and extent >= 0 for extent in shape) or dtype.hasobject:
            raise ValueError(f"'{name}' is no array of numbers or texts")
        element_count = math.prod(shape)
        if data_offset + element_count * dtype.itemsize != archive_entry.file_size:
            raise ValueError(
                f"'{name}' has {archive_entry.file_size - data_offset} bytes, not those of {dtype}{list(shape)}"[
                    :200
                ]
            )
        return element_count * (
            dtype.itemsize if dtype.kind in "biufc" else max(dtype.itemsize, _MIN_TEXT_BYTES)
        )


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype from the header of an array in NumPy's file format."""
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise ValueError(f"version {version} of numpy's format holds no plain arrays")
    shape, _, dtype = read_header(stream)
    return shape, dtype


def read_arrays(path: str | Path) -> dict[str, Array]:
    """Return the arrays of a `.npz` file by name, in the byte order of this machine.

    Raises:
        InputError: The file does not exist or is no npz file, or its numbers are wider than 64 bits.
        MemoryLimitError: The arrays would exceed the memory limit.
    """
    source_path = path_of(path, "the npz file")
    if not source_path.is_file():
        raise InputError(f"there is no file '{source_path}'")
    try:
        with zipfile.ZipFile(source_path) as zip_file:
            archive = Archive(zip_file, source_path.name)
            archive.check(archive.names)
            return {
                name: in_native_byte_order(archive.array(name), f"'{name}' of '{source_path.name}'")
                for name in archive.names
            }
    except LoopError:
        raise
    except (*ARCHIVE_ERRORS, KeyError) as error:
        raise InputError(f"'{source_path.name}' is not an npz file: {error}"[:500]) from None
