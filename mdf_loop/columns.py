"""Reading of csv columns by the names in the first line, as arrays over time.

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

_ELEMENT = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")


def read_columns(path: Path, steps: int | None = None, empty: str = "") -> dict[str, Array]:
    """Return the columns of a csv file by name. Columns of elements such as `x[0]` become one array.

    Args:
        path: Path of the file.
        steps: Required number of rows, or None for any number.
        empty: Text that replaces empty cells.

    Raises:
        InputError: The file is no table of numbers, or its number of rows differs from `steps`.
    """
    header, *rows = _read_lines(path)
    if twice := [name for k, name in enumerate(header) if name in header[:k]]:
        raise InputError(f"'{path.name}' has the column '{twice[0]}' twice")
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
    """Return the header and the rows of a file as texts, without empty lines.

    Raises:
        InputError: The file is no csv file, has no rows, or its rows have different lengths.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = [[cell.strip() for cell in line] for line in csv.reader(stream) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path.name}' is not a csv file: {error}") from None
    if len(lines) < 2:
        raise InputError(
            f"'{path.name}' has no rows", hint="the first line names the columns, numbers follow"
        )
    for number, line in enumerate(lines[1:], 1):
        if len(line) != len(lines[0]):
            raise InputError(
                f"row {number} of '{path.name}' has {len(line)} values, "
                f"but there are {len(lines[0])} columns"
            )
    return lines


def _parse_column(path: Path, name: str, cells: list[str]) -> Array:
    """Convert the cells of a column to bools, integers or floats, whichever type fits all cells first.

    Raises:
        InputError: A cell is no number, or exceeds 64 bits.
    """
    place = f"of the column '{name}' in '{path.name}'"
    words = [cell.lower() for cell in cells]
    if set(words) <= {"true", "false"}:
        return np.array([word == "true" for word in words])
    try:
        return np.array([int(cell) for cell in cells], np.int64)
    except OverflowError:
        raise InputError(f"a number {place} does not fit into 64 bits") from None
    except ValueError:
        pass
    if wrong := [(row, cell) for row, cell in enumerate(cells, 1) if not _is_number(cell)]:
        raise InputError(f"row {wrong[0][0]} {place} is no number: {wrong[0][1]!r}")
    return np.array([float(cell) for cell in cells])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _join_elements(path: Path, columns: dict[str, Array]) -> dict[str, Array]:
    """Join columns of elements, such as `x[0]` and `x[1]`, into one column `x` of arrays.

    Raises:
        InputError: The elements of a column are incomplete or ambiguous.
    """
    whole_columns: dict[str, Array] = {}
    elements: dict[str, dict[tuple[int, ...], Array]] = {}
    for name, column in columns.items():
        if element := _ELEMENT.fullmatch(name):
            index = tuple(map(int, element[2].split(",")))
            elements.setdefault(element[1], {})[index] = column
        else:
            whole_columns[name] = column
    for name, parts in elements.items():
        ranks = {len(index) for index in parts}
        shape = tuple(max(extents) + 1 for extents in zip(*parts, strict=False))
        if name in whole_columns or len(ranks) > 1 or set(parts) != set(np.ndindex(shape)):
            raise InputError(
                f"the columns '{name}[...]' in '{path.name}' are no array: "
                f"{', '.join(f'{name}[{_format_index(index)}]' for index in parts)}",
                hint=f"give each element once, from '{name}[{_format_index((0,) * min(ranks))}]' on",
            )
        stacked = [parts[index] for index in np.ndindex(shape)]
        whole_columns[name] = np.stack(stacked, axis=1).reshape(-1, *shape)
    return whole_columns


def _format_index(index: tuple[int, ...]) -> str:
    """Return an index as text, such as `0,1`."""
    return ",".join(map(str, index))
