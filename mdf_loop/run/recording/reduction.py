"""Reductions over time (mean, sum, last, min, max) that are accumulated during a run.

    mean   mean(rows, axis=time), in float64, but results of float rows have their dtype
    sum    sum(rows, axis=time), likewise
    last   rows[-1]
    min    min(rows, axis=time), or nan if a row has nan
    max    max(rows, axis=time), or nan if a row has nan

Results are bitwise equal for any division of the rows into blocks, for any other members of a sweep, and
on every machine. For this, mean and sum add the rows of a block of fixed length as a binary tree, and add
the blocks in sequence together with their rounding errors. A zero or nan from min or max has no sign.

Without rows, reductions are nan. Rows that vary in shape only have the reduction `last`.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, kind_of, numpy_dtype, promoted_dtype
from mdf_loop.memory_limit import check
from mdf_loop.run.control.snapshot import Snapshot, kinds_for_dtype
from mdf_loop.run.recording.labels import convert_to_storable

_TREE_LEVELS = 10
BLOCK_ROWS = 1 << _TREE_LEVELS
"""Number of rows that are added as a binary tree."""

_CACHED_ELEMENTS = 1 << 17
"""Number of elements that are added at once, which fit into the processor's cache."""


class Reduction(ABC):
    """Base class of accumulators that reduce rows `[time, ...]` over time.

    The reduction has the shape of one row, and the common dtype of all rows.
    """

    supported_kinds: ClassVar[str] = "biuf"
    """NumPy kinds of the supported dtypes."""

    requires_one_shape: ClassVar[bool] = True
    """True if all rows must have one shape."""

    is_over_time: ClassVar[bool] = True
    """True if rows over time can be reduced so."""

    is_over_trials: ClassVar[bool] = True
    """True if trials can be reduced so."""

    has_unit: ClassVar[bool] = True
    """True if the reduction has the unit of the rows."""

    has_time_axis: ClassVar[bool] = True
    """True if a reduction over trials keeps the axis of time."""

    empty_value: ClassVar[float] = math.nan
    """Value of a reduction over no trials."""

    @classmethod
    def accepts(cls, parameters: tuple[float, ...]) -> bool:
        """Return True if the parameters of the reduction, such as probabilities, are valid."""
        return not parameters

    @classmethod
    def of(cls, parameters: tuple[float, ...]) -> Reduction:
        """Create an accumulator with valid parameters."""
        return cls()

    def __init__(self) -> None:
        self.row_count = 0
        self._dtypes: list[str] = []
        self._dtype = np.dtype(np.float64)
        self._shape: tuple[int, ...] = ()

    def can_add(self, rows: Array) -> bool:
        """Return True if the accumulator accepts rows of this shape after earlier rows."""
        has_same_shape = rows.shape[1:] == self._shape
        return has_same_shape or not (self.requires_one_shape and self.row_count and len(rows))

    def add(self, rows: Array) -> None:
        """Add rows `[time, ...]` to the accumulated reduction.

        Raises:
            OperandError: The rows have no common dtype with the earlier rows.
        """
        if (new_dtype_name := dtype_name(rows)) not in self._dtypes:
            self._dtypes.append(new_dtype_name)
            self._dtype = _common_dtype(self._dtypes)
        if rows.shape[1:] != self._shape and (len(rows) or not self.row_count):
            self._set_shape(rows.shape[1:])
        if len(rows):
            with np.errstate(all="ignore"):
                self._add_rows(rows)
            self.row_count += len(rows)

    def value(self) -> Array:
        """Return the reduction of all rows that were added so far."""
        if not self.row_count:
            is_float = kind_of(str(self._dtype)) == "f"
            return np.full(self._shape, np.nan, self._dtype if is_float else np.float64)
        with np.errstate(all="ignore"):
            return np.array(self._compute_value())

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""
        return {
            "rows": np.array(self.row_count),
            "dtypes": np.array(self._dtypes, str),
            "shape": np.array(self._shape, np.int64),
            **(self._state_arrays() if self.row_count else {}),
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the accumulator from a checkpoint."""
        self.row_count = snapshot.number("rows")
        self._dtypes = snapshot.array("dtypes", "U", (None,)).tolist()
        try:
            self._dtype = _common_dtype(self._dtypes)
        except (LoopError, TypeError):
            raise snapshot.invalid_part_error("dtypes", "dtypes of rows") from None
        shape = snapshot.array("shape", "i", (None,)).tolist()
        if min(shape, default=0) < 0:
            raise snapshot.invalid_part_error("shape", "a shape")
        check(8 * (_TREE_LEVELS + 2) * math.prod(shape), "the rows of a reduction")
        if self.row_count:
            self._restore_state(snapshot, tuple(shape))
        else:
            self._set_shape(tuple(shape))

    @property
    def has_value(self) -> bool:
        """True if a value can be computed from the rows so far.

        Without rows, the value of numbers is nan, and texts have no value.
        """
        return self.row_count > 0 or (bool(self._dtypes) and self._dtype.kind != "O")

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        """Set the shape of each row that will be added."""
        self._shape = shape

    @abstractmethod
    def _add_rows(self, rows: Array) -> None:
        """Add one or more rows to the accumulated reduction."""

    @abstractmethod
    def _compute_value(self) -> Array:
        """Return the reduction of the added rows (one or more)."""

    @abstractmethod
    def _state_arrays(self) -> dict[str, Array]:
        """Return the state of the accumulator as arrays of a checkpoint."""

    @abstractmethod
    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        """Restore the state of the accumulator from a checkpoint, for rows of shape `shape`."""


def _common_dtype(dtypes: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype to which several dtypes are promoted, or float64 without dtypes."""
    if set(dtypes) == {"string"}:
        return numpy_dtype("string")
    return numpy_dtype(promoted_dtype(dtypes) if dtypes else "float64")


# --- one row --------------------------------------------------------------------------------------


class _SelectingReduction(Reduction):
    """Base class of reductions that select existing values, such as the last or the minimum."""

    def __init__(self) -> None:
        super().__init__()
        self._reduced_row: Array = np.empty(0)

    def _compute_value(self) -> Array:
        return self._reduced_row.astype(self._dtype)

    def _state_arrays(self) -> dict[str, Array]:
        return {"row": convert_to_storable(self._reduced_row)}

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        dtype_kinds = kinds_for_dtype(dtype_name(np.empty(0, self._dtype)))
        self._reduced_row = snapshot.array("row", dtype_kinds, shape).astype(self._dtype)
        self._set_shape(shape)


class Last(_SelectingReduction):
    """Reduction over time to the last row."""

    supported_kinds = "biufcU"
    requires_one_shape = False
    is_over_trials = False

    def _add_rows(self, rows: Array) -> None:
        self._reduced_row = rows[-1:].reshape(rows.shape[1:]).astype(self._dtype)


class _ExtremeReduction(_SelectingReduction):
    """Base class of the reductions to the minimum and maximum over time."""

    binary_ufunc: ClassVar[np.ufunc]

    def _add_rows(self, rows: Array) -> None:
        reduced_row = np.asarray(self.binary_ufunc.reduce(rows, axis=0)).astype(self._dtype)
        if self.row_count:
            reduced_row = np.asarray(
                self.binary_ufunc(self._reduced_row.astype(self._dtype), reduced_row)
            )
        self._reduced_row = reduced_row

    def _compute_value(self) -> Array:
        reduced_row = super()._compute_value()
        if kind_of(str(reduced_row.dtype)) == "f":
            reduced_row[np.isnan(reduced_row)] = np.nan
            reduced_row[reduced_row == 0] = 0
        return reduced_row


class Minimum(_ExtremeReduction):
    """Reduction to the minimum over time."""

    binary_ufunc = np.minimum


class Maximum(_ExtremeReduction):
    """Reduction to the maximum over time."""

    binary_ufunc = np.maximum


# --- mean, sum ------------------------------------------------------------------------------------


class Mean(Reduction):
    """Reduction to the mean over time, with compensated summation.

    `_sum + _rounding_error` is the sum of all complete blocks. `_partial_sums[level]` is a sum of `2**level` rows that has
    no neighbour yet in the binary tree of the current block.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sum: Array = np.zeros(())
        self._rounding_error: Array = np.zeros(())
        self._partial_sums: dict[int, Array] = {}

    def _add_rows(self, rows: Array) -> None:
        block_rows = max(1, _CACHED_ELEMENTS // max(1, math.prod(rows.shape[1:])))
        for block_start in range(0, len(rows), block_rows):
            self._add_tree(
                rows[block_start : block_start + block_rows].astype(np.float64, copy=False)
            )

    def _add_tree(self, sums: Array) -> None:
        """Add rows to the partial sums, pairwise as in a binary tree."""
        for level in range(_TREE_LEVELS):
            if level in self._partial_sums:
                sums = np.concatenate([self._partial_sums.pop(level)[None], sums])
            if len(sums) % 2:
                self._partial_sums[level] = sums[-1].copy()
                sums = sums[:-1]
            if not len(sums):
                return
            sums = sums[0::2] + sums[1::2]
        for block_sum in sums:
            self._sum, self._rounding_error = _add_compensated(
                self._sum, self._rounding_error, block_sum
            )

    def _sum_all(self) -> tuple[Array, Array]:
        """Return the sum of all rows, and its accumulated rounding error."""
        if not self._partial_sums:
            return self._sum, self._rounding_error
        partial_sum = functools.reduce(
            np.add, (self._partial_sums[level] for level in sorted(self._partial_sums))
        )
        return _add_compensated(self._sum, self._rounding_error, partial_sum)

    def _compute_value(self) -> Array:
        total_sum, compensation = self._sum_all()
        mean = np.asarray(
            self._value_of_sum(
                np.where(np.isfinite(total_sum), total_sum + compensation, total_sum)
            )
        )
        mean[np.isnan(mean)] = np.nan
        is_float = kind_of(str(self._dtype)) == "f"
        return mean.astype(self._dtype) if is_float else mean

    def _value_of_sum(self, total: Array) -> Array:
        return total / self.row_count

    def _state_arrays(self) -> dict[str, Array]:
        partial_sums = [self._partial_sums[level] for level in sorted(self._partial_sums)]
        stacked_sums = np.array(partial_sums) if partial_sums else np.zeros((0, *self._shape))
        return {
            "sum": np.array(self._sum),
            "lost": np.array(self._rounding_error),
            "waiting": stacked_sums,
        }

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        block_shape = shape if self.row_count >= BLOCK_ROWS else ()  # a complete block exists
        self._sum, self._rounding_error = (
            snapshot.array(name, "f", block_shape) for name in ("sum", "lost")
        )
        levels = [level for level in range(_TREE_LEVELS) if self.row_count >> level & 1]
        partial_sums = snapshot.array("waiting", "f", (len(levels), *shape))
        self._set_shape(shape)
        self._partial_sums = dict(zip(levels, partial_sums, strict=True))


class Sum(Mean):
    """Reduction to the sum over time, which for booleans is the number of True values."""

    is_over_trials = False

    def _value_of_sum(self, total: Array) -> Array:
        return total


def _add_compensated(total: Array, error: Array, addend: Array) -> tuple[Array, Array]:
    """Add two arrays with error compensation (TwoSum).

    Return `total + addend`, and `error` plus the exact rounding error of this addition.

    D. E. Knuth, The Art of Computer Programming 2, 4.2.2, theorem B.
    """
    total_sum = total + addend
    added_part = total_sum - total
    return total_sum, error + ((total - (total_sum - added_part)) + (addend - added_part))
