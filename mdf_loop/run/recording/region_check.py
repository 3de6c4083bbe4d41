"""Check before a sweep resumes: which members are computed and intact in its Zarr store.

    x.zarr/computed/c/3             flags of the members of a chunk
    x.zarr/computed/checksums/120   checksums of the block that begins with member 120
    x.zarr/FNpop.V/c/3/0            chunks of these members

A block counts as computed if its flags say so, and if each of its chunks has the recorded checksum.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.chunk_integrity import crc32c
from mdf_loop.run.recording.metadata import COMPUTED, ArrayMetadata, DamagedError
from mdf_loop.run.recording.region_layout import RegionLayout
from mdf_loop.run.recording.region_record import record_path
from mdf_loop.run.recording.regions import Box
from mdf_loop.run.recording.store_files import check_chunk, chunk_keys, is_chunk_key


class BlockState(Enum):
    """State of a block of sweep members in a Zarr store: computed, missing or damaged."""

    COMPUTED = "computed"
    MISSING = "missing"
    DAMAGED = "damaged"


class RegionCheck:
    """Check of a partly written Zarr store: which sweep members and coordinates are intact.

    `files` has the size of each file.
    """

    def __init__(self, place: Path, layout: RegionLayout, files: Mapping[str, int]) -> None:
        self._path, self._layout, self._files = place, layout, files
        self._record = layout.record
        self._flags = layout.arrays[self._record.flags]
        self._keys_by_members = self._group_chunks()

    def _group_chunks(self) -> dict[tuple[str, ...], list[str]]:
        """Return the keys of existing chunks, by array name and chunk of members."""
        axis_count = len(self._record.shape)
        keys_by_members: dict[tuple[str, ...], list[str]] = {}
        chunk_counts = {
            array_name: _chunk_counts(self._layout.arrays[array_name])
            for array_name in self._array_names
        }
        for file_path in self._files:
            array_name, _, chunk_key = file_path.partition("/")
            if array_name in chunk_counts and is_chunk_key(chunk_key, chunk_counts[array_name]):
                member_indexes = chunk_key.split("/")[1 : axis_count + 1]
                keys_by_members.setdefault((array_name, *member_indexes), []).append(chunk_key)
        return keys_by_members

    @property
    def _array_names(self) -> list[str]:
        return [*self._layout.outputs, self._record.flags]

    def _iterate_chunk_keys(
        self, name: str, boxes: Sequence[Box]
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield, for each chunk of members, the expected number and the existing keys of chunks."""
        array_metadata, axis_count = self._layout.arrays[name], len(self._record.shape)
        chunk_count = math.prod(_chunk_counts(array_metadata)[axis_count:])
        for member_box in boxes:
            for flags_chunk_key in chunk_keys(self._flags.shape, self._flags.chunks, member_box):
                yield (
                    chunk_count,
                    self._keys_by_members.get((name, *flags_chunk_key.split("/")[1:]), []),
                )

    # --- blocks -------------------------------------------------------------------------------

    def check_block(self, boxes: Sequence[Box]) -> BlockState:
        """Return the state of the members at indices `boxes`: computed, missing or damaged."""
        flags_name = self._record.flags
        if not any(keys for _, keys in self._iterate_chunk_keys(flags_name, boxes)):
            return BlockState.MISSING
        try:
            self._check_chunks(flags_name, boxes, {})
            computed_flags = self._read_flags(boxes)
            if not (computed_flags == COMPUTED).all():
                return BlockState.MISSING
            checksums = self._read_checksums(boxes, computed_flags)
            for output in self._layout.outputs:
                self._check_chunks(output, boxes, checksums)
        except DamagedError:
            return BlockState.DAMAGED
        return BlockState.COMPUTED

    def _read_flags(self, boxes: Sequence[Box]) -> Array:
        flags_array = folder.open_array(self._path / self._record.flags)
        return np.concatenate([np.asarray(flags_array[box]).reshape(-1) for box in boxes])

    def _read_checksums(self, boxes: Sequence[Box], flags: Array) -> Mapping[str, int] | None:
        """Read the checksums of a block's chunks, or return None for a store without checksums."""
        if self._record.checksums is None:
            return None
        checksum_path = record_path(self._record.flags, self._record.shape, boxes)
        try:
            checksum_record = json.loads((self._path / checksum_path).read_bytes())
            if checksum_record["flags"] == crc32c(flags.astype(np.int8).tobytes()):
                return dict(checksum_record["chunks"])
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            pass
        raise DamagedError(f"'{checksum_path}' is damaged")

    def _check_chunks(
        self, name: str, boxes: Sequence[Box], checksums: Mapping[str, int] | None
    ) -> None:
        """Raise DamagedError if a chunk is missing or damaged, or has another checksum."""
        is_recorded = checksums is not None and name != self._record.flags
        for chunk_count, block_keys in self._iterate_chunk_keys(name, boxes):
            if len(block_keys) != chunk_count:
                raise DamagedError(f"chunks of '{name}' are missing")
            for chunk_key in block_keys:
                chunk_path = f"{name}/{chunk_key}"
                if is_recorded and checksums is not None and chunk_path not in checksums:
                    raise DamagedError(f"'{chunk_path}' has no checksum")
                self._check_file(name, chunk_key, (checksums or {}).get(chunk_path))

    def _check_file(self, name: str, chunk_key: str, checksum: int | None) -> None:
        file_size = self._files[f"{name}/{chunk_key}"]
        check_chunk(self._path / name, chunk_key, file_size, self._layout.arrays[name], checksum)

    def block_files(self, boxes: Sequence[Box]) -> list[Path]:
        """Return the files of a block of sweep members, beginning with those of member states."""
        array_names = [self._record.flags, *self._layout.outputs]
        files = [
            self._path / name / chunk_key
            for name in array_names
            for chunk_key in itertools.chain.from_iterable(
                block_keys for _, block_keys in self._iterate_chunk_keys(name, boxes)
            )
        ]
        checksum_path = record_path(self._record.flags, self._record.shape, boxes)
        return [*files, *([self._path / checksum_path] if checksum_path in self._files else [])]

    # --- coordinates --------------------------------------------------------------------------

    def damaged_coordinates(self) -> list[str]:
        """Return the names of the coordinates that have missing or damaged chunks."""
        return [name for name in self._layout.coordinates if not self._is_intact(name)]

    def _is_intact(self, name: str) -> bool:
        array_metadata = self._layout.arrays[name]
        if math.prod(_chunk_counts(array_metadata)) > len(self._files):
            return False
        checksums = self._record.checksums
        try:
            for chunk_key in chunk_keys(array_metadata.shape, array_metadata.chunks):
                chunk_path = f"{name}/{chunk_key}"
                if chunk_path not in self._files or (
                    checksums is not None and chunk_path not in checksums
                ):
                    return False
                self._check_file(name, chunk_key, (checksums or {}).get(chunk_path))
        except DamagedError:
            return False
        return True


def _chunk_counts(array_metadata: ArrayMetadata) -> list[int]:
    """Return the number of chunks of a Zarr array along each axis."""
    return [
        -(-extent // size)
        for extent, size in zip(array_metadata.shape, array_metadata.chunks, strict=True)
    ]
