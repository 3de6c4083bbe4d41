"""Checkpoint files, from which an interrupted run can be resumed.

    mdf_loop.checkpoint     JSON: version, identity of the run, parts -> names -> encoding of each array
    0, 1, 2, ...            the arrays, in the order of the names

A checkpoint is an `.npz` file with any name. The file is written completely under a temporary name and
then renamed, so a crash at any moment leaves the old or the new file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from mdf_loop.archives import Archive
from mdf_loop.array_conversion import is_too_wide
from mdf_loop.document.content import content_of
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError, LoopError
from mdf_loop.files import ARCHIVE_ERRORS, checked_place, write_arrays, write_atomically
from mdf_loop.importing.writing import to_plain_content
from mdf_loop.ir import Array
from mdf_loop.memory_limit import check
from mdf_loop.run.control.snapshot import (
    BEGIN_ANEW_HINT,
    JSON_MEMORY_RATIO,
    Snapshot,
    damaged_error,
)

CheckpointParts: TypeAlias = Mapping[str, Mapping[str, Array]]
Identity: TypeAlias = Mapping[str, str]
"""Inputs and options that identify a run, by word. Runs with equal identities compute the same results.

    model           a digest, for messages such as "of another model"
    input I         a digest, for "with other values of the input 'I'"
    state           a digest, for "with another state"
    dt              a number, for "with dt = 5e-05, not 0.0001"
    kept            names, for "that kept A.v, A.w, not A.v"
