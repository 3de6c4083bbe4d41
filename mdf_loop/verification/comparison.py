"""Two arrays of one name side by side, and all of a model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.ir import Array, Data
from mdf_loop.visible import on_one_line

_KINDS = {"bool", "int", "uint", "float"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output port or parameter of the compiled model beside that of another engine.

    Attributes:
        name: `node.port` or `node.parameter`.
        engine: what it is compared with: `modeci_mdf` or `interpreter`.
        equal: whether shape and numbers are equal within the tolerance.
        max_abs: the largest absolute difference; infinite where only one side has a number.
        max_rel: the largest relative difference.
        types: dtype and shape here and there.
        first_step: over time, the first step that differs.
        values: the first two values that differ, here and there.
        is_parameter: whether it is a parameter.
    """

    name: str
    engine: str
    equal: bool
    max_abs: float
    max_rel: float
    types: tuple[str, str]
    first_step: int | None = None
    values: tuple[str, str] | None = None
    is_parameter: bool = False

    @property
    def kinds(self) -> tuple[str, str] | None:
        """The dtypes, if one side counts in whole numbers and the other does not."""
        here, there = (text.partition("[")[0] for text in self.types)
        words = {dtype.rstrip("0123456789") for dtype in (here, there)}
        return (here, there) if len(words) == 2 and words < _KINDS else None

    def __str__(self) -> str:
        verdict = "equal" if self.equal else "DIFFERENT"
        return on_one_line(
            f"{verdict:9}  {self.name}  {self.types[0]} against {self.engine} {self.types[1]}: "
            f"max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g}{self._remark()}"
        )

    def _remark(self) -> str:
        if self.equal:
            return f"; equal, but {self.kinds[0]} against {self.kinds[1]}" if self.kinds else ""
        step = "" if self.first_step is None else f" at step {self.first_step}"
        values = "" if self.values is None else f": {self.values[0]} against {self.values[1]}"
        return f", first{step}{values}" if step or values else ""


