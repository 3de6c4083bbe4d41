"""Validated metadata of a Zarr store that several processes write, block by block.

    x.zarr/zarr.json     attribute `sweep`: a `SweepRecord`
                         consolidated metadata: an `ArrayMetadata` for each array

Workers open the arrays by their own metadata, which are therefore replaced by those of the whole store.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct, ValidationError, convert

from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.chunk_integrity import crc32c
from mdf_loop.run.recording.labels import END_ATTRIBUTES, escape_name
from mdf_loop.run.recording.metadata import (
    FLAG_ATTRIBUTES,
    METADATA,
    VERSION_ATTRIBUTE,
    ArrayMetadata,
    DamagedError,
    get_attributes,
)
from mdf_loop.run.recording.not_finite import NotFinite

SWEEP_ATTRIBUTE = "sweep"
"""Attribute of a store with the `SweepRecord`."""

_WRITTEN_ATTRIBUTES = (
    folder.RUN_ATTRIBUTE,
    VERSION_ATTRIBUTE,
    "coordinates",
    "device",
    "precision",
    "seed",
    *END_ATTRIBUTES,
)
"""Other attributes that this package writes."""

_Count = Annotated[int, Meta(ge=0)]
_Extent = Annotated[int, Meta(ge=1)]


class SweepRecord(Struct, frozen=True, kw_only=True):
    """Record in a Zarr store about its sweep: run, division of members into chunks, progress.

    Attributes:
        run: Identity of the run.
        shape: Number of members along each axis.
        axis: Axis that is divided into chunks.
        chunk: Members of a chunk along that axis.
        chunks_in_block: Chunks of a block.
        outputs: Names of the outputs.
        flags: Name of the array of flags.
        blocks: Number of blocks.
        blocks_done: Number of blocks that are computed.
        members: Number of members.
        native: Form of each loop.
        seed: Seed of the random numbers.
        draws: True if the model draws random numbers of that seed.
        failed: Error of each member whose run has failed, by the member's description.
        not_finite: First value that is not finite.
        checksums: Checksum of each chunk of the coordinates, by its path in the store, or None in stores
            without checksums.
        digest: Checksum of the metadata of the store, or None in stores without checksums.
        environment: Environment that determines the last bits of numbers, or None if not recorded.
    """

    run: dict[str, str]
    shape: tuple[_Extent, ...]
    axis: _Count
    chunk: _Extent
    chunks_in_block: _Extent
    outputs: tuple[str, ...]
    flags: str
    blocks: _Count
    blocks_done: _Count
    members: _Count
    native: dict[str, str]
    seed: _Count | None
    draws: bool
    failed: dict[str, str] = {}
    not_finite: NotFinite | None = None
    checksums: dict[str, int] | None = None
    digest: int | None = None
    environment: dict[str, str] | None = None

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Number of members in a chunk along each axis."""
        return (*(1,) * self.axis, self.chunk, *self.shape[self.axis + 1 :])


