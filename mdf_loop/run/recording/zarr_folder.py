"""Storage of results in Zarr format 3: a folder with an array for each output and coordinate.

    x.zarr/zarr.json                origin of the numbers, and the metadata of all arrays below
    x.zarr/time/zarr.json           shape, dtype, dimensions, unit
    x.zarr/time/c/0                 a chunk: about 1 MB of rows
    x.zarr/FNpop.V/...

Each folder and each file is created under a temporary name and then renamed. Readers therefore always see
complete content. (https://zarr-specs.readthedocs.io)
"""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.files import real_place, sync, sync_all, temporary_path, write_error
from mdf_loop.ir import Array
from mdf_loop.paths import refuse_overwriting
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import (
    END_ATTRIBUTES,
    Labelled,
    array_attributes,
    coordinates,
    escape_name,
    length_names,
    outputs,
    run_attributes,
    variables,
)
from mdf_loop.run.recording.metadata import (
    LENGTHS_ATTRIBUTE,
    METADATA,
    VERSION_ATTRIBUTE,
    DamagedError,
    get_attributes,
)
from mdf_loop.run.recording.metadata import read_json as read_json
from mdf_loop.run.run_id import new_run_id

if TYPE_CHECKING:
    import zarr

CHUNK_BYTES = 1 << 20
"""Bytes of rows per chunk, if a row is not larger."""

MIN_ROW_ELEMENTS = 64
"""Minimum number of elements of a row per chunk, if longer rows may follow."""

MIN_CHUNK_BYTES = 1 << 16
"""Minimum bytes of small rows per chunk, since many small files are slow to read."""

RUN_ATTRIBUTE = "run"
"""Attribute of a store with the id of the run that wrote it."""

UNFINISHED_ATTRIBUTE = "unfinished"
"""Attribute of an incomplete store: a sentence about its unfinished run."""

ARRAY_CONFIG: Any = {"write_empty_chunks": True}
"""Configuration of arrays, without which a chunk that only has -0.0 would be read as 0.0."""

UNFINISHED_ATTRIBUTES = {UNFINISHED_ATTRIBUTE: "a run writes it, or was killed"}

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Linux constants `AT_FDCWD` and `RENAME_EXCHANGE` of `renameat2`."""


def create_store(
    path: Path,
    results: Outputs,
    more: Mapping[str, str] | None = None,
    rows: int | None = None,
    run: str | None = None,
) -> None:
    """Write results to a new Zarr store, which replaces an earlier store at the path.

    Args:
        path: Path of the store, whose parent folder exists.
        results: Results to write. The innermost axis is divided into chunks.
        more: Further attributes of the store.
        rows: Number of rows of all arrays that are written at once, if rows will be appended.
        run: Id of the run that writes the store, or None for a new id.

    Raises:
        InputError: The path has other content, or cannot be written. Nothing is changed.
    """
    real_path = check_target(path)
    streamed_dim = results.axes[-1].name if results.axes else ""
    labelled_arrays = [*coordinates(results), *variables(results)]
    lengths_names = length_names(results.lengths, results)
    with convert_os_errors(path), temporary_path(real_path) as temporary_folder:
        new_store = temporary_folder / "new"
        new_store.mkdir(parents=True)
        for labelled_array in labelled_arrays:
            is_growing = rows is not None and labelled_array.name in results.lengths
            length_attributes = (
                {LENGTHS_ATTRIBUTE: lengths_names[labelled_array.name]}
                if labelled_array.name in lengths_names
                else {}
            )
            enlarged_shape = enlarge_shape(labelled_array, results) if is_growing else None
            _write_array(
                new_store, labelled_array, streamed_dim, rows, enlarged_shape, length_attributes
            )
        metadata_by_array = {
            name: read_json(new_store / name) for name in map(_folder_name, labelled_arrays)
        }
        run_attribute = {RUN_ATTRIBUTE: run or new_run_id()}
        write_json(
            new_store,
            make_root_metadata(
                metadata_by_array, {**store_attributes(results), **run_attribute, **(more or {})}
            ),
        )
        install_store(new_store, real_path)


def install_store(new_store: Path, place: Path) -> None:
    """Move a new Zarr store to `place`, and an existing store there out of the way."""
    sync_all(new_store)
    if not place.exists():
        new_store.rename(place)
    elif not _try_exchange(new_store, place):
        place.rename(new_store.parent / "old")
        new_store.rename(place)
    sync(place.parent)


def _try_exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically, and return False if the operating system cannot."""
    exchange_paths = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    exchange_arguments = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second))
    return exchange_paths is not None and exchange_paths(*exchange_arguments, _RENAME_EXCHANGE) == 0


