"""Reductions of rows, without keeping them. A new one is a class and a line below.

    mean   mean(rows, axis=time), in float64; floats come out in their own dtype
    sum    sum(rows, axis=time), likewise
    last   rows[-1]
    min    min(rows, axis=time); nan if there is one
    max    max(rows, axis=time); nan if there is one

They are the same bit for bit however the rows are cut into blocks, whatever else is in a row (other
members of a sweep), and on every machine. For that mean and sum add what the rows of a block of fixed
length hold in the order of a binary tree, and block after block together with what rounding loses. A zero or a nan that is the least or the greatest
has no sign.

Where there was no row they are nan. Of rows that have not one shape there is only the last.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, kind_of, numpy_dtype, promoted_dtype
from mdf_loop.memory_limit import check
from mdf_loop.run.control.snapshot import Snapshot, kinds_like
from mdf_loop.run.recording.labels import storable

_LEVELS = 10
BLOCK = 1 << _LEVELS
"""Rows of which the sum is a tree; blocks of them follow one another."""

_AT_ONCE = 1 << 17
"""Elements that are added at once: as many as stay in the processor's cache."""


class Reduction(ABC):
    """Takes rows `[time, ...]` block by block.

    The result has the shape of the rows, and the dtype that holds for all of them.
    """

    kinds: ClassVar[str] = "biuf"
    """The kinds of dtypes that it takes."""

    one_shape: ClassVar[bool] = True
    """Whether all rows must have one shape."""

    def __init__(self) -> None:
        self.rows = 0
        self._dtypes: list[str] = []
        self._dtype = np.dtype(np.float64)
        self._shape: tuple[int, ...] = ()

    def takes(self, rows: Array) -> bool:
        """Return True if these rows can be added to the earlier ones."""
        same = rows.shape[1:] == self._shape
        return same or not (self.one_shape and self.rows and len(rows))

    def add(self, rows: Array) -> None:
        """Take further rows.

        Raises:
            OperandError: they have no common dtype with those before.
        """
        if (word := dtype_name(rows)) not in self._dtypes:
            self._dtypes.append(word)
            self._dtype = _common(self._dtypes)
        if rows.shape[1:] != self._shape and (len(rows) or not self.rows):
            self._begin(rows.shape[1:])
        if len(rows):
            with np.errstate(all="ignore"):
                self._take(rows)
            self.rows += len(rows)

    def value(self) -> Array:
        """Return the reduction of all rows so far."""
        if not self.rows:
            is_float = kind_of(str(self._dtype)) == "f"
            return np.full(self._shape, np.nan, self._dtype if is_float else np.float64)
        with np.errstate(all="ignore"):
            return np.array(self._result())

    def snapshot(self) -> dict[str, Array]:
        """Return everything that is necessary to resume."""
        return {
            "rows": np.array(self.rows),
            "dtypes": np.array(self._dtypes, str),
            "shape": np.array(self._shape, np.int64),
            **(self._parts() if self.rows else {}),
        }

    def restore(self, parts: Snapshot) -> None:
        """Go on from there."""
        self.rows = parts.number("rows")
        self._dtypes = parts.array("dtypes", "U", (None,)).tolist()
        try:
            self._dtype = _common(self._dtypes)
        except (LoopError, TypeError):
            raise parts.wrong("dtypes", "dtypes of rows") from None
        shape = parts.array("shape", "i", (None,)).tolist()
        if min(shape, default=0) < 0:
            raise parts.wrong("shape", "a shape")
        check(8 * (_LEVELS + 2) * math.prod(shape), "the rows of a reduction")
        if self.rows:
            self._take_parts(parts, tuple(shape))
        else:
            self._begin(tuple(shape))

    @property
    def is_there(self) -> bool:
        """True if there is a value, possibly nan. Text cannot be nan."""
        return self.rows > 0 or (bool(self._dtypes) and self._dtype.kind != "O")

    def _begin(self, shape: tuple[int, ...]) -> None:
        """From now on rows have this shape."""
        self._shape = shape

    @abstractmethod
    def _take(self, rows: Array) -> None:
        """Take at least one row."""

    @abstractmethod
    def _result(self) -> Array:
        """Return the reduction of at least one row."""

    @abstractmethod
    def _parts(self) -> dict[str, Array]:
        """Return the state after at least one row, as files store it."""

    @abstractmethod
    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        """Restore the state for rows of this shape."""


def _common(dtypes: Sequence[str]) -> np.dtype[Any]:
    """Return the common dtype of rows of these dtypes, or `float64` for none."""
    if set(dtypes) == {"string"}:
        return numpy_dtype("string")
    return numpy_dtype(promoted_dtype(dtypes) if dtypes else "float64")


# --- one row --------------------------------------------------------------------------------------


