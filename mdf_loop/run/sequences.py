"""What the operators of sequences and optional values mean: Python's lists and None.

    SequenceInsert(s, x, k)      s[:k] + [x] + s[k:]
    OptionalHasElement(x)        x is not None

Nothing is changed in place, so a sequence is a value like any other.

Source: ONNX operators, opset 17.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array, Data, Op
from mdf_loop.onnx_types import is_tensor

_Members = list[Array]


def _place(members: _Members, position: Array | None, places: int, default: int) -> int:
    """A position that may count from the end, among so many places."""
    if position is None:
        return default
    place = int(position.item())
    if not -len(members) <= place < places:
        raise RunError(f"there is no position {place} in a sequence of {len(members)}")
    return place % len(members) if place < 0 else place


def _at(_: Op, members: _Members, position: Array) -> Array:
    return members[_place(members, position, len(members), 0)]


def _insert(_: Op, members: _Members, member: Array, position: Array | None = None) -> _Members:
    k = _place(members, position, len(members) + 1, len(members))
    return [*members[:k], member, *members[k:]]


def _erase(_: Op, members: _Members, position: Array | None = None) -> _Members:
    if not members:
        raise RunError("nothing can be erased from an empty sequence")
    k = _place(members, position, len(members), len(members) - 1)
    return [*members[:k], *members[k + 1 :]]


def _joined(op: Op, members: _Members) -> Array:
    join = np.stack if op.attributes.get("new_axis") else np.concatenate
    try:
        return join(members, axis=op.attributes["axis"])
    except ValueError as error:
        raise RunError(f"the members of the sequence cannot be joined: {error}") from None


def _split(op: Op, array: Array, split: Array | None = None) -> _Members:
    axis = op.attributes.get("axis", 0)
    extent = array.shape[axis]
    if split is None:
        parts = np.split(array, extent, axis) if extent else []
        kept = op.attributes.get("keepdims", 1)
        return parts if kept else [part.squeeze(axis) for part in parts]
    if split.ndim == 0:
        ends = list(range(int(split), extent, int(split)))
    else:
        ends = np.cumsum(split)[:-1].tolist()
        if split.sum() != extent or (split < 0).any():
            raise RunError(f"parts of {split.tolist()} do not make up an axis of {extent}")
    return np.split(array, ends, axis)


def _held(_: Op, value: Data) -> Data:
    if value is None:
        raise RunError("an optional value is taken that is absent")
    return value


_MEANINGS: Mapping[str, Callable[..., Data]] = {
    "SequenceConstruct": lambda _, *members: list(members),
    "SequenceEmpty": lambda _: [],
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": lambda _, members: np.array(len(members), np.int64),
    "ConcatFromSequence": _joined,
    "SplitToSequence": _split,
    "Optional": lambda _, value=None: value,
    "OptionalGetElement": _held,
    "OptionalHasElement": lambda _, value: np.array(value is not None),
    "Identity": lambda _, value: value,
}


def is_about_sequences(op: Op) -> bool:
    """Whether an operation reads or makes something else than tensors."""
    values = (*(value for value in op.inputs if value is not None), *op.outputs)
    return not all(is_tensor(value.dtype) for value in values)


def evaluate(op: Op, given: list[Any]) -> Data:
    """What such an operation gives.

    Raises:
        RunError: a position is outside, parts do not fit, a value is absent.
    """
    try:
        return _MEANINGS[op.op_type](op, *given)
    except RunError as error:
        raise RunError(error.findings[0].what, op.where) from None
