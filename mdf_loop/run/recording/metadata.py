"""Strict validation of the metadata of Zarr stores that this package has written.

All metadata are checked before any of them are used. After a power loss, the file may be empty. A store
from another person may contain anything, such as an array called `../victim`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

METADATA = "zarr.json"

VERSION_ATTRIBUTE = "mdf_loop_version"
"""Attribute that marks a store of this package."""

STREAMED_ATTRIBUTE = "streamed_along"
"""Attribute of a growing store: the name of the coordinate that grows with the rows."""

MAX_CHUNK_BYTES = 1 << 24
"""Maximum bytes of a chunk with several rows. This package writes chunks of about 1 MB."""

MAX_METADATA_BYTES = 1 << 26
"""Maximum bytes of metadata that are read, enough for about ten thousand arrays."""

_INTEGER_DTYPES = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
CHECKSUM_CODEC = "crc32c"
"""Codec that appends a checksum to a chunk."""

_NUMBER_DTYPES = {"bool", "float16", "float32", "float64", *_INTEGER_DTYPES}
_TEXT_DTYPE = "string"
_MAX_EXTENT = 1 << 62
_FIXED_METADATA: Mapping[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
}


class DamagedError(ValueError):
    """Error that the metadata or chunks of a Zarr store are damaged."""


def read_json(folder: Path) -> Any:
    """Read the metadata file of a Zarr store, or of an array in the store.

    Raises:
        DamagedError: The metadata are too long or not JSON.
        OSError: The metadata cannot be read.
    """
    with (folder / METADATA).open("rb") as stream:
        return parse_json(stream.read(MAX_METADATA_BYTES + 1))


def parse_json(data: bytes) -> Any:
    """Parse a JSON text, and raise DamagedError if it is invalid or very long.

    Raises:
        DamagedError: The text is too long or not JSON.
    """
    if len(data) > MAX_METADATA_BYTES:
        raise DamagedError(f"it is longer than {MAX_METADATA_BYTES >> 20} MB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedError("it is no JSON" if data.strip(b"\0") else "it is empty") from None


# --- an array -------------------------------------------------------------------------------------

LENGTHS_ATTRIBUTE = "lengths"
"""Attribute of an array whose rows may vary in length: the name of the array of lengths."""


def has_varying_rows(array_metadata: Mapping[str, Any]) -> bool:
    """Return True if the rows of an array may vary in length, according to its metadata.

    Stores of earlier versions lack the attribute. Their unwritten elements are nan.
    """
    return (
        LENGTHS_ATTRIBUTE in array_metadata.get("attributes", {})
        or array_metadata.get("fill_value") == "NaN"
    )


COMPUTED, FAILED = 1, 2
"""State flags of members that are computed, and of members whose run failed."""

FLAG_ATTRIBUTES: Mapping[str, Any] = {
    "flag_values": [0, COMPUTED, FAILED],
    "flag_meanings": "missing computed failed",
}
"""Attributes of an array of such flags, in the terms of the CF conventions."""


class ArrayMetadata(Struct, frozen=True):
    """Validated metadata of one Zarr array: dtype, dimensions, shape and chunk shape.

    `has_varying_rows` is True if its rows may vary in length. `name` is the name of the output. `has_checksums` is
    True if each chunk ends with its CRC-32C.
    """

    name: str
    dtype: np.dtype[Any]
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    has_varying_rows: bool
    has_checksums: bool

    @classmethod
    def parse(cls, name: str, array_metadata: Any) -> ArrayMetadata:
        """Validate the JSON metadata of the array in the folder `name`, and return them parsed.

        Raises:
            DamagedError: The metadata differ from the format of this package.
        """
        _check(is_plain_name(name), f"{name[:80]!r} is no name of an array")
        _check(isinstance(array_metadata, dict), f"of '{name}' it says nothing")
        for key, expected_content in _FIXED_METADATA.items():
            content = array_metadata.get(key)
            _check(
                _are_equal_json(content, expected_content),
                f"the {key} of '{name}' is {_abbreviate(content)}",
            )
        dtype = _parse_dtype(name, array_metadata.get("data_type"))
        shape = _parse_extents(name, "shape", array_metadata.get("shape"), 0)
        chunks = _parse_extents(
            name, "chunk shape", _parse_chunk_shape(array_metadata.get("chunk_grid")), 1
        )
        dims = array_metadata.get(
            "dimension_names", None if shape else []
        )  # a scalar may have no names
        _check(_are_texts(dims), f"the dimensions of '{name}' are {_abbreviate(dims)}")
        _check(
            len(dims) == len(shape) == len(chunks) == len(set(dims)),
            f"the dimensions of '{name}', its shape and that of its chunks do not go together",
        )
        fill_value, codecs = array_metadata.get("fill_value"), array_metadata.get("codecs")
        _check(
            _is_fill_value(fill_value, dtype),
            f"the fill value of '{name}' is {_abbreviate(fill_value)}",
        )
        _check(
            _are_expected_codecs(codecs, dtype), f"the codecs of '{name}' are {_abbreviate(codecs)}"
        )
        attributes = array_metadata.get("attributes")
        _check(
            _are_text_attributes(attributes) or _are_equal_json(attributes, FLAG_ATTRIBUTES),
            f"the attributes of '{name}' are {_abbreviate(attributes)}",
        )
        output_name = attributes.get("long_name", name)
        has_checksums = len(codecs) == len(_expected_codecs(dtype)) + 1
        return cls(
            output_name,
            dtype,
            tuple(dims),
            shape,
            chunks,
            has_varying_rows(array_metadata),
            has_checksums,
        )

    @property
    def chunk_bytes(self) -> int:
        """Number of bytes of an uncompressed chunk."""
        return math.prod(self.chunks) * self.dtype.itemsize

    @property
    def is_text(self) -> bool:
        """True if the elements of the array are texts."""
        return self.dtype.kind == "T"


def is_plain_name(name: Any) -> bool:
    """Return True if a name is a safe file name: not a path, and not reserved."""
    if not isinstance(name, str) or name in ("", ".", "..", METADATA) or "\0" in name:
        return False
    return Path(name).name == name


def _parse_dtype(name: str, content: Any) -> np.dtype[Any]:
    if content == _TEXT_DTYPE:
        return np.dtypes.StringDType()
    _check(
        isinstance(content, str) and content in _NUMBER_DTYPES,
        f"the dtype of '{name}' is {_abbreviate(content)}",
    )
    dtype: np.dtype[Any] = np.dtype(content)
    return dtype


def _parse_chunk_shape(grid: Any) -> Any:
    """Return the chunk shape in a Zarr chunk grid, or None if the grid is not regular."""
    if not isinstance(grid, dict) or grid.get("name") != "regular":
        return None
    configuration = grid.get("configuration")
    return configuration.get("chunk_shape") if isinstance(configuration, dict) else None


def _parse_extents(name: str, what: str, content: Any, least: int) -> tuple[int, ...]:
    are_integers = isinstance(content, list) and all(type(extent) is int for extent in content)
    _check(
        are_integers
        and len(content) <= 64
        and all(least <= extent <= _MAX_EXTENT for extent in content),
        f"the {what} of '{name}' is {_abbreviate(content)}",
    )
    return tuple(content)


def _are_texts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(text, str) for text in content)


def _are_text_attributes(content: Any) -> bool:
    """Return True if Zarr attributes are a mapping with only texts as values."""
    return isinstance(content, dict) and all(isinstance(text, str) for text in content.values())


def _is_fill_value(content: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f":
        return content == "NaN" or (type(content) in (int, float) and content == 0)
    return _are_equal_json(content, {"T": "", "b": False}.get(dtype.kind, 0))


def _are_expected_codecs(codecs: Any, dtype: np.dtype[Any]) -> bool:
    """Return True if an array has the Zarr codecs of this package.

    In old stores, arrays have no checksum codec.
    """
    expected_codecs = _expected_codecs(dtype)
    return _are_equal_json(codecs, expected_codecs) or _are_equal_json(
        codecs, [*expected_codecs, {"name": CHECKSUM_CODEC}]
    )


def _expected_codecs(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Return the Zarr codecs of arrays of a dtype, without the checksum codec."""
    if dtype.kind == "T":
        zstd_options = {"level": 0, "checksum": False}
        return [
            {"name": "vlen-utf8", "configuration": {}},
            {"name": "zstd", "configuration": zstd_options},
        ]
    endian_options = {"configuration": {"endian": sys.byteorder}} if dtype.itemsize > 1 else {}
    blosc_options = {
        "typesize": dtype.itemsize,
        "cname": "lz4",
        "clevel": 1,
        "shuffle": "shuffle",
        "blocksize": 0,
    }
    return [{"name": "bytes", **endian_options}, {"name": "blosc", "configuration": blosc_options}]


