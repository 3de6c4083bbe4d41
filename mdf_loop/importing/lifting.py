"""Arrays taken out of a model's content, and put back: in between it is JSON.

    {parameters: {w: {value: array}}}   <->   {parameters: {w: {value: None}}},
                                              Lifted((parameters, w, value), array)

A long list of numbers of one kind is lifted as an array, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.writing import LARGEST_WRITTEN
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, dtype_words
from mdf_loop.numbers_only import only_numbers

Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions on the way to a part of the content."""

_KINDS: dict[type, np.dtype[Any]] = {
    float: np.dtype(np.float64),
    int: np.dtype(np.int64),
    bool: np.dtype(np.bool_),
}
"""What numbers of a list are -> the dtype that holds all of them with every bit."""


class Lifted(Struct, frozen=True, eq=False):
    """An array, where it stood, and whether it stood there as a list."""

    path: Path
    array: Array
    listed: bool = False


def lift(content: Any) -> tuple[Any, list[Lifted]]:
    """The content without its arrays and long lists of numbers; those."""
    found: list[Lifted] = []
    return _bare(content, (), found), found


def put_back(content: Content, lifted: Iterable[Lifted]) -> None:
    """Put every array into the content where it stood.

    Raises:
        LookupError, TypeError: there is no such place.
    """
    for each in lifted:
        *way, last = each.path
        place: Any = content
        for step in way:
            place = place[step]
        if place[last] is not None:
            raise LookupError(f"there is something else at {each.path}")
        place[last] = each.array.tolist() if each.listed else each.array


def _bare(content: Any, path: Path, found: list[Lifted]) -> Any:
    if isinstance(content, np.ndarray) and _is_tensor(content):
        found.append(Lifted(path, content))
        return None
    if isinstance(content, np.ndarray | np.generic):
        return content.tolist()
    if isinstance(content, Mapping):
        parts = ((str(key), part) for key, part in content.items())
        return {key: _bare(part, (*path, key), found) for key, part in parts}
    if not isinstance(content, list | tuple):
        return content
    numbers = _numbers(content)
    if numbers is None and not only_numbers(content):
        return [_bare(part, (*path, k), found) for k, part in enumerate(content)]
    if numbers is None or numbers.size <= LARGEST_WRITTEN:
        return content
    found.append(Lifted(path, numbers, listed=True))
    return None


def _is_tensor(array: Array) -> bool:
    """Whether ONNX has such arrays: of numbers, truth values or texts."""
    texts = array.dtype.kind != "O" or all(isinstance(part, str) for part in array.flat)
    return texts and dtype_name(array) in dtype_words()


def _numbers(content: list[Any] | tuple[Any, ...]) -> Array | None:
    """The array of a list that holds nothing but numbers of one kind."""
    try:
        array = np.asarray(content)
    except (ValueError, OverflowError):  # lists of different lengths
        return None
    leaves: Iterable[Any] = content
    for _ in range(array.ndim - 1):
        leaves = itertools.chain.from_iterable(leaves)
    kinds = set(map(type, leaves))
    is_one = len(kinds) == 1 and array.dtype == _KINDS.get(kinds.pop())
    return array if is_one else None
