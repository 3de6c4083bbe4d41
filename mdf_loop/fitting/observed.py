"""Observed data of a fit: rows of a table, matched to the steps of a run.

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
from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.columns import read_columns
from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array
from mdf_loop.paths import path_of, record_read_file

TIME, STEP, TRIAL, WEIGHT, DEVIATION = "time", "step", "trial", "weight", "sd"
"""Names of data columns that are not outputs: time or step, trial number, weight, standard deviation."""

RESERVED_COLUMNS = (TIME, STEP, TRIAL, WEIGHT, DEVIATION)
"""All columns that are not outputs."""

Table = Mapping[str, Array]
"""Columns by name, with a row for each observation."""


class ObservedSeries(Struct, frozen=True):
    """Observed values of one output, with the step and the weight of each data row.

    Attributes:
        output_name: The output's name in results.
        row_steps: The step of each row.
        observed_values: The rows, with nan where no value was observed.
        residual_factors: The factor of each residual, which is the root of its weight.
    """

    output_name: str
    row_steps: Array
    observed_values: Array
    residual_factors: Array

    @property
    def is_observed(self) -> Array:
        """Mask of the observed values that are finite and have a positive weight."""
        row_factors = self.residual_factors.reshape(-1, *(1,) * (self.observed_values.ndim - 1))
        observed_mask: Array = np.isfinite(self.observed_values) & (row_factors > 0)
        return observed_mask


class Observations(Struct, frozen=True):
    """Observed data of one subject, matched to the steps of a run.

    For a single evaluation `steps` is None, and the rows are elements of the output.

    Attributes:
        output_series: The observed values of each output.
        steps: The number of evaluations in the run.
        has_known_deviations: True if the standard deviation of each value is known.
    """

    output_series: tuple[ObservedSeries, ...]
    steps: int | None
    has_known_deviations: bool

    @property
    def count(self) -> int:
        """Number of finite observed values with a positive weight."""
        return sum(int(series.is_observed.sum()) for series in self.output_series)

    @property
    def dropped(self) -> int:
        """Number of data rows that are dropped because a value is nan or infinite."""
        return count_nonfinite_rows(*(series.observed_values for series in self.output_series))


def count_nonfinite_rows(*columns: Array) -> int:
    """Count the data rows in which one of the columns is nan or infinite."""
    nonfinite_masks = [
        ~np.isfinite(column).reshape(len(column), -1).all(axis=1) for column in columns
    ]
    return int(np.any(nonfinite_masks, axis=0).sum())


def read_table(data: Any, data_name: str = "the data") -> Table:
    """Return the data columns in a .csv or .npz file, a DataFrame or a mapping, by name.

    Raises:
        InputError: The data have another form, or the columns differ in length.
    """
    if isinstance(data, str | Path):
        data_path = path_of(data, data_name)
        table = _read_file(data_path)
        data_name = f"'{data_path.name}'"
    elif hasattr(data, "columns") and hasattr(data, "to_numpy"):
        table = {str(name): data[name].to_numpy() for name in data.columns}
    elif isinstance(data, Mapping) and data:
        table = {str(name): _to_column(name, values) for name, values in data.items()}
    else:
        raise InputError(
            f"{data_name} cannot be {type(data).__name__}",
            hint="give a .csv or .npz file, a pandas DataFrame, or arrays by name",
        )
    _check_columns(table, data_name)
    return table


def _read_file(path: Path) -> dict[str, Array]:
    """Return the data columns in a .csv or .npz file by name, or raise InputError."""
    readers: dict[str, Callable[[Path], dict[str, Array]]] = {
        ".csv": lambda p: read_columns(p, empty="nan"),
        ".npz": read_arrays,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"'{path.name}' is no data", hint="data end in .csv or .npz")
    if not path.is_file():
        raise InputError(f"there is no file '{path}'", hint="check the path")
    return readers[path.suffix.lower()](record_read_file(path))


def _to_column(name: Any, values: Any) -> Array:
    """Convert a data column to a supported array, or raise InputError for ragged rows."""
    try:
        return as_supported_array(values, f"the column '{name}'")
    except Ragged:
        raise InputError(f"the column '{name}' has rows of different lengths") from None


def _check_columns(table: Table, data_name: str) -> None:
    """Raise InputError if a data column is not numeric, or columns differ in length."""
    for name, column in table.items():
        if column.ndim == 0 or column.dtype.kind not in "biuf":
            raise InputError(f"the column '{name}' of {data_name} is no column of numbers")
    column_lengths = {name: len(column) for name, column in table.items()}
    if len(set(column_lengths.values())) > 1:
        lengths_text = ", ".join(
            f"'{name}' {column_length}" for name, column_length in column_lengths.items()
        )
        raise InputError(f"the columns of {data_name} are not equally long: {lengths_text}")


def find_column(table: Table, names: Sequence[str], what: str, advice: str = "") -> Array:
    """Return the first column of a data table whose name is in a list of possible names.

    Raises:
        InputError: The table has none of these columns.
    """
    for name in names:
        if name in table:
            return table[name]
    raise InputError(
        f"the data have no column '{names[0]}' for {what}",
        hint=f"they have {', '.join(map(repr, table))}" + (f"; {advice}" if advice else ""),
    )


def match_to_steps(
    table: Table, columns: Mapping[str, Array], steps: int | None, dt: float | None
) -> Observations:
    """Match each row of observed data to the nearest step of a run.

    Args:
        table: The observed data.
        columns: The column of each output, by the output's name in results.
        steps: The number of evaluations. With None the run is as long as the data.
        dt: The time between two evaluations. With None the times are step numbers.

    Raises:
        InputError: A row matches no step. The message names the row.
    """
    row_steps = _row_steps(table, steps, dt, len(next(iter(columns.values()))))
    residual_factors, has_known_deviations = _residual_factors(table, len(row_steps))
    has_time = dt is not None or TIME in table or STEP in table
    step_count = int(row_steps.max()) + 1 if steps is None and has_time else steps
    output_series = tuple(
        ObservedSeries(output, row_steps, column.astype(float), residual_factors)
        for output, column in columns.items()
    )
    for series in output_series:
        if not series.is_observed.any():
            raise InputError(f"the data have no number for '{series.output_name}'")
    return Observations(output_series, step_count, has_known_deviations)


def _row_steps(table: Table, steps: int | None, dt: float | None, rows: int) -> Array:
    """Return the step of the run for each data row, from the row's time, step or position."""
    if TIME not in table and STEP not in table:
        if steps is not None and rows != steps:
            raise InputError(
                f"the data have {rows} rows and no column 'time', but the run has {steps} steps",
                hint="say in a column 'time' when each was observed",
            )
        return np.arange(rows)
    column_name = TIME if TIME in table else STEP
    times = np.asarray(table[column_name], float)
    if times.ndim != 1 or not np.isfinite(times).all():
        raise InputError(f"the column '{column_name}' is no column of finite numbers")
    step_length = 1.0 if dt is None or column_name == STEP else dt
    row_steps = np.floor(times / step_length + 0.5)
    raise_findings(_range_findings(times, row_steps, steps, step_length))
    return row_steps.astype(np.int64)