def complete_store(path: Path, results: Outputs) -> None:
    """Add reductions and the stop reason to a Zarr store whose rows were appended by a run.

    Raises:
        InputError: The store cannot be written. Its rows are unchanged.
    """
    reduced_outputs = [
        labelled_array
        for labelled_array in outputs(results)
        if labelled_array.name in results.reduced
    ]
    with convert_os_errors(path):
        root_metadata = read_json(path)
        for labelled_array in reduced_outputs:
            _write_array(path, labelled_array, "", None)
        metadata_by_array = {
            name: read_json(path / name) for name in map(_folder_name, reduced_outputs)
        }
        root_metadata["consolidated_metadata"]["metadata"].update(metadata_by_array)
        for attribute_name in (
            UNFINISHED_ATTRIBUTE,
            *END_ATTRIBUTES,
        ):  # attributes of the resumed run
            root_metadata["attributes"].pop(attribute_name, None)
        root_metadata["attributes"].update(run_attributes(results))
        write_json(path, root_metadata)
        for name in map(_folder_name, reduced_outputs):
            sync_all(path / name)
        sync(path / METADATA)
        sync(path)


def check_target(path: Path) -> Path:
    """Check that a Zarr store can be written or replaced at a path, and resolve the path.

    Raises:
        InputError: The path has other content.
    """
    real_path = real_place(path)
    if real_path.exists() and VERSION_ATTRIBUTE not in read_own_attributes(real_path):
        raise InputError(
            f"cannot write '{path}': it is there already, and {_describe_content(real_path)}",
            hint="give another name, or remove it first",
        )
    refuse_overwriting(path)
    return real_path


def _describe_content(place: Path) -> str:
    """Describe the content of a path that is not a store of this package, for messages."""
    try:
        read_json(place)
    except DamagedError as error:
        return f"its metadata are damaged: {METADATA}: {error}"
    except OSError:
        pass
    return "is no Zarr store of mdf_loop"


def read_own_attributes(path: Path) -> Mapping[str, Any]:
    """Read the attributes of a Zarr store that this package wrote, or return {} for others."""
    try:
        attributes = get_attributes(read_json(path))
    except (OSError, DamagedError):
        return {}
    return attributes if VERSION_ATTRIBUTE in attributes else {}


def store_attributes(results: Outputs) -> dict[str, str]:
    """Return the attributes of a Zarr store: origin of the results, and coordinate names.

    The names follow xarray's convention.
    """
    coordinate_names = [escape_name(coordinate.name) for coordinate in coordinates(results)]
    name_list = " ".join(name for name in coordinate_names if len(name.split()) == 1)
    return run_attributes(results) | ({"coordinates": name_list} if name_list else {})


def _folder_name(labelled_array: Labelled) -> str:
    return escape_name(labelled_array.name)