class _Selection(Reduction):
    """One value is chosen for each element of a row; none is computed."""

    def __init__(self) -> None:
        super().__init__()
        self._row: Array = np.empty(0)

    def _result(self) -> Array:
        return self._row.astype(self._dtype)

    def _parts(self) -> dict[str, Array]:
        return {"row": storable(self._row)}

    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        kinds = kinds_like(dtype_name(np.empty(0, self._dtype)))
        self._row = parts.array("row", kinds, shape).astype(self._dtype)
        self._begin(shape)


class Last(_Selection):
    """The last row."""

    kinds = "biufcU"
    one_shape = False

    def _take(self, rows: Array) -> None:
        self._row = rows[-1:].reshape(rows.shape[1:]).astype(self._dtype)


class _Extreme(_Selection):
    """The least or the greatest."""

    of_two: ClassVar[np.ufunc]

    def _take(self, rows: Array) -> None:
        row = np.asarray(self.of_two.reduce(rows, axis=0)).astype(self._dtype)
        if self.rows:
            row = np.asarray(self.of_two(self._row.astype(self._dtype), row))
        self._row = row

    def _result(self) -> Array:
        row = super()._result()
        if kind_of(str(row.dtype)) == "f":
            row[np.isnan(row)] = np.nan
            row[row == 0] = 0
        return row


class Minimum(_Extreme):
    """The least of each element."""

    of_two = np.minimum


class Maximum(_Extreme):
    """The greatest of each element."""

    of_two = np.maximum


# --- mean, sum ------------------------------------------------------------------------------------


class Mean(Reduction):
    """The mean of each element: blocks of `BLOCK` rows, counted from the first row on.

    `_sum + _lost` is the sum of all full blocks; `_waiting` has by level the sum of `2**level` rows that
    waits for its neighbour in the tree of its block.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sum: Array = np.zeros(())
        self._lost: Array = np.zeros(())
        self._waiting: dict[int, Array] = {}

    def _take(self, rows: Array) -> None:
        at_once = max(1, _AT_ONCE // max(1, math.prod(rows.shape[1:])))
        for place in range(0, len(rows), at_once):
            self._add(rows[place : place + at_once].astype(np.float64, copy=False))

    def _add(self, sums: Array) -> None:
        """Add rows: pairs of neighbours, then pairs of these, and so on."""
        for level in range(_LEVELS):
            if level in self._waiting:
                sums = np.concatenate([self._waiting.pop(level)[None], sums])
            if len(sums) % 2:
                self._waiting[level] = sums[-1].copy()
                sums = sums[:-1]
            if not len(sums):
                return
            sums = sums[0::2] + sums[1::2]
        for block in sums:
            self._sum, self._lost = _added(self._sum, self._lost, block)

    def _total(self) -> tuple[Array, Array]:
        """Return the sum of all rows, and its accumulated rounding error."""
        if not self._waiting:
            return self._sum, self._lost
        rest = functools.reduce(np.add, (self._waiting[level] for level in sorted(self._waiting)))
        return _added(self._sum, self._lost, rest)

    def _result(self) -> Array:
        total, lost = self._total()
        mean = np.asarray(self._of_sum(np.where(np.isfinite(total), total + lost, total)))
        mean[np.isnan(mean)] = np.nan
        is_float = kind_of(str(self._dtype)) == "f"
        return mean.astype(self._dtype) if is_float else mean

    def _of_sum(self, total: Array) -> Array:
        return total / self.rows

    def _parts(self) -> dict[str, Array]:
        waiting = [self._waiting[level] for level in sorted(self._waiting)]
        rows = np.array(waiting) if waiting else np.zeros((0, *self._shape))
        return {"sum": np.array(self._sum), "lost": np.array(self._lost), "waiting": rows}

    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        own = shape if self.rows >= BLOCK else ()  # there was a full block
        self._sum, self._lost = (parts.array(name, "f", own) for name in ("sum", "lost"))
        levels = [level for level in range(_LEVELS) if self.rows >> level & 1]
        waiting = parts.array("waiting", "f", (len(levels), *shape))
        self._begin(shape)
        self._waiting = dict(zip(levels, waiting, strict=True))


class Sum(Mean):
    """The sum of each element: how often, of truths."""

    def _of_sum(self, total: Array) -> Array:
        return total


def _added(total: Array, lost: Array, more: Array) -> tuple[Array, Array]:
    """`total + more`, and `lost` with what that loses by rounding, which is exact.

    D. E. Knuth, The Art of Computer Programming 2, 4.2.2, theorem B.
    """
    total_sum = total + more
    added_part = total_sum - total
    return total_sum, lost + ((total - (total_sum - added_part)) + (more - added_part))


# --- all of them ----------------------------------------------------------------------------------

REDUCTIONS: Mapping[str, Callable[[], Reduction]] = {
    "mean": Mean,
    "sum": Sum,
    "last": Last,
    "min": Minimum,
    "max": Maximum,
}
"""Reductions by the word that asks for them."""
