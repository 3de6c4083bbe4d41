"""The numbers of an IR: pieces of the `.bin` file that lies beside the `.xml`.

The file is read once, when the first Const asks; every array is a view of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.elements import byte_count, numpy_dtype
from mdf_loop.ir import Array
from mdf_loop.paths import noted


class Weights:
    """The `.bin` file of an IR; an IR without constants needs none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content: bytes | None = None

    def array(
        self, offset: int, size: int, dtype: str, shape: tuple[int, ...], where: str
    ) -> Array:
        """The array that the bytes from `offset` on are; it cannot be written to.

        Raises:
            ModelError: there is no file, it is too short, or the size is not that of the shape.
        """
        wanted = byte_count(shape, dtype)
        if wanted and wanted != size:
            raise ModelError(
                f"{dtype}{list(shape)} takes {wanted} bytes, but the size is stated as {size}",
                where,
            )
        content = self._read(where)
        if offset < 0 or offset + size > len(content):
            raise ModelError(
                f"bytes {offset} to {offset + size} are not in '{self.path.name}', "
                f"which has {len(content)}",
                where,
                "the .bin file does not belong to this .xml file, or is cut off",
            )
        piece = np.frombuffer(content, np.uint8, size, offset)[:wanted]
        if dtype == "bool" and piece.size and piece.max() > 1:
            raise ModelError("the bytes of a boolean Const must be 0 or 1", where)
        return piece.view(numpy_dtype(dtype)).reshape(shape)

    def _read(self, where: str) -> bytes:
        if self._content is None:
            try:
                self._content = noted(self.path).read_bytes()
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
        return self._content
