"""Typed arrays in documents: `array_parameter` writes an array, `with_arrays` reads all arrays.

    value: [1.0, 2.0]                           value: {npz: model.npz, array: weights}
    metadata: {dtype: float32}                  metadata: {dtype: float32, shape: [512, 512]}

These two examples are Parameters. Inside `args`, an array is a single mapping: `{dtype: float32, value: [1.0,
2.0]}`. An `.npz` file must be in the folder of the document.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from mdf_loop.archives import Archive
from mdf_loop.array_conversion import Ragged, as_supported_array, in_native_byte_order
from mdf_loop.build import add_place
from mdf_loop.checked_cast import cast_checked
from mdf_loop.errors import LoopError, ModelError
from mdf_loop.files import ARCHIVE_ERRORS
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, numpy_dtype, tensor_dtypes
from mdf_loop.number_check import contains_only_numbers
from mdf_loop.paths import record_read_file

SideFiles: TypeAlias = Callable[[str], Archive]
"""Function that returns the arrays in a side file, by the name of the file."""

_TEXT_DTYPE = "string"
_ARGUMENT_KEYS = {"dtype", "shape", "value"}


def array_parameter(array: Array) -> dict[str, Any]:
    """Return an array as the content of a Parameter: the value, and dtype and shape in `metadata`."""
    return {"value": array, "metadata": array_metadata(array)}


def array_metadata(array: Array) -> dict[str, Any]:
    """Return the dtype of an array, and its shape if the nested list does not imply the shape."""
    metadata: dict[str, Any] = {"dtype": dtype_name(array)}
    if not array.size and array.ndim > 1:
        metadata["shape"] = list(array.shape)
    return metadata


def with_arrays(content: Any, side: SideFiles | None, where: str = "$") -> Any:
    """Return the content with an array in place of each value with a stated dtype.

    Raises:
        ModelError: Numbers do not fit the stated dtype or shape, or a side file is missing or in another
            folder.
    """
    if isinstance(content, list):
        if contains_only_numbers(content):
            return list(content)
        return [with_arrays(part, side, f"{where}[{k}]") for k, part in enumerate(content)]
    if not isinstance(content, Mapping):
        return content
    if _is_argument(content):
        return _read_array(content["value"], content, side, where)
    converted = {
        key: with_arrays(part, side, _inner_path(where, key)) for key, part in content.items()
    }
    metadata = converted.get("metadata")
    if isinstance(metadata, Mapping) and "dtype" in metadata and converted.get("value") is not None:
        converted["value"] = _read_array(converted["value"], metadata, side, where)
    return converted


def _is_argument(content: Mapping[Any, Any]) -> bool:
    return {"dtype", "value"} <= content.keys() <= _ARGUMENT_KEYS


_NAMED_SECTIONS = {
    "graphs",
    "nodes",
    "functions",
    "parameters",
    "input_ports",
    "output_ports",
    "edges",
}


def _inner_path(where: str, key: Any) -> str:
    section = where.rpartition(".")[2]
    return f"{where}['{key}']" if section in _NAMED_SECTIONS else f"{where}.{key}"


def _read_array(
    value: Any, metadata: Mapping[str, Any], side: SideFiles | None, where: str
) -> Array:
    word = metadata["dtype"]
    if not isinstance(word, str) or word not in tensor_dtypes():
        known = ", ".join(tensor_dtypes())
        raise ModelError(f"'{word}' is not a dtype", where, f"dtypes: {known}")
    if isinstance(value, np.ndarray) and dtype_name(value) == word:
        array = value
    elif isinstance(value, Mapping):
        array = _array_of_file(value, word, side, where)
    else:
        array = _array_of_numbers(value, word, where)
    shape = metadata.get("shape")
    if shape is not None and not _is_shape(shape):
        raise ModelError(f"a shape is a list of whole numbers, not {str(shape)[:60]}", where)
    if shape is None or tuple(shape) == array.shape:
        return array
    if array.size or np.prod(shape):
        raise ModelError(f"the value has shape {list(array.shape)}, not {list(shape)}", where)
    return array.reshape(shape)


def _is_shape(shape: Any) -> bool:
    extents = shape if isinstance(shape, list | tuple) else [None]
    return all(type(extent) is int and extent >= 0 for extent in extents)


def _array_of_numbers(value: Any, word: str, where: str) -> Array:
    dtype = numpy_dtype(word)
    try:
        plain = (
            np.asarray(value, object)
            if word == _TEXT_DTYPE
            else as_supported_array(value, "the value", where, ModelError)
        )
        with np.errstate(all="ignore"):
            if dtype.kind in "biu":
                array = np.asarray(value, dtype)
            elif plain.dtype.kind in "iuf":
                array = cast_checked(plain, word, "the value", where, ModelError)
            else:
                array = plain.astype(dtype)
    except ModelError:
        raise
    except (Ragged, ValueError, TypeError, OverflowError):
        raise ModelError(f"the value is not an array of {word}", where) from None
    if dtype.kind in "iub" and plain.size and not np.array_equal(array, plain):
        raise ModelError(f"the value is not {word}: {str(value)[:60]}", where)
    return array


def _array_of_file(
    value: Mapping[str, Any], word: str, side: SideFiles | None, where: str
) -> Array:
    file, key = value.get("npz"), value.get("array")
    if set(value) != {"npz", "array"} or not isinstance(file, str) or not isinstance(key, str):
        raise ModelError(
            "an array in a side file is written {npz: FILE, array: NAME}", f"{where}.value"
        )
    if side is None:
        raise ModelError(
            f"the arrays of '{file}' lie beside a document, but this one is no file",
            where,
            "give the path of the document",
        )
    try:
        archive = side(file)
        if key not in archive.names:
            raise ModelError(f"'{file}' holds no array '{key}'", where)
        array = in_native_byte_order(archive.array(key), f"'{key}' of '{file}'", where, ModelError)
        return from_storable(array, word, where)
    except LoopError as error:
        raise add_place(error, where) from None
    except FileNotFoundError:
        raise ModelError(f"there is no file '{file}' beside the document", where) from None
    except (*ARCHIVE_ERRORS, KeyError) as error:
        raise ModelError(f"'{file}' is not an npz file: {error}"[:500], where) from None


def files_in(folder: Path) -> SideFiles:
    """Return a function that opens the `.npz` files of a folder, each once, and no files of other folders."""

    @functools.cache
    def archive(name: str) -> Archive:
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ModelError(f"'{name}' is not in the folder of the document")
        return Archive(zipfile.ZipFile(record_read_file(path)), name)

    return archive


def to_storable(array: Array) -> Array:
    """Return the array in a dtype that an .npz file supports."""
    if array.dtype == ml_dtypes.bfloat16:
        return array.view(np.uint16)
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def from_storable(array: Array, word: str, where: str) -> Array:
    """Return the original array from the result of `to_storable`."""
    if word == "bfloat16" and array.dtype == np.uint16:
        return array.view(ml_dtypes.bfloat16)
    if word == _TEXT_DTYPE and array.dtype.kind == "U":
        return array.astype(object)
    if str(array.dtype) != word:
        raise ModelError(f"the array is {array.dtype}, but {word} is stated", where)
    return array
