"""Checksum files of a Zarr store, one for each block of sweep members.

    x.zarr/computed/checksums/120   {"flags": 12345, "chunks": {"FNpop.V/c/3/0": 67890, ...}}

Zarr ignores files at this path.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mdf_loop.files import sync
from mdf_loop.ir import Array
from mdf_loop.run.recording.chunk_integrity import crc32c, read_checksum

CHECKSUM_FOLDER = "checksums"


def record_path(flags: str, shape: Sequence[int], boxes: Sequence[tuple[slice, ...]]) -> str:
    """Return the path, within a Zarr store, of the checksum file of a block of members.

    `boxes` has the members of the block.
    """
    first_member = np.ravel_multi_index([axis_slice.start for axis_slice in boxes[0]], tuple(shape))
    return f"{flags}/{CHECKSUM_FOLDER}/{int(first_member)}"


def write_record(store: Path, path: str, chunks: Iterable[str], flags: Array) -> None:
    """Write the checksum file of a block of members, and flush the file to the disk.

    `chunks` has the paths of the chunks.
    """
    checksums = {chunk: read_checksum(store / chunk) for chunk in chunks}
    checksum_record = {"flags": crc32c(np.asarray(flags, np.int8).tobytes()), "chunks": checksums}
    target_path = store / path
    target_path.parent.mkdir(exist_ok=True)
    partial_path = target_path.with_name(f"{target_path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial_path.open("x", encoding="utf-8") as stream:
            json.dump(checksum_record, stream)
            stream.flush()
            os.fsync(stream.fileno())
        partial_path.replace(target_path)
    except OSError:
        partial_path.unlink(missing_ok=True)
        raise
    sync(target_path.parent)
    sync(target_path.parent.parent)


def sync_chunks(store: Path, chunks: Iterable[str]) -> None:
    """Flush chunks of a Zarr store, and their folders, to the disk (fsync)."""
    folders: set[Path] = set()
    for chunk in chunks:
        sync(store / chunk)
        folders.update(folder for folder in (store / chunk).parents if store in folder.parents)
    for folder in folders:
        sync(folder)