@dataclass(frozen=True, slots=True)
class Verification:
    """All that was compared; `equal` says whether all of it is equal.

    Attributes:
        comparisons: one for each name and each engine.
        tolerance: the relative difference up to which numbers are called equal.
        notes: what one should know about the comparison.
    """

    comparisons: tuple[Comparison, ...]
    tolerance: float
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether everything is equal within the tolerance."""
        return all(comparison.equal for comparison in self.comparisons)

    @property
    def bit_for_bit(self) -> bool:
        """Whether there is no difference at all, however small."""
        return self.equal and all(comparison.max_abs == 0 for comparison in self.comparisons)

    def __str__(self) -> str:
        verdict = "equal, bit for bit" if self.bit_for_bit else "equal"
        verdict = verdict if self.equal else "different"
        lines = [str(c) for c in self.comparisons if not _goes_without_saying(c)]
        lines += self._summaries()
        lines += [f"{verdict} (tolerance: relative {self.tolerance:g})"]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(map(on_one_line, lines))

    def _summaries(self) -> list[str]:
        """One line for all parameters that are equal."""
        lines = []
        for engine in dict.fromkeys(c.engine for c in self.comparisons):
            alike = [c for c in self.comparisons if c.engine == engine and _goes_without_saying(c)]
            if alike:
                many = "1 parameter" if len(alike) == 1 else f"{len(alike)} parameters"
                max_abs, max_rel = max(c.max_abs for c in alike), max(c.max_rel for c in alike)
                lines.append(
                    f"equal      {many} against {engine}: "
                    f"max abs {max_abs:.3g}, max rel {max_rel:.3g}"
                )
        return lines


def _goes_without_saying(comparison: Comparison) -> bool:
    return comparison.equal and comparison.is_parameter


def compare(
    name: str,
    engine: str,
    ours: Array,
    theirs: Array,
    tolerance: float,
    *,
    is_parameter: bool = False,
) -> Comparison:
    """The compiled model's array beside that of an engine.

    Axes of one element are the same as none; nan is equal to nan. Numbers with a point are equal
    that differ by the tolerance, or by a few last bits of the largest one; whole numbers are equal
    if they are the same.
    """
    equal, max_abs, max_rel, _, values = _apart((ours,), (theirs,), tolerance)
    types = (type_of(ours), type_of(theirs))
    return Comparison(
        name, engine, equal, max_abs, max_rel, types, None, values, is_parameter=is_parameter
    )


def compare_rows(
    name: str,
    engine: str,
    ours: Sequence[Array],
    theirs: Sequence[Array],
    tolerance: float,
    types: tuple[str, str],
    *,
    is_parameter: bool = False,
) -> Comparison:
    """Like `compare`, step by step: the rows of a model over time, each in its own shape."""
    result = _apart(ours, theirs, tolerance)
    return Comparison(name, engine, *result[:3], types, *result[3:], is_parameter=is_parameter)


def compare_members(
    name: str,
    engine: str,
    ours: Data,
    theirs: Data,
    tolerance: float,
    *,
    is_parameter: bool = False,
) -> tuple[Comparison, ...]:
    """Like `compare`; sequences of the same length member by member."""
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        return (compare(name, engine, ours, theirs, tolerance, is_parameter=is_parameter),)
    types = (_kind(ours), _kind(theirs))
    apart = 0.0 if types[0] == types[1] else np.inf
    whole = Comparison(name, engine, not apart, apart, apart, types, is_parameter=is_parameter)
    if apart or not ours:
        return (whole,)
    return tuple(
        compare(f"{name}[{k}]", engine, one, other, tolerance, is_parameter=is_parameter)
        for k, (one, other) in enumerate(zip(ours, theirs, strict=True))
    )


def _kind(data: Data) -> str:
    if data is None:
        return "absent"
    return f"sequence of {len(data)}" if isinstance(data, list) else f"{data.dtype}"


def type_of(array: Array) -> str:
    """`float64[2, 3]`."""
    return f"{array.dtype}{list(array.shape)}"


_Result = tuple[bool, float, float, int | None, tuple[str, str] | None]


def _apart(ours: Sequence[Array], theirs: Sequence[Array], tolerance: float) -> _Result:
    """Equal, max abs, max rel, the first row that differs, its first two values that differ."""
    if len(ours) != len(theirs):
        rows = (f"{len(ours)} steps", f"{len(theirs)} steps")
        return False, np.inf, np.inf, min(len(ours), len(theirs)), rows
    for row, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if extents(one) != extents(other) or _text(one) != _text(other):
            return False, np.inf, np.inf, row, (type_of(one), type_of(other))
    left, right = (np.concatenate([row.reshape(-1) for row in rows]) for rows in (ours, theirs))
    if _text(left):
        absolute = relative = np.where(left == right, 0.0, np.inf)
    else:
        absolute, relative = _differences(left, right)
    if _whole(left) and _whole(right):
        tolerance = 0.0
    if not absolute.any():
        return True, 0.0, 0.0, None, None
    max_abs, max_rel = float(absolute.max()), float(relative.max())
    if max_rel <= tolerance:
        return True, max_abs, max_rel, None, None
    at = int(np.argmax(relative > tolerance))
    row = int(np.searchsorted(np.cumsum([one.size for one in ours]), at, side="right"))
    return False, max_abs, max_rel, row, _shown(left[at], right[at])


def _differences(left: Array, right: Array) -> tuple[Array, Array]:
    """Return absolute and relative differences; a few last bits of the largest value count as rounding.

    The last bits are those of the coarser dtype.
    """
    whole = _whole(left) and _whole(right)
    least, eps = (1.0, 0.0) if whole else (0.0, max(_last_bit(left), _last_bit(right)))
    same = left == right
    left, right = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        same |= np.isnan(left) & np.isnan(right)
        apart = np.where(same, 0, np.maximum(np.abs(left - right), least))
        apart = np.nan_to_num(apart, nan=np.inf, posinf=np.inf)
        size = np.maximum(np.abs(left), np.abs(right))
        rounding = 8 * eps * np.max(size, where=np.isfinite(size), initial=0)
        relative = np.where(apart <= rounding, 0, apart / size)
    return apart, np.nan_to_num(relative, nan=np.inf, posinf=np.inf)


def _last_bit(array: Array) -> float:
    """Return the distance of 1 from the next number of the array's dtype; of float64 for other kinds."""
    return float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps)


def extents(array: Array) -> list[int]:
    """The shape without axes of one element, which the engine adds to plain numbers."""
    return [extent for extent in array.shape if extent != 1]


def _shown(left: object, right: object) -> tuple[str, str]:
    """Two values, written with as many digits as it takes to see that they differ."""
    for digits in (6, 17):
        texts = tuple(
            f"{v:.{digits}g}" if isinstance(v, np.floating) else str(v) for v in (left, right)
        )
        if texts[0] != texts[1]:
            break
    return texts[0], texts[1]


def _whole(array: Array) -> bool:
    return array.dtype.kind in "biu"


def _text(array: Array) -> bool:
    return array.dtype.kind in "OUS"
