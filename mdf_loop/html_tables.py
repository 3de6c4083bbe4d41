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

_MAX_TEXT_LENGTH = 40
"""Largest number of characters of a value in a table."""

Rows = Sequence[Sequence[str]]


def limit_rows(rows: Rows, name_column: int = 0) -> list[tuple[str, ...]]:
    """Return the first `MAX_ROWS` table rows, and a last row with the number of omitted rows.

    Control characters are escaped.

    Args:
        rows: Cells of each row.
        name_column: Column in which the last row states the number of omitted rows.
    """
    kept_rows = [tuple(map(escape_control_characters, row)) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        omission_text = f"... and {len(rows) - MAX_ROWS} more"
        kept_rows.append(
            tuple(omission_text if k == name_column else "" for k in range(len(rows[0])))
        )
    return kept_rows


def html_table(caption: str, head: Sequence[str], rows: Rows, name_column: int = 0) -> str:
    """Return rows as an HTML table without references to external files."""
    header_cells = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    body_rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in limit_rows(rows, name_column)
    )
    return f"<table><caption>{html.escape(escape_control_characters(caption))}</caption><tr>{header_cells}</tr>{body_rows}</table>"


def table_cells(table: DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return the column titles and the cells of a pandas table, with its index, as texts."""
    table_columns = table.reset_index()
    cell_rows = [
        [number_text(cell) for cell in row] for row in table_columns.itertuples(index=False)
    ]
    return [str(column_title) for column_title in table_columns.columns], cell_rows


def short_text(value: object) -> str:
    """Return a value as text, cut to 40 characters and `...` if the text is longer."""
    value_text = "" if value is None else str(value)
    return (
        value_text if len(value_text) <= _MAX_TEXT_LENGTH else f"{value_text[:_MAX_TEXT_LENGTH]}..."
    )


def array_text(array: object) -> str:
    """Return the dtype and shape of an array, and its value if it is a single number."""
    number_array = np.asarray(array)
    extents_text = ", ".join(map(str, number_array.shape))
    type_text = f"{number_array.dtype}[{extents_text}]"
    return f"{type_text} {number_text(number_array[()])}" if number_array.ndim == 0 else type_text


def number_text(number: object) -> str:
    """Return a float as text with at most six significant digits, and any other value as text."""
    return f"{number:.6g}" if isinstance(number, (float, np.floating)) else str(number)
