"""Check of a Zarr store before a run resumes with it.

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
    OURS,
    STREAMED,
    DamagedError,
    Entry,
    Layout,
    attributes_in,
    parsed,
    read_json,
)
from mdf_loop.run.recording.store_files import check_chunk, chunks_by_array, is_chunk, plain_files

_ANEW = "put back the store as it was, or begin anew: leave resume (--resume) out"

_CHECKSUMS = "checksums"
"""Name of the checksums in a checkpoint, distinct from output names, which contain a dot."""


class StoreCheckpoint(Struct, frozen=True):
    """Checkpoint of a Zarr store: its metadata, incomplete chunks and checksums.

    Attributes:
        document: Metadata of the store.
        tails: Rows of incomplete chunks, by output.
        checksums: Checksum of each complete chunk, by its path in the store. The checksums detect two
            chunks that were exchanged.
    """

    document: Mapping[str, Any]
    tails: Mapping[str, Array]
    checksums: Mapping[str, int] = {}

    def parts(self) -> dict[str, Array]:
        """Encode the checkpoint of the store as arrays by name."""
        return {
            "": _as_bytes(self.document),
            **self.tails,
            **({_CHECKSUMS: _as_bytes(self.checksums)} if self.checksums else {}),
        }

    @classmethod
    def of(cls, parts: Mapping[str, Array]) -> StoreCheckpoint:
        """Decode the checkpoint of a store from the arrays that `parts` returned."""
        try:
            document = parsed(parts[""].tobytes())
            checksums = parsed(parts[_CHECKSUMS].tobytes()) if _CHECKSUMS in parts else {}
        except (DamagedError, KeyError) as error:
            raise _damaged_checkpoint(error) from None
        if not isinstance(checksums, dict):
            raise _damaged_checkpoint("its checksums are not those of chunks")
        tails = {name: part for name, part in parts.items() if name not in ("", _CHECKSUMS)}
        return cls(document, tails, checksums)


def _as_bytes(content: Mapping[str, Any]) -> Array:
    return np.frombuffer(json.dumps(content).encode(), np.uint8)


def document_to_go_on(
    place: Path, recorded: StoreCheckpoint, length: int, outputs: Collection[str]
) -> dict[str, Any]:
    """Check a store, and return its metadata for a run that continues after `length` rows.

    Args:
        place: Path of the store.
        recorded: Content of the checkpoint about the store.
        length: Number of rows according to the checkpoint.
        outputs: Names of the recorded outputs.

    Raises:
        InputError: The store does not exist, is another one, or is incomplete.
    """
    try:
        promised = Layout.of(recorded.document)
        _check_tails(promised, recorded.tails, length)
    except DamagedError as error:
        raise _damaged_checkpoint(error) from None
    names = {promised.arrays[name].name for name in promised.growing[:-1]}
    if names != set(outputs):
        raise _damaged_checkpoint("it is of other outputs")
    try:
        files = dict(plain_files(place))
        there = _layout_there(place, promised)
        for name in promised.arrays:
            _check_same(there, promised, name, length)
        document = _with_length(there, promised, length)
        _check_chunks(place, files, Layout.of(document), recorded, length)
    except DamagedError as error:
        raise InputError(f"cannot go on with '{place}': {error}", hint=_ANEW) from None
    return document


def _damaged_checkpoint(why: object) -> InputError:
    return InputError(
        f"the checkpoint is damaged in what it says of the Zarr store: {why}",
        hint="leave resume (--resume) out to begin anew",
    )


# --- content of the checkpoint --------------------------------------------------------------------


def _check_tails(promised: Layout, tails: Mapping[str, Array], length: int) -> None:
    for name in promised.growing:
        entry, axis = promised.arrays[name], promised.axis(name)
        shape = list(entry.shape)
        shape[axis] = length % entry.chunks[axis]
        tail = tails.get(entry.name)
        if tail is None or list(tail.shape) != shape or tail.dtype != _in_memory(entry):
            raise DamagedError(f"the last rows of '{entry.name}' are not as they should be")


def _in_memory(entry: Entry) -> np.dtype[Any]:
    return np.dtype(object) if entry.is_text else entry.dtype


# --- content of the disk --------------------------------------------------------------------------


def _layout_there(place: Path, promised: Layout) -> Layout:
    """Read the layout of the store. Damaged metadata are rebuilt from the arrays and the checkpoint.

    Raises:
        DamagedError: The folder is not a store to which a run was streamed.
    """
    try:
        document = read_json(place)
    except DamagedError:
        return _put_together(place, promised)
    except OSError as error:
        raise DamagedError(f"its '{METADATA}' cannot be read: {error.strerror}") from None
    attributes = attributes_in(document)
    if OURS not in attributes or STREAMED not in attributes:
        raise DamagedError("it is no Zarr store that a run was streamed to")
    return Layout.of(document)


def _put_together(place: Path, promised: Layout) -> Layout:
    documents = {}
    for name, entry in promised.document["consolidated_metadata"]["metadata"].items():
        try:
            documents[name] = read_json(place / name)
        except (DamagedError, OSError):
            documents[name] = entry
    return Layout.of(_with_arrays(promised.document, documents))


def _with_arrays(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**document["consolidated_metadata"], "metadata": dict(arrays)}
    return {**document, "consolidated_metadata": whole}


def _check_same(there: Layout, promised: Layout, name: str, length: int) -> None:
    """Check that an array on the disk equals the array of the checkpoint, possibly with more rows."""
    theirs, ours = there.arrays.get(name), promised.arrays[name]
    other = "it is not the one that was written together with the checkpoint"
    if theirs is None or there.along != promised.along:
        raise DamagedError(f"{other}: it has no '{name}' that grows along '{promised.along}'")
    widened = theirs.dtype.kind == "f" and ours.dtype.kind in "iu"
    if (theirs.name, theirs.dims) != (ours.name, ours.dims) or (
        theirs.dtype != ours.dtype and not widened
    ):
        raise DamagedError(
            f"{other}: '{name}' is {theirs.dtype}{list(theirs.dims)}, "
            f"not {ours.dtype}{list(ours.dims)}"
        )
    axis = promised.axis(name) if name in promised.growing else len(ours.shape)
    rows = zip(theirs.shape[axis + 1 :], ours.shape[axis + 1 :], strict=True)
    if theirs.shape[:axis] != ours.shape[:axis] or any(
        a != b and not theirs.is_open for a, b in rows
    ):
        raise DamagedError(f"{other}: '{name}' is {list(theirs.shape)}, not {list(ours.shape)}")
    if name in promised.growing and theirs.shape[axis] < length:
        raise DamagedError(
            f"it has only {theirs.shape[axis]} rows of '{theirs.name}', "
            f"and the checkpoint says {length}"
        )


def _with_length(there: Layout, promised: Layout, length: int) -> dict[str, Any]:
    """Return the metadata of the store with `length` rows in each growing array."""
    documents = {}
    for name, entry in promised.arrays.items():
        shape = list(entry.shape)
        if name in promised.growing:
            shape[promised.axis(name)] = length
        stored_entry = there.document["consolidated_metadata"]["metadata"][name]
        attributes = promised.document["consolidated_metadata"]["metadata"][name]["attributes"]
        documents[name] = {**stored_entry, "shape": shape, "attributes": attributes}
    attributes = {**there.document["attributes"], **promised.document["attributes"]}
    return _with_arrays({**there.document, "attributes": attributes}, documents)


# --- chunks ---------------------------------------------------------------------------------------


def _check_chunks(
    place: Path,
    files: Mapping[str, int],
    layout: Layout,
    recorded: StoreCheckpoint,
    length: int,
) -> None:
    """Raise DamagedError if a chunk whose rows are not in the checkpoint is missing or damaged."""
    for path in recorded.checksums:
        if path not in files:
            raise DamagedError(f"the chunk '{path}' is missing")
    paths = chunks_by_array(files)
    for name, entry in layout.arrays.items():
        shape = list(entry.shape)
        if name in layout.growing:
            axis = layout.axis(name)
            shape[axis] = length - recorded.tails[entry.name].shape[axis]
        counts = [-(-n // size) for n, size in zip(shape, entry.chunks, strict=True)]
        needed = [key for key in paths.get(name, ()) if is_chunk(key, counts)]
        missing = math.prod(counts) - len(needed)
        if missing and not entry.is_open:
            raise DamagedError(
                f"{missing} of {math.prod(counts)} chunks of '{entry.name}' are missing"
            )
        for key in needed:
            path = f"{name}/{key}"
            check_chunk(place / name, key, files[path], entry, recorded.checksums.get(path))
