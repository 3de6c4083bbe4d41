"""Reading of csv files whose first line has the names of the columns.

    time,I,x[0],x[1]
    0.0,1.5,0,1        ->   time: float64[rows], I: float64[rows], x: int64[rows, 2]
    0.1,2.5,2,3

The command line writes this format with `--output results.csv`.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array

TIME_COLUMNS = ("time", "step")
"""Columns with the time or the step of each row, which are no inputs."""

_ELEMENT_PATTERN = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")


def read_columns(path: Path, steps: int | None = None, empty: str = "") -> dict[str, Array]:
    """Return the columns of a csv file by name, with `x[0]`, `x[1]`, ... joined to one array.

    Args:
        path: Path of the file.
        steps: Required number of rows, or None for any number.
        empty: Text that replaces empty cells.

    Raises:
        InputError: The file is no table of numbers, or its number of rows differs from `steps`.
    """
    header, *rows = _read_lines(path)
    if repeated_names := [name for k, name in enumerate(header) if name in header[:k]]:
        raise InputError(f"'{path.name}' has the column '{repeated_names[0]}' twice")
    if steps is not None and len(rows) != steps:
        raise InputError(
            f"'{path.name}' has {len(rows)} rows, but the run has {steps} steps",
            hint=f"a csv file has a row for each step: --steps {len(rows)}",
        )
    columns = {
        name: _parse_column(path, name, [row[k] or empty for row in rows])
        for k, name in enumerate(header)
    }
    return _join_elements(path, columns)


def _read_lines(path: Path) -> list[list[str]]:
    """Return the header and the rows of a csv file as texts, without empty lines.

    Raises:
        InputError: The file is no csv file, has no rows, or its rows have different lengths.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows_of_cells = [
                [cell.strip() for cell in cells] for cells in csv.reader(stream) if cells
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path.name}' is not a csv file: {error}") from None
    if len(rows_of_cells) < 2:
        raise InputError(
            f"'{path.name}' has no rows", hint="the first line names the columns, numbers follow"
        )
    for row_number, row_cells in enumerate(rows_of_cells[1:], 1):
        if len(row_cells) != len(rows_of_cells[0]):
            raise InputError(
                f"row {row_number} of '{path.name}' has {len(row_cells)} values, "
                f"but there are {len(rows_of_cells[0])} columns"
            )
    return rows_of_cells


def _parse_column(path: Path, name: str, cells: list[str]) -> Array:
    """Convert the cells of a csv column to bools, integers or floats, the first type that fits.

    Raises:
        InputError: A cell is no number, or exceeds 64 bits.
    """
    column_text = f"of the column '{name}' in '{path.name}'"
    lower_case_cells = [cell.lower() for cell in cells]
    if set(lower_case_cells) <= {"true", "false"}:
        return np.array([lower_case_cell == "true" for lower_case_cell in lower_case_cells])
    try:
        return np.array([int(cell) for cell in cells], np.int64)
    except OverflowError:
        raise InputError(f"a number {column_text} does not fit into 64 bits") from None
    except ValueError:
        pass
    if invalid_cells := [(row, cell) for row, cell in enumerate(cells, 1) if not _is_number(cell)]:
        raise InputError(
            f"row {invalid_cells[0][0]} {column_text} is no number: {invalid_cells[0][1]!r}"
        )
    return np.array([float(cell) for cell in cells])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _join_elements(path: Path, columns: dict[str, Array]) -> dict[str, Array]:
    """Join csv columns of elements, such as `x[0]` and `x[1]`, into one array `x`.

    Raises:
        InputError: The elements of a column are incomplete or ambiguous.
    """
    columns_by_name: dict[str, Array] = {}
    element_columns: dict[str, dict[tuple[int, ...], Array]] = {}
    for name, column in columns.items():
        if element_match := _ELEMENT_PATTERN.fullmatch(name):
            index = tuple(map(int, element_match[2].split(",")))
            element_columns.setdefault(element_match[1], {})[index] = column
        else:
            columns_by_name[name] = column
    for name, column_by_index in element_columns.items():
        ranks = {len(index) for index in column_by_index}
        shape = tuple(max(extents) + 1 for extents in zip(*column_by_index, strict=False))
        if (
            name in columns_by_name
            or len(ranks) > 1
            or set(column_by_index) != set(np.ndindex(shape))
        ):
            raise InputError(
                f"the columns '{name}[...]' in '{path.name}' are no array: "
                f"{', '.join(f'{name}[{_format_index(index)}]' for index in column_by_index)}",
                hint=f"give each element once, from '{name}[{_format_index((0,) * min(ranks))}]' on",
            )
        ordered_columns = [column_by_index[index] for index in np.ndindex(shape)]
        columns_by_name[name] = np.stack(ordered_columns, axis=1).reshape(-1, *shape)
    return columns_by_name


def _format_index(index: tuple[int, ...]) -> str:
    """Return an array index as text, such as `0,1`."""
    return ",".join(map(str, index))
