"""HTML-like labels of Graphviz: escaped texts, cells and tables.

Source: Graphviz documentation, "Node Shapes: HTML-Like Labels".
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from mdf_loop.drawing.theme import (
    MARKS,
    NORMAL_FONT_SIZE,
    PAPER_COLOR,
    REMARK_COLOR,
    SMALL_FONT_SIZE,
    TEXT_COLOR,
)
from mdf_loop.errors import UnsupportedError
from mdf_loop.text_escaping import escape_to_one_line, shorten_middle

MAX_TEXT_BYTES = 16_000
"""Maximum number of bytes of one text. Graphviz reads at most 16384 bytes at once."""


def escape_text(text: str) -> str:
    """Escape a text so that Graphviz shows it unchanged, with control characters as escapes.

    Raises:
        UnsupportedError: The text is longer than Graphviz can read.
    """
    escaped_text = html.escape(escape_to_one_line(text), quote=True) or " "
    if len(escaped_text.encode()) > MAX_TEXT_BYTES:
        raise UnsupportedError(
            f"a text of {len(text)} characters is too long for a picture: "
            f"'{shorten_middle(text, 100)}'",
            hint=f"a name or formula may have about {MAX_TEXT_BYTES} characters; shorten it",
        )
    return escaped_text


def style_text(
    text: str, *, size: int = NORMAL_FONT_SIZE, color: str = TEXT_COLOR, tag: str = ""
) -> str:
    """Format a text with a font size, a colour and optionally the tag `B` or `I`."""
    tagged_text = (
        f"<{tag}>{escape_text(text)}</{tag}>" if tag and text.strip() else escape_text(text)
    )
    return f'<FONT POINT-SIZE="{size}" COLOR="{color}">{tagged_text}</FONT>'


def bold_text(text: str, size: int = NORMAL_FONT_SIZE) -> str:
    """Format a name or title in bold type."""
    return style_text(text, size=size, tag="B")


def small_text(text: str) -> str:
    """Format a remark in a small grey font."""
    return style_text(text, size=SMALL_FONT_SIZE, color=REMARK_COLOR)


def stack_lines(*parts: str, align: str = "CENTER") -> str:
    """Stack lines of text of different sizes as rows of an HTML-like table."""
    nonempty_lines = [line for line in parts if line]
    if len(nonempty_lines) < 2:
        return "".join(nonempty_lines)
    return table(
        (row([cell(line, ALIGN=align)]) for line in nonempty_lines), CELLPADDING=0, CELLSPACING=1
    )


def cell(content: str, **attributes: str | int) -> str:
    """Build a table cell of an HTML-like label from its content and Graphviz attributes."""
    return f"<TD{_format_attributes(attributes)}>{content or ' '}</TD>"


def badge(kind: str, size: int, width: int, height: int, **attributes: str | int) -> str:
    """Build a coloured table cell with the sign of a property, such as "sliced".

    A sign on white has a border.
    """
    mark = MARKS[kind]
    border_attributes: dict[str, str | int] = (
        {"BORDER": 1, "COLOR": REMARK_COLOR} if mark.background_color == PAPER_COLOR else {}
    )
    return cell(
        style_text(mark.sign, size=size, color=mark.text_color, tag="B"),
        BGCOLOR=mark.background_color,
        WIDTH=width,
        HEIGHT=height,
        **border_attributes,
        **attributes,
    )


def row(cells: Iterable[str]) -> str:
    """Build a row of an HTML-like table."""
    return f"<TR>{''.join(cells)}</TR>"


def table(rows: Iterable[str], **attributes: str | int) -> str:
    """Build an HTML-like table, by default without lines."""
    all_attributes = {
        "BORDER": 0,
        "CELLBORDER": 0,
        "CELLSPACING": 0,
        "CELLPADDING": 3,
        **attributes,
    }
    return f"<TABLE{_format_attributes(all_attributes)}>{''.join(rows)}</TABLE>"


def _format_attributes(attributes: dict[str, str | int]) -> str:
    """Format attributes of an HTML-like element, such as ` PORT="in0"`."""
    return "".join(
        f' {key}="{html.escape(str(value), quote=True)}"' for key, value in attributes.items()
    )
