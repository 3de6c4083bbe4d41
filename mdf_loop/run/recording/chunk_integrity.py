"""Integrity checks of Zarr chunks: headers, CRC-32C checksums, decompression.

    blosc head, 16 bytes | compressed numbers | CRC-32C, 4 bytes        an array of numbers
    zstd frame                                | CRC-32C, 4 bytes        an array of texts

Chunks of stores that earlier versions created have no checksum. These chunks are decoded, which detects
only some kinds of damage.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from mdf_loop.memory_limit import check
from mdf_loop.run.recording.metadata import ArrayMetadata

CHECKSUM_BYTES = 4
"""Bytes of the checksum at the end of a chunk."""

_BLOSC_HEADER = struct.Struct("<4B3I")
"""Head of a chunk of numbers: ..., uncompressed bytes, bytes of a block, compressed bytes."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of a chunk of texts."""


def stored_checksum(chunk: bytes) -> int:
    """Return the CRC-32C checksum that is stored at the end of a Zarr chunk."""
    return int.from_bytes(chunk[-CHECKSUM_BYTES:], "little")


def read_checksum(file: Path) -> int:
    """Read the CRC-32C checksum at the end of a Zarr chunk file."""
    with file.open("rb") as stream:
        stream.seek(-CHECKSUM_BYTES, os.SEEK_END)
        return stored_checksum(stream.read())


def is_intact(array_metadata: ArrayMetadata, chunk: bytes) -> bool:
    """Return True if a Zarr chunk has a valid header and a valid checksum.

    A chunk without checksum is decompressed instead.

    Raises:
        MemoryLimitError: The chunk is decoded for the check and does not fit into memory.
    """
    if not array_metadata.has_checksums:
        return _has_valid_head(array_metadata, chunk) and _can_be_decoded(array_metadata, chunk)
    body = chunk[:-CHECKSUM_BYTES]
    return _has_valid_head(array_metadata, body) and crc32c(body) == stored_checksum(chunk)


def crc32c(content: bytes) -> int:
    """Return the CRC-32C checksum of bytes."""
    import google_crc32c  # a dependency of zarr

    return int(google_crc32c.value(content))


def _has_valid_head(array_metadata: ArrayMetadata, body: bytes) -> bool:
    """Return True if the header of a Zarr chunk states the correct sizes."""
    if array_metadata.is_text:
        return body.startswith(_ZSTD_MAGIC)
    if len(body) < _BLOSC_HEADER.size:
        return False
    *_, raw_size, _, compressed_size = _BLOSC_HEADER.unpack(body[: _BLOSC_HEADER.size])
    return (raw_size, compressed_size) == (array_metadata.chunk_bytes, len(body))


def _can_be_decoded(array_metadata: ArrayMetadata, body: bytes) -> bool:
    """Return True if a Zarr chunk without checksum can be decompressed."""
    from numcodecs import blosc, zstd

    check(array_metadata.chunk_bytes, f"a chunk of '{array_metadata.name}'")
    try:
        (zstd if array_metadata.is_text else blosc).decompress(body)
    except (RuntimeError, ValueError):
        return False
    return True
