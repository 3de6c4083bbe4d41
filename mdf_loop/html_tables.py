"""Tables of results as text and as HTML for notebooks, with at most `MAX_ROWS` rows."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.text_escaping import escape_control_characters

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_ROWS = 40
"""Largest number of rows of a table."""

_MAX_TEXT = 40
"""Largest number of characters of a value in a table."""

Rows = Sequence[Sequence[str]]


def limited(rows: Rows, name_column: int = 0) -> list[tuple[str, ...]]:
    """Return the rows with control characters escaped: at most `MAX_ROWS`, and one with the number of the others.

    Args:
        rows: Cells of each row.
        name_column: Column in which the last row states how many rows are left out.
    """
    kept_rows = [tuple(map(escape_control_characters, row)) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        remark = f"... and {len(rows) - MAX_ROWS} more"
        kept_rows.append(tuple(remark if k == name_column else "" for k in range(len(rows[0]))))
    return kept_rows


def html_table(caption: str, head: Sequence[str], rows: Rows, name_column: int = 0) -> str:
    """Return a table in HTML, which refers to nothing outside of itself."""
    titles = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in limited(rows, name_column)
    )
    return f"<table><caption>{html.escape(escape_control_characters(caption))}</caption><tr>{titles}</tr>{body}</table>"


def table_cells(table: DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns of a pandas table, its index first, and the cells of all rows."""
    columns = table.reset_index()
    rows = [[number_text(cell) for cell in row] for row in columns.itertuples(index=False)]
    return [str(title) for title in columns.columns], rows


def short_text(value: object) -> str:
    """Return a value as one line of text, shortened at its end."""
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def array_text(array: object) -> str:
    """Return the dtype and shape of an array, and its value if it is a single number."""
    numbers = np.asarray(array)
    extents = ", ".join(map(str, numbers.shape))
    type_text = f"{numbers.dtype}[{extents}]"
    return f"{type_text} {number_text(numbers[()])}" if numbers.ndim == 0 else type_text


def number_text(number: object) -> str:
    """Return a number with at most six significant digits, another value as text."""
    return f"{number:.6g}" if isinstance(number, (float, np.floating)) else str(number)
