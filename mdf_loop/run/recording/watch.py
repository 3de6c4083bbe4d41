"""Search for the first nan or infinite value while a run computes."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array
from mdf_loop.run.control.stepper import Block

_CACHED_ELEMENTS = 1 << 16
"""Number of elements that are checked at once, which fit into the processor's cache."""


class NotFiniteValue(Struct, frozen=True):
    """First nan or infinite value of a run: its output, step number and sweep member.

    In a sweep, `member` is the first member with such a value, counted from 0.
    """

    row: int
    step: int
    name: str
    word: Literal["nan", "infinite"]
    member: int | None = None

    def sentence(self, time: str | None) -> str:
        """Return a message such as "'FNpop.V' was nan at step 1234 (time 0.0617 s)".

        `time` has its unit.
        """
        time_text = "" if time is None else f" (time {time})"
        member_text = "" if self.member is None else f" of member {self.member} of the sweep"
        return f"'{self.name}'{member_text} was {self.word} at step {self.step}{time_text}"


def first_not_finite(block: Block, axis: int = 0) -> NotFiniteValue | None:
    """Return the first nan or infinite value in a block of rows, or None.

    The order is row, then output.

    Args:
        block: Rows, of which the arrays `watched_rows` are searched.
        axis: Axis of time: 0, or 1 after the members of a sweep.
    """
    first_row, first_value = len(block.step_numbers), None
    for name, watched_rows in block.watched_rows.items():
        rows = watched_rows.swapaxes(0, axis)
        row_index = _first_not_finite_row(rows[:first_row])
        if row_index is not None:
            word: Literal["nan", "infinite"] = (
                "nan" if np.isnan(rows[row_index]).any() else "infinite"
            )
            member = _first_not_finite_row(rows[row_index]) if axis else None
            first_row, first_value = (
                row_index,
                NotFiniteValue(row_index, int(block.step_numbers[row_index]), name, word, member),
            )
    return first_value


def _first_not_finite_row(rows: Array) -> int | None:
    """Return the index of the first row of an array that has nan or infinity, or None."""
    block_rows = max(1, _CACHED_ELEMENTS // max(1, math.prod(rows.shape[1:])))
    for first_row in range(0, len(rows), block_rows):
        is_finite = np.isfinite(rows[first_row : first_row + block_rows])
        if not is_finite.all():
            is_finite_row = is_finite.reshape(len(is_finite), -1).all(axis=1)
            return first_row + int(np.argmin(is_finite_row))
    return None