class RegionLayout(Struct, frozen=True):
    """Validated metadata of a Zarr store that several processes write, and of its arrays."""

    record: SweepRecord
    arrays: Mapping[str, ArrayMetadata]
    metadata_by_array: Mapping[str, Any]

    @classmethod
    def parse(cls, root: Any) -> RegionLayout:
        """Validate the JSON metadata of a store written by several processes, and parse them.

        Raises:
            DamagedError: The metadata differ from those that were written.
        """
        attributes = get_attributes(root)
        _check(VERSION_ATTRIBUTE in attributes, "it is none of mdf_loop")
        try:
            record = convert(attributes.get(SWEEP_ATTRIBUTE), SweepRecord)
        except ValidationError as error:
            raise DamagedError(f"its attribute '{SWEEP_ATTRIBUTE}' is damaged: {error}") from None
        consolidated_metadata = root.get("consolidated_metadata")
        metadata_by_array = (
            consolidated_metadata.get("metadata")
            if isinstance(consolidated_metadata, dict)
            else None
        )
        _check(isinstance(metadata_by_array, dict), "it does not say what its arrays are")
        assert isinstance(metadata_by_array, dict)
        arrays = {
            name: ArrayMetadata.parse(name, metadata)
            for name, metadata in metadata_by_array.items()
        }
        layout = cls(record, arrays, metadata_by_array)
        layout._check_partition()
        layout._check_outputs()
        layout._check_extents()
        _check(
            record.digest in (None, metadata_digest(root)),
            f"its '{METADATA}' is not as it was written",
        )
        return layout

    @property
    def outputs(self) -> list[str]:
        """Names of the folders of all outputs."""
        return [escape_name(name) for name in self.record.outputs]

    @property
    def coordinates(self) -> list[str]:
        """Names of the arrays that are coordinates, not outputs or flags of members."""
        other_names = {*self.outputs, self.record.flags}
        return [name for name in self.arrays if name not in other_names]

    def _check_partition(self) -> None:
        sweep_record = self.record
        _check(
            sweep_record.axis < len(sweep_record.shape)
            and sweep_record.chunk <= sweep_record.shape[sweep_record.axis]
            and sweep_record.members == math.prod(sweep_record.shape),
            "the division of its members into chunks is damaged",
        )
        computed_flags_metadata = self.arrays.get(sweep_record.flags)
        _check(
            computed_flags_metadata is not None
            and computed_flags_metadata.dtype == np.int8
            and self.metadata_by_array[sweep_record.flags]["attributes"] == FLAG_ATTRIBUTES
            and (computed_flags_metadata.shape, computed_flags_metadata.chunks)
            == (sweep_record.shape, sweep_record.chunk_shape),
            f"it has no array '{sweep_record.flags[:80]}' of flags",
        )

    def _check_outputs(self) -> None:
        computed_flags_metadata = self.arrays[self.record.flags]
        leading_ndim = len(computed_flags_metadata.shape)
        _check(
            len({*self.outputs, self.record.flags}) == len(self.record.outputs) + 1 > 1,
            "the names of its outputs are damaged",
        )
        for name in self.outputs:
            _check(name in self.arrays, f"it has no array of the output '{name[:80]}'")
            array_metadata = self.arrays[name]
            _check(
                (
                    array_metadata.dims[:leading_ndim],
                    array_metadata.shape[:leading_ndim],
                    array_metadata.chunks[:leading_ndim],
                )
                == (
                    computed_flags_metadata.dims,
                    computed_flags_metadata.shape,
                    computed_flags_metadata.chunks,
                ),
                f"the members of '{name}' are not divided like the flags",
            )

    def _check_extents(self) -> None:
        """Check that dimensions of the same name have the same length in all arrays."""
        extent_by_dim: dict[str, int] = {}
        for name, array_metadata in self.arrays.items():
            for dim, extent in zip(array_metadata.dims, array_metadata.shape, strict=True):
                _check(
                    extent_by_dim.setdefault(dim, extent) == extent,
                    f"the extent of '{name}' along '{dim}' is {extent}, not {extent_by_dim[dim]}",
                )

    def mend(self, place: Path) -> None:
        """Rewrite the metadata files of arrays that differ from the metadata of the whole store."""
        for name, array_metadata in self.metadata_by_array.items():
            try:
                is_unchanged = folder.read_json(place / name) == array_metadata
            except (OSError, DamagedError):
                is_unchanged = False
            if not is_unchanged:
                (place / name).mkdir(exist_ok=True)
                folder.write_json(place / name, array_metadata)


def read_layout(place: Path) -> RegionLayout:
    """Read and validate the metadata of the Zarr store at `place`.

    Raises:
        DamagedError: The metadata cannot be read, or differ from those that were written.
    """
    try:
        return RegionLayout.parse(folder.read_json(place))
    except OSError as error:
        raise DamagedError(f"its '{METADATA}' cannot be read: {error.strerror}") from None


def metadata_digest(root: Any) -> int:
    """Return a checksum of all metadata of a Zarr store that this package writes.

    Attributes from other programs do not count.
    """
    attributes = root["attributes"]
    written_attributes = {key: attributes.get(key) for key in _WRITTEN_ATTRIBUTES}
    sweep_attributes = {
        key: value for key, value in attributes[SWEEP_ATTRIBUTE].items() if key != "digest"
    }
    content = [root["consolidated_metadata"]["metadata"], written_attributes, sweep_attributes]
    return crc32c(json.dumps(content, sort_keys=True).encode())


def _check(holds: bool, sentence: str) -> None:
    if not holds:
        raise DamagedError(sentence)
