"""Typed arrays in documents: reading of arrays, and writing of arrays as parameters.

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

ArchiveOpener: TypeAlias = Callable[[str], Archive]
"""Function that returns the arrays in a side file, by the name of the file."""

_TEXT_DTYPE = "string"
_TYPED_ARGUMENT_KEYS = {"dtype", "shape", "value"}


def array_parameter(array: Array) -> dict[str, Any]:
    """Return an array as the content of an MDF Parameter, with its dtype in the metadata."""
    return {"value": array, "metadata": array_metadata(array)}


def array_metadata(array: Array) -> dict[str, Any]:
    """Return the dtype of an array, and its shape if the nested list does not imply the shape."""
    metadata: dict[str, Any] = {"dtype": dtype_name(array)}
    if not array.size and array.ndim > 1:
        metadata["shape"] = list(array.shape)
    return metadata


def with_arrays(content: Any, open_archive_file: ArchiveOpener | None, where: str = "$") -> Any:
    """Convert values in a document to arrays of the dtypes that their metadata state.

    Raises:
        ModelError: Numbers do not fit the stated dtype or shape, or a side file is missing or in another
            folder.
    """
    if isinstance(content, list):
        if contains_only_numbers(content):
            return list(content)
        return [
            with_arrays(element, open_archive_file, f"{where}[{k}]")
            for k, element in enumerate(content)
        ]
    if not isinstance(content, Mapping):
        return content
    if _is_argument(content):
        return _read_array(content["value"], content, open_archive_file, where)
    converted_content = {
        key: with_arrays(nested_content, open_archive_file, _format_nested_path(where, key))
        if isinstance(nested_content, list | Mapping)
        else nested_content
        for key, nested_content in content.items()
    }
    metadata = converted_content.get("metadata")
    if (
        isinstance(metadata, Mapping)
        and "dtype" in metadata
        and converted_content.get("value") is not None
    ):
        converted_content["value"] = _read_array(
            converted_content["value"], metadata, open_archive_file, where
        )
    return converted_content


def _is_argument(content: Mapping[Any, Any]) -> bool:
    return {"dtype", "value"} <= content.keys() <= _TYPED_ARGUMENT_KEYS


_NAMED_SECTIONS = {
    "graphs",
    "nodes",
    "functions",
    "parameters",
    "input_ports",
    "output_ports",
    "edges",
}


def _format_nested_path(where: str, key: Any) -> str:
    section_name = where.rpartition(".")[2]
    return f"{where}['{key}']" if section_name in _NAMED_SECTIONS else f"{where}.{key}"


def _read_array(
    value: Any, metadata: Mapping[str, Any], open_archive_file: ArchiveOpener | None, where: str
) -> Array:
    stated_dtype = metadata["dtype"]
    if not isinstance(stated_dtype, str) or stated_dtype not in tensor_dtypes():
        dtypes_text = ", ".join(tensor_dtypes())
        raise ModelError(f"'{stated_dtype}' is not a dtype", where, f"dtypes: {dtypes_text}")
    if isinstance(value, np.ndarray) and dtype_name(value) == stated_dtype:
        value_array = value
    elif isinstance(value, Mapping):
        value_array = _read_array_file(value, stated_dtype, open_archive_file, where)
    else:
        value_array = _convert_numbers(value, stated_dtype, where)
    stated_shape = metadata.get("shape")
    if stated_shape is not None and not _is_shape(stated_shape):
        raise ModelError(f"a shape is a list of whole numbers, not {str(stated_shape)[:60]}", where)
    if stated_shape is None or tuple(stated_shape) == value_array.shape:
        return value_array
    if value_array.size or np.prod(stated_shape):
        raise ModelError(
            f"the value has shape {list(value_array.shape)}, not {list(stated_shape)}", where
        )
    return value_array.reshape(stated_shape)


def _is_shape(shape: Any) -> bool:
    stated_extents = shape if isinstance(shape, list | tuple) else [None]
    return all(type(extent) is int and extent >= 0 for extent in stated_extents)


def _convert_numbers(value: Any, stated_dtype: str, where: str) -> Array:
    dtype = numpy_dtype(stated_dtype)
    try:
        unconverted_array = (
            np.asarray(value, object)
            if stated_dtype == _TEXT_DTYPE
            else as_supported_array(value, "the value", where, ModelError)
        )
        with np.errstate(all="ignore"):
            if dtype.kind in "biu":
                typed_array = np.asarray(value, dtype)
            elif unconverted_array.dtype.kind in "iuf":
                typed_array = cast_checked(
                    unconverted_array, stated_dtype, "the value", where, ModelError
                )
            else:
                typed_array = unconverted_array.astype(dtype)
    except ModelError:
        raise
    except (Ragged, ValueError, TypeError, OverflowError):
        raise ModelError(f"the value is not an array of {stated_dtype}", where) from None
    if (
        dtype.kind in "iub"
        and unconverted_array.size
        and not np.array_equal(typed_array, unconverted_array)
    ):
        raise ModelError(f"the value is not {stated_dtype}: {str(value)[:60]}", where)
    return typed_array


def _read_array_file(
    value: Mapping[str, Any], stated_dtype: str, open_archive_file: ArchiveOpener | None, where: str
) -> Array:
    file_name, array_name = value.get("npz"), value.get("array")
    if (
        set(value) != {"npz", "array"}
        or not isinstance(file_name, str)
        or not isinstance(array_name, str)
    ):
        raise ModelError(
            "an array in a side file is written {npz: FILE, array: NAME}", f"{where}.value"
        )
    if open_archive_file is None:
        raise ModelError(
            f"the arrays of '{file_name}' lie beside a document, but this one is no file",
            where,
            "give the path of the document",
        )
    try:
        npz_archive = open_archive_file(file_name)
        if array_name not in npz_archive.names:
            raise ModelError(f"'{file_name}' holds no array '{array_name}'", where)
        loaded_array = in_native_byte_order(
            npz_archive.array(array_name), f"'{array_name}' of '{file_name}'", where, ModelError
        )
        return from_storable(loaded_array, stated_dtype, where)
    except LoopError as error:
        raise add_place(error, where) from None
    except FileNotFoundError:
        raise ModelError(f"there is no file '{file_name}' beside the document", where) from None
    except (*ARCHIVE_ERRORS, KeyError) as error:
        raise ModelError(f"'{file_name}' is not an npz file: {error}"[:500], where) from None


def archive_opener(folder: Path) -> ArchiveOpener:
    """Return a function that opens `.npz` files of one folder, and opens each file only once.

    The function refuses files of other folders.
    """

    @functools.cache
    def open_archive(file_name: str) -> Archive:
        archive_path = folder / file_name
        if not archive_path.resolve().is_relative_to(folder.resolve()):
            raise ModelError(f"'{file_name}' is not in the folder of the document")
        return Archive(zipfile.ZipFile(record_read_file(archive_path)), file_name)

    return open_archive


def to_storable(array: Array) -> Array:
    """Return the array in a dtype that an .npz file supports."""
    if array.dtype == ml_dtypes.bfloat16:
        return array.view(np.uint16)
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def from_storable(array: Array, stated_dtype: str, where: str) -> Array:
    """Return the original array from the result of `to_storable`."""
    if stated_dtype == "bfloat16" and array.dtype == np.uint16:
        return array.view(ml_dtypes.bfloat16)
    if stated_dtype == _TEXT_DTYPE and array.dtype.kind == "U":
        return array.astype(object)
    if str(array.dtype) != stated_dtype:
        raise ModelError(f"the array is {array.dtype}, but {stated_dtype} is stated", where)
    return array
