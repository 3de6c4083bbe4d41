"""Registry rows of operators on sequences (Python lists) and optional values (None if absent).

    SequenceInsert(s, x, k)      s[:k] + [x] + s[k:]
    OptionalHasElement(x)        x is not None

No operator modifies a sequence in place, so a sequence is a value like any other.

Source: ONNX operators, opset 17.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array, Data
from mdf_loop.ops.decompositions import sequences as decomposing
from mdf_loop.ops.failure_conditions import unless_values_known
from mdf_loop.ops.registry import Reproducibility, Row, never

_Members = list[Array]


def _resolve_position(
    members: _Members, position: Array | None, n_positions: int, default: int
) -> int:
    """Return a position in a sequence as a non-negative index, or `default` without a position.

    Raises:
        RunError: the position is not below `n_positions`, or is before the first member.
    """
    if position is None:
        return default
    sequence_index = int(position.item())
    if not -len(members) <= sequence_index < n_positions:
        raise RunError(f"there is no position {sequence_index} in a sequence of {len(members)}")
    return sequence_index % len(members) if sequence_index < 0 else sequence_index


def _member_at(members: _Members, position: Array) -> Array:
    return members[_resolve_position(members, position, len(members), 0)]


def _insert_member(members: _Members, member: Array, position: Array | None = None) -> _Members:
    insertion_index = _resolve_position(members, position, len(members) + 1, len(members))
    return [*members[:insertion_index], member, *members[insertion_index:]]


def _erase_member(members: _Members, position: Array | None = None) -> _Members:
    if not members:
        raise RunError("nothing can be erased from an empty sequence")
    erased_index = _resolve_position(members, position, len(members), len(members) - 1)
    return [*members[:erased_index], *members[erased_index + 1 :]]


def _join_members(members: _Members, axis: int, new_axis: int = 0) -> Array:
    join_arrays = np.stack if new_axis else np.concatenate
    try:
        return join_arrays(members, axis=axis)
    except ValueError as error:
        raise RunError(f"the members of the sequence cannot be joined: {error}") from None


def _split_array(
    array: Array, split: Array | None = None, axis: int = 0, keepdims: int = 1
) -> _Members:
    axis_extent = array.shape[axis]
    if split is None:
        unit_parts = np.split(array, axis_extent, axis) if axis_extent else []
        return unit_parts if keepdims else [part.squeeze(axis) for part in unit_parts]
    if split.ndim == 0:
        part_bounds = list(range(int(split), axis_extent, int(split)))
    else:
        part_bounds = np.cumsum(split)[:-1].tolist()
        if split.sum() != axis_extent or (split < 0).any():
            raise RunError(f"parts of {split.tolist()} do not make up an axis of {axis_extent}")
    return np.split(array, part_bounds, axis)


def _require_present(value: Data) -> Data:
    if value is None:
        raise RunError("an optional value is taken that is absent")
    return value


_sequence_row = partial(Row, reproducibility=Reproducibility.FIXED)

OPERATOR_ROWS = (
    _sequence_row(
        name="SequenceConstruct", may_fail=never, numpy_function=lambda *members: list(members)
    ),
    _sequence_row(name="SequenceEmpty", may_fail=never, numpy_function=lambda dtype=None: []),
    _sequence_row(name="SequenceAt", numpy_function=_member_at),
    _sequence_row(
        name="SequenceInsert", may_fail=unless_values_known(2), numpy_function=_insert_member
    ),
    _sequence_row(name="SequenceErase", numpy_function=_erase_member),
    _sequence_row(
        name="SequenceLength",
        may_fail=never,
        numpy_function=lambda members: np.array(len(members), np.int64),
    ),
    _sequence_row(name="ConcatFromSequence", numpy_function=_join_members),
    _sequence_row(
        name="SplitToSequence",
        decomposition=decomposing.split_to_sequence,
        numpy_function=_split_array,
    ),
    _sequence_row(
        name="Optional", may_fail=never, numpy_function=lambda value=None, type=None: value
    ),
    _sequence_row(name="OptionalGetElement", numpy_function=_require_present),
    _sequence_row(
        name="OptionalHasElement",
        may_fail=never,
        numpy_function=lambda value: np.array(value is not None),
    ),
)