"""

VERSION = 3
_CONTENTS_ENTRY = "mdf_loop.checkpoint"
_DIGEST_PREFIX = "sha256:"
_MAX_DIFFERENCES = 5
_TEXT_ENCODING = "texts"
_PYTHON_ERRORS = (TypeError, AttributeError, LookupError)
"""Python exceptions that indicate a checkpoint entry of an unexpected type."""

_HINT = f"give the same model and options as then, or {BEGIN_ANEW_HINT}"


# --- writing --------------------------------------------------------------------------------------


class Checkpoints:
    """Writer of the checkpoint file of a run, which each save replaces.

    The first save is due `every_seconds` after the run began, each later one `every_seconds` after the
    previous save began. A run never spends more than half of its time on saving.

    Raises:
        InputError: The path is not writable, or is an existing file that is no checkpoint.
    """

    def __init__(self, path: str | Path, every_seconds: float, identity: Identity) -> None:
        if not every_seconds >= 0:
            raise InputError(
                f"checkpoints cannot be written every {every_seconds} seconds",
                hint="give a time, such as 5min",
            )
        self._target = checked_place(path)
        if self._target.exists() and not _is_marked(self._target):
            raise InputError(
                f"'{path}' is there already, and is no checkpoint", hint="give another name"
            )
        self._interval_seconds = every_seconds
        self._identity = dict(identity)
        self._next_save_time = time.monotonic() + every_seconds

    def due(self) -> bool:
        """Return True if it is time to write the next checkpoint."""
        return time.monotonic() >= self._next_save_time

    def save(self, parts: CheckpointParts) -> None:
        """Write a checkpoint, which replaces the previous one.

        Raises:
            InputError: The file cannot be written (the disk is full). The old file is unchanged.
        """
        start_time = time.monotonic()
        file_entries = _file_entries(parts, self._identity)
        write_atomically(self._target, lambda stream: write_arrays(stream, file_entries))
        end_time = time.monotonic()
        self._next_save_time = max(
            start_time + self._interval_seconds, end_time + (end_time - start_time)
        )


def _file_entries(parts: CheckpointParts, identity: Identity) -> dict[str, Array]:
    """Return the arrays of a checkpoint file by name, with the table of contents first."""
    arrays: list[Array] = []
    encodings: dict[str, dict[str, str]] = {}
    for part_name, part_arrays in parts.items():
        encodings[part_name] = {}
        for name, array in part_arrays.items():
            encodings[part_name][name], stored_array = _encode_array(array)
            arrays.append(stored_array)
    contents = {"version": VERSION, "identity": dict(identity), "parts": encodings}
    arrays_by_number = {str(k): array for k, array in enumerate(arrays)}
    return {_CONTENTS_ENTRY: _encode_json(contents), **arrays_by_number}


def _encode_json(content: Any) -> Array:
    return np.frombuffer(json.dumps(content).encode("ascii"), np.uint8)


def _encode_array(array: Array) -> tuple[str, Array]:
    """Encode an array for an `.npz` file, and return the encoding's name and the encoded array.

    The name is "" if the array needs no encoding.
    """
    if array.dtype.kind == "O":
        texts = array.reshape(-1).tolist()
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a checkpoint holds numbers and texts, no other objects")
        return _TEXT_ENCODING, _encode_json({"shape": array.shape, "texts": texts})
    if array.dtype.isbuiltin == 2:  # dtypes of ml_dtypes
        return array.dtype.name, array.view(f"u{array.dtype.itemsize}")
    return "", array


def _decode_array(encoding: str, stored: Array) -> Array:
    if encoding == _TEXT_ENCODING:
        return _decode_texts(stored)
    if encoding:
        return stored.view(getattr(ml_dtypes, encoding))
    if is_too_wide(stored):
        raise ValueError(f"numbers of {stored.dtype} are too wide")
    return stored


def _decode_texts(stored: Array) -> Array:
    check(stored.nbytes * JSON_MEMORY_RATIO, "the texts of a checkpoint")
    decoded_json = json.loads(stored.tobytes())
    shape, texts = decoded_json["shape"], decoded_json["texts"]
    has_valid_size = isinstance(texts, list) and math.prod(shape) == len(texts)
    if not has_valid_size or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts that are not those of {shape}"[:100])
    text_array = np.empty(len(texts), object)
    text_array[:] = texts
    return text_array.reshape(shape)


# --- reading --------------------------------------------------------------------------------------


def load(path: str | Path, identity: Identity) -> dict[str, Snapshot]:
    """Read a checkpoint file, and return its parts by name.

    Raises:
        InputError: The checkpoint does not exist, is damaged, or belongs to another run.
    """
    checkpoint_path = Path(path)
    if not checkpoint_path.is_file():
        raise InputError(f"there is no checkpoint '{checkpoint_path}'", hint=BEGIN_ANEW_HINT)
    if not _is_marked(checkpoint_path):
        raise InputError(
            f"'{checkpoint_path.name}' is no checkpoint", hint="--checkpoint FILE writes one"
        )
    try:
        with zipfile.ZipFile(checkpoint_path) as zip_file:
            _refuse_compressed(zip_file, checkpoint_path.stat().st_size)
            archive = Archive(zip_file, checkpoint_path.name)
            contents = _read_contents(archive)
            _check_identity(checkpoint_path.name, contents, identity)
            if broken_entry := zip_file.testzip():  # check all entries before using any
                raise zipfile.BadZipFile(f"entry '{broken_entry}'")
            parts = _decode_parts(archive, contents["parts"])
            return {
                part_name: Snapshot(part_arrays, f"{part_name}/", checkpoint_path.name)
                for part_name, part_arrays in parts.items()
            }
    except LoopError:
        raise
    except _PYTHON_ERRORS:
        raise damaged_error(
            checkpoint_path.name, "what it says of its parts does not fit them"
        ) from None
    except ARCHIVE_ERRORS as error:
        raise damaged_error(checkpoint_path.name, str(error)) from None


def _refuse_compressed(zip_file: zipfile.ZipFile, size: int) -> None:
    """Raise an error if the entries of a checkpoint file are larger than the file.

    Checkpoints are never compressed.
    """
    if sum(zip_entry.file_size for zip_entry in zip_file.infolist()) > size:
        raise ValueError("it holds more than it has bytes")


def _is_marked(source: Path) -> bool:
    """Return True if a file begins like a checkpoint file, also if the file is damaged."""
    magic_bytes = f"{_CONTENTS_ENTRY}.npy".encode()
    try:
        with source.open("rb") as stream:
            return magic_bytes in stream.read(100)
    except OSError as error:
        raise InputError(f"cannot read '{source}': {error.strerror or error}") from None


def _read_contents(archive: Archive) -> dict[str, Any]:
    """Read the table of contents of a checkpoint file of any version."""
    contents = json.loads(archive.array(_CONTENTS_ENTRY).tobytes())
    version, identity, part_encodings = (contents[key] for key in ("version", "identity", "parts"))
    text_mappings = (
        [identity, *part_encodings.values()]
        if isinstance(part_encodings, dict)
        else [part_encodings]
    )
    if type(version) is not int or not all(map(_is_texts_by_name, text_mappings)):
        raise ValueError("it does not say what it holds")
    return dict(contents)


def _is_texts_by_name(content: Any) -> bool:
    return isinstance(content, dict) and all(isinstance(text, str) for text in content.values())


def _check_identity(name: str, contents: Mapping[str, Any], identity: Identity) -> None:
    if contents["version"] != VERSION:
        raise InputError(
            f"the checkpoint '{name}' is of another version of mdf_loop",
            hint=f"go on with that version, or {BEGIN_ANEW_HINT}",
        )
    if mismatch := describe_difference(contents["identity"], identity):
        raise InputError(f"the checkpoint '{name}' is of {mismatch}", hint=_HINT)


def _decode_parts(
    archive: Archive, encodings: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Array]]:
    """Decode the arrays of a checkpoint file into nested dicts `[part name][array name]`."""
    archive.check(archive.names)
    array_numbers = itertools.count()
    return {
        part_name: {
            name: _decode_array(encoding, archive.array(str(next(array_numbers))))
            for name, encoding in part_encodings.items()
        }
        for part_name, part_encodings in encodings.items()
    }


# --- identity of the run --------------------------------------------------------------------------


def describe_difference(recorded: Identity, current: Identity) -> str:
    """Describe how the run of a checkpoint differs from this run, or return "" for equal runs."""
    if recorded.get("model") != current.get("model"):
        return "another model"
    differing_names = [
        name for name in {**recorded, **current} if recorded.get(name) != current.get(name)
    ]
    if not differing_names:
        return ""
    differences = [
        _describe_entry(name, recorded.get(name), current.get(name))
        for name in differing_names[:_MAX_DIFFERENCES]
    ]
    if omitted_count := len(differing_names) - len(differences):
        differences.append(f"{omitted_count} more differences")
    return f"a run {' and '.join(differences)}"


def _describe_entry(entry_name: str, recorded: str | None, current: str | None) -> str:
    entry_kind, _, item_name = entry_name.partition(" ")
    if entry_kind == "kept":
        return f"that kept {recorded}, not {current}"
    if (recorded or current or "").startswith(_DIGEST_PREFIX):
        return _describe_values(
            entry_name,
            f"values of the {entry_kind} '{item_name}'" if item_name else "",
            recorded,
            current,
        )
    if recorded is None:
        return f"without {entry_name}"
    return f"with {entry_name} = {recorded}" + ("" if current is None else f", not {current}")


def _describe_values(word: str, values: str, recorded: str | None, current: str | None) -> str:
    if recorded is None:
        return f"without {values or word}"
    if current is None:
        return f"with {values or f'a {word}'}"
    return f"with other {values}" if values else f"with another {word}"


def digest_of_arrays(arrays: Mapping[str, Array]) -> str:
    """Return a hash of arrays that depends on their names, dtypes, shapes and bits."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        encoding, stored_array = _encode_array(arrays[name])
        digest.update(
            json.dumps([name, encoding, stored_array.dtype.str, stored_array.shape]).encode("ascii")
        )
        for chunk in _iterate_elements(stored_array):
            digest.update(chunk.tobytes())
    return _DIGEST_PREFIX + digest.hexdigest()


def _iterate_elements(array: Array) -> Iterator[Array]:
    """Yield the elements of an array in C order, a few megabytes at a time."""
    yield from np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        buffersize=max(2**22 // max(array.itemsize, 1), 1),
        order="C",
    )


def digest_of_document(document: Document) -> str:
    """Return a hash of the whole content of a model document."""
    large_arrays: dict[str, Array] = {}
    hashed_content = [document.graph.id, to_plain_content(content_of(document), "", large_arrays)]
    json_text = json.dumps(hashed_content, default=str)
    return digest_of_arrays(
        {"": _encode_json(json_text), **{f"array {k}": array for k, array in large_arrays.items()}}
    )
