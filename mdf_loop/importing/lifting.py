"""Extraction of arrays from a model's content, so that the rest can be written as JSON.

    {parameters: {w: {value: array}}}   <->   {parameters: {w: {value: None}}},
                                              ExtractedArray((parameters, w, value), array)

A long list of numbers of one type is lifted as an array, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.writing import MAX_INLINE_ELEMENTS
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, tensor_dtypes
from mdf_loop.number_check import contains_only_numbers

ContentPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indices that lead to a part of the content."""

_LIST_DTYPES: dict[type, np.dtype[Any]] = {
    float: np.dtype(np.float64),
    int: np.dtype(np.int64),
    bool: np.dtype(np.bool_),
}
"""Dtype that represents all numbers of a list exactly, by the Python type of the numbers."""


class ExtractedArray(Struct, frozen=True, eq=False):
    """Array that was extracted from a model's content, with its path in the content.

    `is_list` is True if the content had a list of numbers in place of the array.
    """

    path: ContentPath  # path in the content of the model
    array: Array
    is_list: bool = False  # array was a list of numbers


def extract_arrays(content: Any) -> tuple[Any, list[ExtractedArray]]:
    """Split a model's content into content without arrays and a list of the extracted arrays."""
    extracted_arrays: list[ExtractedArray] = []
    return _without_arrays(content, (), extracted_arrays), extracted_arrays


def insert_arrays(content: Content, extracted_arrays: Iterable[ExtractedArray]) -> None:
    """Insert each extracted array into the content at its path.

    Raises:
        LookupError, TypeError: The path does not exist in the content, or has a value already.
    """
    for extracted_array in extracted_arrays:
        *parent_keys, key_of_array = extracted_array.path
        parent_content: Any = content
        for key in parent_keys:
            parent_content = parent_content[key]
        if parent_content[key_of_array] is not None:
            raise LookupError(f"there is something else at {extracted_array.path}")
        parent_content[key_of_array] = (
            extracted_array.array.tolist() if extracted_array.is_list else extracted_array.array
        )


def _without_arrays(content: Any, path: ContentPath, extracted_arrays: list[ExtractedArray]) -> Any:
    if isinstance(content, np.ndarray) and _has_onnx_dtype(content):
        extracted_arrays.append(ExtractedArray(path, content))
        return None
    if isinstance(content, np.ndarray | np.generic):
        return content.tolist()
    if isinstance(content, Mapping):
        nested_contents = ((str(key), nested_content) for key, nested_content in content.items())
        return {
            key: _without_arrays(nested_content, (*path, key), extracted_arrays)
            for key, nested_content in nested_contents
        }
    if not isinstance(content, list | tuple):
        return content
    list_array = _as_array(content)
    if list_array is None and not contains_only_numbers(content):
        return [
            _without_arrays(nested_content, (*path, k), extracted_arrays)
            for k, nested_content in enumerate(content)
        ]
    if list_array is None or list_array.size <= MAX_INLINE_ELEMENTS:
        return content
    extracted_arrays.append(ExtractedArray(path, list_array, is_list=True))
    return None


def _has_onnx_dtype(array: Array) -> bool:
    """Return True if ONNX has arrays of this dtype: numbers, booleans or strings."""
    has_known_elements = array.dtype.kind != "O" or all(
        isinstance(element, str) for element in array.flat
    )
    return has_known_elements and dtype_name(array) in tensor_dtypes()


def _as_array(content: list[Any] | tuple[Any, ...]) -> Array | None:
    """Convert a list of numbers of one type to an array, or return None for any other list."""
    try:
        list_array = np.asarray(content)
    except (ValueError, OverflowError):  # lists of different lengths
        return None
    leaf_elements: Iterable[Any] = content
    for _ in range(list_array.ndim - 1):
        leaf_elements = itertools.chain.from_iterable(leaf_elements)
    leaf_types = set(map(type, leaf_elements))
    is_lossless = len(leaf_types) == 1 and list_array.dtype == _LIST_DTYPES.get(leaf_types.pop())
    return list_array if is_lossless else None