def _range_findings(
    times: Array, row_steps: Array, steps: int | None, step_length: float
) -> Iterator[Finding]:
    """Yield an error about the first data row that lies outside of the run."""
    last_step = np.inf if steps is None else steps - 1
    if len(rows_outside := np.flatnonzero((row_steps < 0) | (row_steps > last_step))):
        row_index = int(rows_outside[0])
        end_text = "" if steps is None else f" and ends at {last_step * step_length:g}"
        yield Finding(
            "InputError",
            f"row {row_index + 1} of the data is at time {times[row_index]:g}, but the run begins at 0{end_text}: "
            f"{len(rows_outside)} of {len(times)} rows match no step",
            "",
            "give more steps, another dt, or leave those rows out",
        )


def _residual_factors(table: Table, rows: int) -> tuple[Array, bool]:
    """Return the factor of each residual, from a column of weights or of standard deviations.

    Also return True if the factors scale residuals to unit variance.
    """
    if WEIGHT in table and DEVIATION in table:
        raise InputError("the data have both 'weight' and 'sd'", hint="leave one of them out")
    column_name = WEIGHT if WEIGHT in table else DEVIATION
    if column_name not in table:
        return np.ones(rows), False
    weight_column = np.asarray(table[column_name], float)
    is_valid = weight_column >= 0 if column_name == WEIGHT else weight_column > 0
    if weight_column.ndim != 1 or not bool(np.all(is_valid & np.isfinite(weight_column))):
        requirement_text = (
            "finite numbers from 0 on" if column_name == WEIGHT else "finite numbers above 0"
        )
        raise InputError(f"the column '{column_name}' must hold {requirement_text}")
    return (np.sqrt(weight_column), False) if column_name == WEIGHT else (1 / weight_column, True)


def output_columns(table: Table) -> Sequence[str]:
    """Return the names of the data columns that may be outputs of the model."""
    return [name for name in table if name not in RESERVED_COLUMNS]
