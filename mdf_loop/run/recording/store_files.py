"""Listing of the files of a Zarr store, and checks of its chunk files."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mdf_loop.memory_limit import check
from mdf_loop.run.recording.chunk_integrity import is_intact, stored_checksum
from mdf_loop.run.recording.metadata import ArrayMetadata, DamagedError


def list_files(place: Path, within: str = "") -> Iterator[tuple[str, int]]:
    """Yield the relative path and the size in bytes of each file of a Zarr store.

    Raises:
        DamagedError: The store contains a link or another special file, or a folder is unreadable.
    """
    try:
        directory_entries = [*os.scandir(place / within)]
    except OSError as error:
        raise DamagedError(f"'{within or '.'}' cannot be read: {error.strerror}") from None
    for directory_entry in directory_entries:
        file_path = f"{within}{directory_entry.name}"
        file_status = directory_entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(file_status.st_mode):
            yield from list_files(place, f"{file_path}/")
        elif stat.S_ISREG(file_status.st_mode):
            yield file_path, file_status.st_size
        else:
            raise DamagedError(
                f"'{file_path}' in it is no plain file: nothing is written through links"
            )


def chunk_keys(
    shape: Sequence[int], chunks: Sequence[int], box: Sequence[slice] = ()
) -> Iterator[str]:
    """Yield the keys, such as `c/0/3`, of all chunks that overlap a box of a Zarr array.

    Args:
        shape: Shape of the array.
        chunks: Shape of a chunk.
        box: Range along each of the first axes. The range of other axes is their whole extent.
    """
    full_slices = (slice(0, extent) for extent in shape[len(box) :])
    chunk_ranges = (
        range(axis_slice.start // chunk_extent, -(-axis_slice.stop // chunk_extent))
        for axis_slice, chunk_extent in zip((*box, *full_slices), chunks, strict=True)
    )
    for chunk_index in itertools.product(*chunk_ranges):
        yield "/".join(("c", *map(str, chunk_index)))


def group_by_array(files: Mapping[str, int]) -> dict[str, list[str]]:
    """Group the file paths of a Zarr store by array (the first folder of the path)."""
    keys_by_array: dict[str, list[str]] = {}
    for file_path in files:
        array_name, _, chunk_key = file_path.partition("/")
        keys_by_array.setdefault(array_name, []).append(chunk_key)
    return keys_by_array


def is_chunk_key(path: str, counts: Sequence[int]) -> bool:
    """Return True if a path is a valid chunk key of a Zarr array with `counts` chunks per axis."""
    key_prefix, *index_texts = path.split("/")
    return (
        key_prefix == "c"
        and len(index_texts) == len(counts)
        and all(text.isascii() and text.isdecimal() for text in index_texts)
        and all(int(text) < count for text, count in zip(index_texts, counts, strict=True))
    )


def check_chunk(
    array: Path, key: str, size: int, array_metadata: ArrayMetadata, checksum: int | None = None
) -> None:
    """Raise DamagedError if a chunk file is damaged, or has another checksum than expected."""
    check(size, f"a chunk of '{array_metadata.name}'")
    chunk = (array / key).read_bytes()
    if not is_intact(array_metadata, chunk):
        raise DamagedError(f"'{array.name}/{key}' is {'damaged' if size else 'empty'}")
    if checksum is not None and stored_checksum(chunk) != checksum:
        raise DamagedError(f"'{array.name}/{key}' is another chunk than the one that was written")
