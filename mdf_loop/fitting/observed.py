"""What was observed: rows of data, matched to the steps of a run.

time,cell.V,sd           cell.V: at steps 0, 1, 3 ... these values, weights 1 / sd**2
0.0,-1.02,0.1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.archives import read_arrays
from mdf_loop.columns import read_columns
from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array
from mdf_loop.outside import Ragged, array_of
from mdf_loop.paths import noted, path_of

TIME, STEP, TRIAL, WEIGHT, DEVIATION = "time", "step", "trial", "weight", "sd"
"""Columns that are no outputs: when, of which repeat, how much it counts, how exact it is."""

NO_OUTPUTS = (TIME, STEP, TRIAL, WEIGHT, DEVIATION)
"""All of these."""

Table = Mapping[str, Array]
"""Columns by name, a row for each observation."""


class Observed(Struct, frozen=True):
    """Values of an output.

    Attributes:
        output: which one, as results call it.
        steps: at which step each row is.
        values: the rows; nan where nothing was observed.
        factors: what residuals are multiplied by: the roots of weights.
    """

    output: str
    steps: Array
    values: Array
    factors: Array

    @property
    def seen(self) -> Array:
        """Where something was observed, and counts."""
        factors = self.factors.reshape(-1, *(1,) * (self.values.ndim - 1))
        made: Array = np.isfinite(self.values) & (factors > 0)
        return made


class Observations(Struct, frozen=True):
    """All that was observed of a run of so many steps; None of one evaluation, whose rows are elements.

    Attributes:
        parts: by output.
        steps: how many evaluations the run has.
        exact: whether the standard deviation of each value is known.
    """

    parts: tuple[Observed, ...]
    steps: int | None
    exact: bool

    @property
    def count(self) -> int:
        """How many numbers were observed."""
        return sum(int(part.seen.sum()) for part in self.parts)

    @property
    def dropped(self) -> int:
        """The number of rows in which the value of an output is nan or infinite."""
        return not_finite_rows(*(part.values for part in self.parts))


def not_finite_rows(*columns: Array) -> int:
    """Return the number of rows in which a column is nan or infinite."""
    rows = [~np.isfinite(each).reshape(len(each), -1).all(axis=1) for each in columns]
    return int(np.any(rows, axis=0).sum())


def read_table(data: Any, what: str = "the data") -> Table:
    """Columns of a .csv or .npz file, a pandas DataFrame, or arrays by name, all of one length.

    Raises:
        InputError: it is none of these; the sentence says what it is.
    """
    if isinstance(data, str | Path):
        path = path_of(data, what)
        found = _read(path)
        what = f"'{path.name}'"
    elif hasattr(data, "columns") and hasattr(data, "to_numpy"):
        found = {str(name): data[name].to_numpy() for name in data.columns}
    elif isinstance(data, Mapping) and data:
        found = {str(name): _array(name, values) for name, values in data.items()}
    else:
        raise InputError(
            f"{what} cannot be {type(data).__name__}",
            hint="give a .csv or .npz file, a pandas DataFrame, or arrays by name",
        )
    _refuse_odd(found, what)
    return found


def _read(path: Path) -> dict[str, Array]:
    readers: dict[str, Callable[[Path], dict[str, Array]]] = {
        ".csv": lambda p: read_columns(p, empty="nan"),
        ".npz": read_arrays,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"'{path.name}' is no data", hint="data end in .csv or .npz")
    if not path.is_file():
        raise InputError(f"there is no file '{path}'", hint="check the path")
    return readers[path.suffix.lower()](noted(path))


def _array(name: Any, values: Any) -> Array:
    try:
        return array_of(values, f"the column '{name}'")
    except Ragged:
        raise InputError(f"the column '{name}' has rows of different lengths") from None


def _refuse_odd(table: Table, what: str) -> None:
    for name, column in table.items():
        if column.ndim == 0 or column.dtype.kind not in "biuf":
            raise InputError(f"the column '{name}' of {what} is no column of numbers")
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise InputError(f"the columns of {what} are not equally long: {told}")


def column_of(table: Table, names: Sequence[str], what: str, advice: str = "") -> Array:
    """The column of an output: the first of some names that the data have.

    Raises:
        InputError: they have none.
    """
    for name in names:
        if name in table:
            return table[name]
    raise InputError(
        f"the data have no column '{names[0]}' for {what}",
        hint=f"they have {', '.join(map(repr, table))}" + (f"; {advice}" if advice else ""),
    )


def observations(
    table: Table, columns: Mapping[str, Array], steps: int | None, dt: float | None
) -> Observations:
    """Rows of outputs at the steps of a run: each at the nearest one.

    Args:
        table: what was observed.
        columns: the column of each output, by its name in results.
        steps: how many evaluations the run has; None if it lasts as long as the data.
        dt: the time between two; None if times are the numbers of steps.

    Raises:
        InputError: a row matches no step; the sentence names it.
    """
    at = _steps(table, steps, dt, len(next(iter(columns.values()))))
    factors, exact = _factors(table, len(at))
    timed = dt is not None or TIME in table or STEP in table
    lasts = int(at.max()) + 1 if steps is None and timed else steps
    parts = tuple(
        Observed(output, at, column.astype(float), factors) for output, column in columns.items()
    )
    for part in parts:
        if not part.seen.any():
            raise InputError(f"the data have no number for '{part.output}'")
    return Observations(parts, lasts, exact)


def _steps(table: Table, steps: int | None, dt: float | None, rows: int) -> Array:
    if TIME not in table and STEP not in table:
        if steps is not None and rows != steps:
            raise InputError(
                f"the data have {rows} rows and no column 'time', but the run has {steps} steps",
                hint="say in a column 'time' when each was observed",
            )
        return np.arange(rows)
    name = TIME if TIME in table else STEP
    times = np.asarray(table[name], float)
    if times.ndim != 1 or not np.isfinite(times).all():
        raise InputError(f"the column '{name}' is no column of finite numbers")
    step = 1.0 if dt is None or name == STEP else dt
    at = np.floor(times / step + 0.5)
    raise_findings(_beyond(times, at, steps, step))
    return at.astype(np.int64)


def _beyond(times: Array, at: Array, steps: int | None, step: float) -> Iterator[Finding]:
    """The first row, if any, that is at no step of the run."""
    last = np.inf if steps is None else steps - 1
    if len(wrong := np.flatnonzero((at < 0) | (at > last))):
        row = int(wrong[0])
        ends = "" if steps is None else f" and ends at {last * step:g}"
        yield Finding(
            "InputError",
            f"row {row + 1} of the data is at time {times[row]:g}, but the run begins at 0{ends}: "
            f"{len(wrong)} of {len(times)} rows match no step",
            "",
            "give more steps, another dt, or leave those rows out",
        )


def _factors(table: Table, rows: int) -> tuple[Array, bool]:
    """What residuals are multiplied by, and whether that makes them standard ones."""
    if WEIGHT in table and DEVIATION in table:
        raise InputError("the data have both 'weight' and 'sd'", hint="leave one of them out")
    name = WEIGHT if WEIGHT in table else DEVIATION
    if name not in table:
        return np.ones(rows), False
    given = np.asarray(table[name], float)
    least = given >= 0 if name == WEIGHT else given > 0
    if given.ndim != 1 or not bool(np.all(least & np.isfinite(given))):
        above = "finite numbers from 0 on" if name == WEIGHT else "finite numbers above 0"
        raise InputError(f"the column '{name}' must hold {above}")
    return (np.sqrt(given), False) if name == WEIGHT else (1 / given, True)


def outputs_in(table: Table) -> Sequence[str]:
    """Columns that may be outputs."""
    return [name for name in table if name not in NO_OUTPUTS]