def _are_equal_json(first: Any, second: Any) -> bool:
    """Return True if two JSON values are equal, where True differs from 1, and False from 0."""
    return bool(first == second) and json.dumps(first, sort_keys=True) == json.dumps(
        second, sort_keys=True
    )


def _abbreviate(content: Any) -> str:
    content_text = "missing" if content is None else repr(content)
    return (
        content_text if len(content_text) <= 80 else f"{content_text[:60]} ... {content_text[-15:]}"
    )


def _check(holds: bool, sentence: str) -> None:
    if not holds:
        raise DamagedError(sentence)


# --- a store --------------------------------------------------------------------------------------


class Layout(Struct, frozen=True):
    """Validated metadata of a Zarr store that grows during a run, with its arrays by name.

    `coordinate_name` is the name of the coordinate that grows with the rows. `dim` is the dimension of this coordinate, along which
    all growing arrays grow.
    """

    store_metadata: Mapping[str, Any]
    arrays: Mapping[str, ArrayMetadata]
    coordinate_name: str
    dim: str

    @classmethod
    def parse(cls, store_metadata: Any) -> Layout:
        """Validate the JSON metadata of a store that grows during a run, and return them parsed.

        Raises:
            DamagedError: The metadata differ from the format of this package.
        """
        attributes = get_attributes(store_metadata)
        _check(VERSION_ATTRIBUTE in attributes, "it is none of mdf_loop")
        _check(_are_text_attributes(attributes), f"its attributes are {_abbreviate(attributes)}")
        consolidated_metadata = store_metadata.get("consolidated_metadata")
        metadata_by_array = (
            consolidated_metadata.get("metadata")
            if isinstance(consolidated_metadata, dict)
            else None
        )
        _check(isinstance(metadata_by_array, dict), "it does not say what its arrays are")
        assert isinstance(metadata_by_array, dict)
        coordinate_name = attributes.get(STREAMED_ATTRIBUTE)
        _check(
            coordinate_name in metadata_by_array,
            f"the {STREAMED_ATTRIBUTE} of it is {_abbreviate(coordinate_name)}, which it has not",
        )
        assert coordinate_name is not None
        arrays = {
            name: ArrayMetadata.parse(name, metadata)
            for name, metadata in metadata_by_array.items()
        }
        dims = arrays[coordinate_name].dims
        _check(
            len(dims) == 1,
            f"the {STREAMED_ATTRIBUTE} of it is '{coordinate_name}', which has {len(dims)} axes",
        )
        layout = cls(store_metadata, arrays, coordinate_name, dims[0])
        for name in layout.growing_names:
            layout._check_chunks(name)
        return layout

    def _check_chunks(self, name: str) -> None:
        """Check that a chunk of an array has one row, or a limited number of bytes."""
        array_metadata = self.arrays[name]
        _check(
            array_metadata.chunks[self.axis(name)] == 1
            or array_metadata.chunk_bytes <= MAX_CHUNK_BYTES,
            f"the chunk shape of '{name}' is {list(array_metadata.chunks)}",
        )

    @property
    def growing_names(self) -> list[str]:
        """Names of the arrays to which rows are appended, ending with `coordinate_name`."""
        growing_names = [
            name for name, array_metadata in self.arrays.items() if self.dim in array_metadata.dims
        ]
        return sorted(growing_names, key=lambda name: name == self.coordinate_name)

    def axis(self, name: str) -> int:
        """Return the axis along which rows are appended to an array."""
        return self.arrays[name].dims.index(self.dim)


def get_attributes(store_metadata: Any) -> dict[str, Any]:
    """Return the attributes in the metadata of a Zarr store, or {} if there are none."""
    attributes = store_metadata.get("attributes") if isinstance(store_metadata, dict) else None
    return attributes if isinstance(attributes, dict) else {}
