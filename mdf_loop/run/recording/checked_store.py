"""Zarr store of one array, which raises an error if a damaged chunk is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from mdf_loop.errors import InputError
from mdf_loop.run.recording.chunk_integrity import is_intact
from mdf_loop.run.recording.metadata import METADATA, ArrayMetadata, DamagedError, read_json


class CheckedStore(LocalStore):
    """Zarr store of the array in folder `root`, which raises an error for a damaged chunk.

    `display_path` is the path of the store as the user gave it.
    """

    def __init__(self, root: Path, display_path: Path, *, read_only: bool) -> None:
        super().__init__(root, read_only=read_only)
        self.display_path = display_path
        self._cached_metadata: ArrayMetadata | None = None

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read a file of the array, and raise an error if it is a damaged chunk.

        Raises:
            InputError: The file is a damaged chunk.
        """
        file_content = await super().get(key, prototype, byte_range)
        self.check(key, file_content)
        return file_content

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read a file of the array synchronously, and raise an error if it is a damaged chunk.

        zarr calls this method from version 3.2 on.
        """
        file_content = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        self.check(key, file_content)
        return file_content

    def read_array_metadata(self) -> Any:
        """Read the Zarr metadata of the array.

        Raises:
            OSError: The metadata cannot be read.
        """
        return read_json(self.root)

    def allows_missing_chunks(self, array_metadata: ArrayMetadata) -> bool:
        """Return True if chunks without a file are allowed, which have the fill value."""
        return True

    def check(self, key: str, content: Buffer | None) -> None:
        """Raise InputError if a file is a damaged chunk, or a chunk is missing unexpectedly."""
        if key != "c" and not key.startswith("c/"):
            return
        array_metadata = self._load_array_metadata()
        if content is None:
            if not self.allows_missing_chunks(array_metadata):
                raise self._chunk_error(key, "missing")
        elif not is_intact(array_metadata, content.to_bytes()):
            raise self._chunk_error(key, "damaged")

    def _load_array_metadata(self) -> ArrayMetadata:
        """Return the dtype, chunk shape and codecs of the array, which are read once."""
        if self._cached_metadata is None:
            try:
                self._cached_metadata = ArrayMetadata.parse(
                    self.root.name, self.read_array_metadata()
                )
            except (DamagedError, OSError) as error:
                raise self._chunk_error(METADATA, f"damaged: {error}") from None
        return self._cached_metadata

    def _chunk_error(self, key: str, word: str) -> InputError:
        return InputError(
            f"'{key}' of '{self.root.name}' in '{self.display_path}' is {word}",
            hint="go on from a checkpoint, or run the model again",
        )
