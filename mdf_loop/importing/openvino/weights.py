"""Weights of an OpenVINO IR file (`.xml`), stored in the `.bin` file beside it.

The file is read once, with the first constant. Each array is a view of the file's content.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.elements import byte_count, numpy_dtype
from mdf_loop.ir import Array
from mdf_loop.paths import record_read_file


class Weights:
    """The `.bin` file of an OpenVINO IR file, which may be missing if there are no constants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file_bytes: bytes | None = None

    def array(
        self, offset: int, size: int, dtype: str, shape: tuple[int, ...], where: str
    ) -> Array:
        """Return the read-only array in the `size` bytes of the file at `offset`.

        Raises:
            ModelError: The file is missing or too short, or the size does not fit the shape.
        """
        expected_byte_count = byte_count(shape, dtype)
        if expected_byte_count and expected_byte_count != size:
            raise ModelError(
                f"{dtype}{list(shape)} takes {expected_byte_count} bytes, but the size is stated as {size}",
                where,
            )
        file_bytes = self._read_file(where)
        if offset < 0 or offset + size > len(file_bytes):
            raise ModelError(
                f"bytes {offset} to {offset + size} are not in '{self.path.name}', "
                f"which has {len(file_bytes)}",
                where,
                "the .bin file does not belong to this .xml file, or is cut off",
            )
        array_bytes = np.frombuffer(file_bytes, np.uint8, size, offset)[:expected_byte_count]
        if dtype == "bool" and array_bytes.size and array_bytes.max() > 1:
            raise ModelError("the bytes of a boolean Const must be 0 or 1", where)
        return array_bytes.view(numpy_dtype(dtype)).reshape(shape)

    def _read_file(self, where: str) -> bytes:
        if self._file_bytes is None:
            try:
                self._file_bytes = record_read_file(self.path).read_bytes()
            except FileNotFoundError:
                raise ModelError(
                    f"the numbers are in '{self.path.name}', which is not there",
                    where,
                    "an IR is two files: put the .bin beside the .xml, under the same name",
                ) from None
            except OSError as error:
                raise ModelError(
                    f"'{self.path.name}' cannot be read: {error.strerror}", where
                ) from None
        return self._file_bytes