@contextmanager
def convert_os_errors(path: Path) -> Iterator[None]:
    """Convert errors of the operating system to InputError within this context."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from None


# --- arrays -----------------------------------------------------------------------------------


def _write_array(
    store: Path,
    labelled_array: Labelled,
    streamed_dim: str,
    rows: int | None,
    enlarged_shape: tuple[int, ...] | None = None,
    more: Mapping[str, str] | None = None,
) -> None:
    """Write an array to a Zarr store, with further attributes `more`.

    In a float array with an `enlarged_shape` for longer rows, unwritten elements are nan.
    """
    axis, rows = (
        (labelled_array.dims.index(streamed_dim), rows)
        if streamed_dim in labelled_array.dims
        else (0, None)
    )
    storable_array = convert_texts(labelled_array.array)
    chunk_shape = _choose_chunk_shape(
        enlarged_shape or storable_array.shape, storable_array.dtype.itemsize, axis, rows
    )
    stored_array = create_array(
        store,
        labelled_array,
        storable_array.shape,
        storable_array.dtype,
        chunk_shape,
        with_nan=bool(enlarged_shape),
        more=more,
    )
    for chunk_index in _iterate_chunks(storable_array.shape, axis, stored_array.chunks):
        stored_array[chunk_index] = np.asarray(storable_array[chunk_index])


def create_array(
    store: Path,
    labelled_array: Labelled,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...],
    *,
    with_nan: bool,
    more: Mapping[str, Any] | None = None,
) -> zarr.Array[Any]:
    """Create a Zarr array without content.

    With `with_nan`, unwritten floats are nan.
    """
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

    is_text = dtype.kind == "T"
    return zarr.create_array(
        store,
        name=_folder_name(labelled_array),
        shape=shape,
        dtype=dtype if is_text else np.dtype(dtype.name),  # also maps C's long long to int64
        chunks=chunks,
        fill_value=np.nan if with_nan and dtype.kind in "fc" else dtype.type(),
        compressors=[
            ZstdCodec(level=0) if is_text else BloscCodec(cname="lz4", clevel=1, shuffle="shuffle"),
            Crc32cCodec(),
        ],
        dimension_names=labelled_array.dims,
        attributes={**array_attributes(labelled_array.name, labelled_array.unit), **(more or {})},
        config=ARRAY_CONFIG,
        overwrite=True,  # a reduction of a resumed run may exist
    )


def convert_texts(array: Array) -> Array:
    """Convert a text array to NumPy's variable-length string dtype.

    Other arrays are returned unchanged.
    """
    return array.astype(np.dtypes.StringDType()) if array.dtype.kind == "U" else array


def enlarge_shape(labelled_array: Labelled, results: Outputs) -> tuple[int, ...]:
    """Return the shape of an array, enlarged in advance if its rows may become longer."""
    leading_ndim, shape = len(results.axes_of(labelled_array.name)), labelled_array.array.shape
    if labelled_array.name not in results.lengths or len(shape) == leading_ndim:
        return tuple(shape)
    min_extent = round(MIN_ROW_ELEMENTS ** (1 / (len(shape) - leading_ndim)))
    return (*shape[:leading_ndim], *(max(extent, min_extent) for extent in shape[leading_ndim:]))


def _choose_chunk_shape(
    shape: tuple[int, ...], itemsize: int, axis: int, rows: int | None
) -> tuple[int, ...]:
    """Choose the chunk shape of a Zarr array, for chunks of about `CHUNK_BYTES` bytes.

    If rows will be appended, the number of rows is a multiple of `rows`.
    """
    if not shape:
        return ()
    chunk_shape = [max(1, extent) for extent in shape]
    row_bytes = itemsize * math.prod(chunk_shape[:axis] + chunk_shape[axis + 1 :])
    if rows is None:
        chunk_shape[axis] = min(chunk_shape[axis], max(1, CHUNK_BYTES // row_bytes))
    else:
        chunk_shape[axis] = rows * max(1, MIN_CHUNK_BYTES // (rows * row_bytes))
    return tuple(chunk_shape)


def _iterate_chunks(
    shape: tuple[int, ...], axis: int, chunks: tuple[int, ...]
) -> Iterator[tuple[slice, ...]]:
    """Yield the index (a tuple of slices) of each chunk of an array along `axis`."""
    if not shape:
        yield ()
    elif 0 not in shape:
        for start in range(0, shape[axis], chunks[axis]):
            yield (*(slice(None),) * axis, slice(start, start + chunks[axis]))


def open_array(place: Path, mode: Literal["r", "r+"] = "r") -> zarr.Array[Any]:
    """Open an array of a Zarr store, whose chunks are checked for damage when read."""
    import zarr

    from mdf_loop.run.recording.checked_store import CheckedStore

    store = CheckedStore(place, place.parent, read_only=mode == "r")
    return zarr.open_array(store, mode=mode, config=ARRAY_CONFIG)


# --- metadata ---------------------------------------------------------------------------------


def make_root_metadata(
    metadata_by_array: Mapping[str, Any], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the metadata of a whole Zarr store, which include the metadata of all arrays."""
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": dict(attributes),
        "consolidated_metadata": {
            "kind": "inline",
            "must_understand": False,
            "metadata": dict(metadata_by_array),
        },
    }


def write_json(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata file of a Zarr array, or of the whole store."""
    partial_path = folder / f"{METADATA}.partial"
    try:
        partial_path.write_text(json.dumps(metadata), encoding="utf-8")
        partial_path.replace(folder / METADATA)
    except OSError:
        partial_path.unlink(missing_ok=True)
        raise
