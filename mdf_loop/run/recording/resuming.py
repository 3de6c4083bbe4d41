"""Check of a Zarr store before an interrupted run continues to write the store.

A checkpoint has the metadata of the store, and the rows of incomplete chunks. Complete chunks were
flushed to the disk before the checkpoint. After a kill or a power loss, only data from after the
checkpoint are missing:

    x.zarr/zarr.json            taken from the checkpoint if the file is empty or truncated
    x.zarr/FNpop.V/c/0          must exist and be complete
    x.zarr/FNpop.V/c/1          incomplete: its rows are in the checkpoint
    x.zarr/FNpop.V/c/2          after the checkpoint: computed again

The whole store is checked before anything is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.run.recording.metadata import (
    METADATA,
    STREAMED_ATTRIBUTE,
    VERSION_ATTRIBUTE,
    ArrayMetadata,
    DamagedError,
    Layout,
    get_attributes,
    parse_json,
    read_json,
)
from mdf_loop.run.recording.store_files import check_chunk, group_by_array, is_chunk_key, list_files

_RESTORE_HINT = "put back the store as it was, or begin anew: leave resume (--resume) out"

_CHECKSUMS_KEY = "checksums"
"""Name of the checksums in a checkpoint, distinct from output names, which contain a dot."""


class StoreCheckpoint(Struct, frozen=True):
    """Checkpoint of a Zarr store: its metadata, rows of incomplete chunks, and checksums.

    Attributes:
        store_metadata: Metadata of the store.
        tails: Rows of incomplete chunks, by output.
        checksums: Checksum of each complete chunk, by its path in the store. The checksums detect two
            chunks that were exchanged.
    """

    store_metadata: Mapping[str, Any]
    tails: Mapping[str, Array]
    checksums: Mapping[str, int] = {}

    def arrays(self) -> dict[str, Array]:
        """Encode the checkpoint of the store as arrays by name."""
        return {
            "": _encode_json(self.store_metadata),
            **self.tails,
            **({_CHECKSUMS_KEY: _encode_json(self.checksums)} if self.checksums else {}),
        }

    @classmethod
    def decode(cls, arrays: Mapping[str, Array]) -> StoreCheckpoint:
        """Decode the checkpoint of a Zarr store from arrays that the method `arrays` returned."""
        try:
            store_metadata = parse_json(arrays[""].tobytes())
            checksums = (
                parse_json(arrays[_CHECKSUMS_KEY].tobytes()) if _CHECKSUMS_KEY in arrays else {}
            )
        except (DamagedError, KeyError) as error:
            raise _checkpoint_error(error) from None
        if not isinstance(checksums, dict):
            raise _checkpoint_error("its checksums are not those of chunks")
        tails = {name: array for name, array in arrays.items() if name not in ("", _CHECKSUMS_KEY)}
        return cls(store_metadata, tails, checksums)


def _encode_json(content: Mapping[str, Any]) -> Array:
    return np.frombuffer(json.dumps(content).encode(), np.uint8)


def check_and_resume_metadata(
    place: Path, recorded: StoreCheckpoint, length: int, outputs: Collection[str]
) -> dict[str, Any]:
    """Check that a store matches a checkpoint, and return metadata for its first `length` rows.

    Args:
        place: Path of the store.
        recorded: Content of the checkpoint about the store.
        length: Number of rows according to the checkpoint.
        outputs: Names of the recorded outputs.

    Raises:
        InputError: The store does not exist, is another one, or is incomplete.
    """
    try:
        checkpoint_layout = Layout.parse(recorded.store_metadata)
        _check_tails(checkpoint_layout, recorded.tails, length)
    except DamagedError as error:
        raise _checkpoint_error(error) from None
    output_names = {
        checkpoint_layout.arrays[name].name for name in checkpoint_layout.growing_names[:-1]
    }
    if output_names != set(outputs):
        raise _checkpoint_error("it is of other outputs")
    try:
        size_by_file = dict(list_files(place))
        stored_layout = _read_layout(place, checkpoint_layout)
        for name in checkpoint_layout.arrays:
            _check_same_array(stored_layout, checkpoint_layout, name, length)
        store_metadata = _metadata_with_length(stored_layout, checkpoint_layout, length)
        _check_chunks(place, size_by_file, Layout.parse(store_metadata), recorded, length)
    except DamagedError as error:
        raise InputError(f"cannot go on with '{place}': {error}", hint=_RESTORE_HINT) from None
    return store_metadata


def _checkpoint_error(why: object) -> InputError:
    return InputError(
        f"the checkpoint is damaged in what it says of the Zarr store: {why}",
        hint="leave resume (--resume) out to begin anew",
    )


# --- content of the checkpoint --------------------------------------------------------------------


def _check_tails(checkpoint_layout: Layout, tails: Mapping[str, Array], length: int) -> None:
    for name in checkpoint_layout.growing_names:
        array_metadata, axis = checkpoint_layout.arrays[name], checkpoint_layout.axis(name)
        expected_shape = list(array_metadata.shape)
        expected_shape[axis] = length % array_metadata.chunks[axis]
        last_rows = tails.get(array_metadata.name)
        if (
            last_rows is None
            or list(last_rows.shape) != expected_shape
            or last_rows.dtype != _memory_dtype(array_metadata)
        ):
            raise DamagedError(
                f"the last rows of '{array_metadata.name}' are not as they should be"
            )


def _memory_dtype(array_metadata: ArrayMetadata) -> np.dtype[Any]:
    return np.dtype(object) if array_metadata.is_text else array_metadata.dtype


# --- content of the disk --------------------------------------------------------------------------


def _read_layout(place: Path, checkpoint_layout: Layout) -> Layout:
    """Read the metadata of a Zarr store, or rebuild damaged metadata from the checkpoint.

    Raises:
        DamagedError: The folder is not a store to which a run was streamed.
    """
    try:
        store_metadata = read_json(place)
    except DamagedError:
        return _rebuild_layout(place, checkpoint_layout)
    except OSError as error:
        raise DamagedError(f"its '{METADATA}' cannot be read: {error.strerror}") from None
    attributes = get_attributes(store_metadata)
    if VERSION_ATTRIBUTE not in attributes or STREAMED_ATTRIBUTE not in attributes:
        raise DamagedError("it is no Zarr store that a run was streamed to")
    return Layout.parse(store_metadata)


def _rebuild_layout(place: Path, checkpoint_layout: Layout) -> Layout:
    metadata_by_array = {}
    recorded_metadata = checkpoint_layout.store_metadata["consolidated_metadata"]["metadata"]
    for name, array_metadata in recorded_metadata.items():
        try:
            metadata_by_array[name] = read_json(place / name)
        except (DamagedError, OSError):
            metadata_by_array[name] = array_metadata
    return Layout.parse(
        _replace_array_metadata(checkpoint_layout.store_metadata, metadata_by_array)
    )


def _replace_array_metadata(
    store_metadata: Mapping[str, Any], arrays: Mapping[str, Any]
) -> dict[str, Any]:
    consolidated_metadata = {**store_metadata["consolidated_metadata"], "metadata": dict(arrays)}
    return {**store_metadata, "consolidated_metadata": consolidated_metadata}


def _check_same_array(
    stored_layout: Layout, checkpoint_layout: Layout, name: str, length: int
) -> None:
    """Raise DamagedError if an array on disk is not the array of the checkpoint.

    The array may have more rows.
    """
    stored_entry, checkpoint_entry = stored_layout.arrays.get(name), checkpoint_layout.arrays[name]
    mismatch = "it is not the one that was written together with the checkpoint"
    if stored_entry is None or stored_layout.coordinate_name != checkpoint_layout.coordinate_name:
        raise DamagedError(
            f"{mismatch}: it has no '{name}' that grows along '{checkpoint_layout.coordinate_name}'"
        )
    is_widened = stored_entry.dtype.kind == "f" and checkpoint_entry.dtype.kind in "iu"
    if (stored_entry.name, stored_entry.dims) != (checkpoint_entry.name, checkpoint_entry.dims) or (
        stored_entry.dtype != checkpoint_entry.dtype and not is_widened
    ):
        raise DamagedError(
            f"{mismatch}: '{name}' is {stored_entry.dtype}{list(stored_entry.dims)}, "
            f"not {checkpoint_entry.dtype}{list(checkpoint_entry.dims)}"
        )
    axis = (
        checkpoint_layout.axis(name)
        if name in checkpoint_layout.growing_names
        else len(checkpoint_entry.shape)
    )
    extent_pairs = zip(
        stored_entry.shape[axis + 1 :], checkpoint_entry.shape[axis + 1 :], strict=True
    )
    if stored_entry.shape[:axis] != checkpoint_entry.shape[:axis] or any(
        stored_extent != checkpoint_extent and not stored_entry.has_varying_rows
        for stored_extent, checkpoint_extent in extent_pairs
    ):
        raise DamagedError(
            f"{mismatch}: '{name}' is {list(stored_entry.shape)}, not {list(checkpoint_entry.shape)}"
        )
    if name in checkpoint_layout.growing_names and stored_entry.shape[axis] < length:
        raise DamagedError(
            f"it has only {stored_entry.shape[axis]} rows of '{stored_entry.name}', "
            f"and the checkpoint says {length}"
        )


def _metadata_with_length(
    stored_layout: Layout, checkpoint_layout: Layout, length: int
) -> dict[str, Any]:
    """Return the metadata of a Zarr store with `length` rows in each growing array."""
    metadata_by_array = {}
    for name, array_metadata in checkpoint_layout.arrays.items():
        shape = list(array_metadata.shape)
        if name in checkpoint_layout.growing_names:
            shape[checkpoint_layout.axis(name)] = length
        stored_entry = stored_layout.store_metadata["consolidated_metadata"]["metadata"][name]
        attributes = checkpoint_layout.store_metadata["consolidated_metadata"]["metadata"][name][
            "attributes"
        ]
        metadata_by_array[name] = {**stored_entry, "shape": shape, "attributes": attributes}
    attributes = {
        **stored_layout.store_metadata["attributes"],
        **checkpoint_layout.store_metadata["attributes"],
    }
    return _replace_array_metadata(
        {**stored_layout.store_metadata, "attributes": attributes}, metadata_by_array
    )


# --- chunks ---------------------------------------------------------------------------------------


def _check_chunks(
    place: Path,
    files: Mapping[str, int],
    layout: Layout,
    recorded: StoreCheckpoint,
    length: int,
) -> None:
    """Raise DamagedError if a chunk that was complete at the checkpoint is missing or damaged."""
    for chunk_path in recorded.checksums:
        if chunk_path not in files:
            raise DamagedError(f"the chunk '{chunk_path}' is missing")
    keys_by_array = group_by_array(files)
    for name, array_metadata in layout.arrays.items():
        shape = list(array_metadata.shape)
        if name in layout.growing_names:
            axis = layout.axis(name)
            shape[axis] = length - recorded.tails[array_metadata.name].shape[axis]
        chunk_counts = [
            -(-extent // size) for extent, size in zip(shape, array_metadata.chunks, strict=True)
        ]
        needed_keys = [
            chunk_key
            for chunk_key in keys_by_array.get(name, ())
            if is_chunk_key(chunk_key, chunk_counts)
        ]
        missing_count = math.prod(chunk_counts) - len(needed_keys)
        if missing_count and not array_metadata.has_varying_rows:
            raise DamagedError(
                f"{missing_count} of {math.prod(chunk_counts)} chunks of '{array_metadata.name}' are missing"
            )
        for key in needed_keys:
            chunk_path = f"{name}/{key}"
            check_chunk(
                place / name,
                key,
                files[chunk_path],
                array_metadata,
                recorded.checksums.get(chunk_path),
            )
