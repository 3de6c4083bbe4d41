"""Access to the arrays of a checkpoint file, each of which is validated when it is read.

    snapshot.number("done", maximum=100)        an integer from 0 to 100
    snapshot.flag("condition")                  a boolean
    snapshot.text("ran")                        a string
    snapshot.value("carried A.v", value)        an array of the type of a program value
    snapshot.array("waiting", "f", (None, 3))   an array of floats of this shape, with any first extent
    snapshot.with_prefix("state ")              the parts whose names begin with "state ", without the prefix

Anybody may have written a checkpoint file. Each invalid part raises an error that names the file and part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Value
from mdf_loop.ir.types import dtype_name, kind_of, numpy_dtype
from mdf_loop.memory_limit import check

BEGIN_ANEW_HINT = "leave resume (--resume) out to begin anew"

JSON_MEMORY_RATIO = 20
"""Ratio between the size of parsed JSON in memory and the length of its text."""

_TEXT_KINDS = "OU"


class Snapshot(Mapping[str, Array]):
    """Arrays of one part of a checkpoint file by name, validated when they are read.

    Raises:
        InputError: A part is missing or invalid.
    """

    def __init__(self, arrays: Mapping[str, Array], part: str = "", file: str = "") -> None:
        self._arrays = arrays
        self._part = part
        self._file = file

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            raise damaged_error(self._file, f"it has no '{self._part}{name}'")
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def with_prefix(self, prefix: str) -> Snapshot:
        """Return the arrays whose names begin with a prefix, under names without the prefix."""
        arrays = {
            name.removeprefix(prefix): array
            for name, array in self._arrays.items()
            if name.startswith(prefix)
        }
        return Snapshot(arrays, self._part + prefix, self._file)

    def invalid_part_error(self, name: str, expected: str) -> InputError:
        """Return the error that an array of the checkpoint file is invalid."""
        array = self[name]
        type_text = f"{array.dtype}{list(array.shape)}"
        description = (
            type_text
            if array.ndim or array.dtype.kind in _TEXT_KINDS
            else f"{array} ({array.dtype})"
        )
        return damaged_error(
            self._file, f"'{self._part}{name}' is {description[:80]}, not {expected}"
        )

    # --- one value ----------------------------------------------------------------------------

    def number(self, name: str, maximum: int | None = None) -> int:
        """Read an integer from 0 to `maximum` from the checkpoint."""
        array = self[name]
        if array.shape != () or array.dtype.kind not in "iu":
            raise self.invalid_part_error(name, "a whole number")
        if array < 0 or array > (np.iinfo(np.int64).max if maximum is None else maximum):
            raise self.invalid_part_error(
                name, "0 or more" if maximum is None else f"from 0 to {maximum}"
            )
        return int(array)

    def flag(self, name: str) -> bool:
        """Read a boolean from the checkpoint."""
        if self[name].shape != () or self[name].dtype != bool:
            raise self.invalid_part_error(name, "true or false")
        return bool(self[name])

    def text(self, name: str) -> str:
        """Read a string from the checkpoint."""
        if self[name].shape != () or self[name].dtype.kind != "U":
            raise self.invalid_part_error(name, "a text")
        return str(self[name])

    def content(self, name: str) -> Any:
        """Read a JSON text from the checkpoint, and return the parsed JSON value."""
        text = self.text(name)
        check(
            len(text) * JSON_MEMORY_RATIO, f"'{self._part}{name}' of the checkpoint '{self._file}'"
        )
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self.invalid_part_error(name, "JSON") from None

    # --- arrays -------------------------------------------------------------------------------

    def array(self, name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
        """Read an array of a given shape and dtype kind from the checkpoint.

        None in `shape` allows any extent. `kinds` has the allowed NumPy dtype kinds.
        """
        array = self[name]
        has_shape = len(shape) == array.ndim and all(
            extent in (None, actual_extent)
            for extent, actual_extent in zip(shape, array.shape, strict=True)
        )
        if not has_shape or _array_kind(array) not in kinds:
            extents_text = ", ".join("any" if extent is None else str(extent) for extent in shape)
            raise self.invalid_part_error(
                name, f"an array of {_KIND_NAMES[kinds[0]]} [{extents_text}]"
            )
        return array

    def value(self, name: str, value: Value, leading_shape: tuple[int, ...] = ()) -> Array:
        """Read an array with the dtype and shape of a program value from the checkpoint.

        `leading_shape` has the extents of leading axes.
        """
        array, dtype = self[name], numpy_dtype(value.dtype)
        is_text = dtype.kind == "O"
        is_of_type = (
            array.dtype.kind in _TEXT_KINDS if is_text else np.can_cast(array.dtype, dtype, "safe")
        )
        expected_type = (
            value.type if not leading_shape else f"{value.type} for each of {list(leading_shape)}"
        )
        if not is_of_type or not _matches_shape(array.shape, value, leading_shape):
            raise self.invalid_part_error(name, expected_type)
        return array.astype(dtype, copy=False)

    def rows(self, name: str, length: int, axis: int, dtype: str) -> Array:
        """Read an array with `length` rows along `axis` from the checkpoint."""
        array = self[name]
        dtype_kinds = kinds_for_dtype(dtype)
        if (
            array.ndim <= axis
            or array.shape[axis] != length
            or _array_kind(array) not in dtype_kinds
        ):
            raise self.invalid_part_error(name, f"{length} rows of {_KIND_NAMES[dtype_kinds[0]]}")
        return array


_KIND_NAMES = {"b": "numbers", "i": "whole numbers", "f": "floats", "U": "texts"}


def kinds_for_dtype(dtype: str) -> str:
    """Return the NumPy dtype kinds of arrays that can represent values of a dtype."""
    dtype_kind = kind_of(dtype)
    return "U" if dtype_kind == "U" else "biufc" if dtype_kind == "c" else "biuf"


def _array_kind(array: Array) -> str:
    """Return the NumPy dtype kind of an array, with `U` for strings and `f` for narrow floats."""
    if array.dtype.isbuiltin == 2:  # dtypes of ml_dtypes
        return "f"
    return "U" if dtype_name(array) == "string" else array.dtype.kind


def _matches_shape(shape: tuple[int, ...], value: Value, leading_shape: tuple[int, ...]) -> bool:
    if value.shape is None:
        return shape[: len(leading_shape)] == leading_shape
    extent_pairs = zip((*leading_shape, *value.shape), shape, strict=False)
    return len(shape) == len(leading_shape) + len(value.shape) and all(
        isinstance(extent, str) or extent == actual_extent for extent, actual_extent in extent_pairs
    )


def damaged_error(file: str, what: str) -> InputError:
    """Return the error that a checkpoint file is damaged."""
    return InputError(f"the checkpoint '{file}' is damaged: {what}"[:300], hint=BEGIN_ANEW_HINT)
