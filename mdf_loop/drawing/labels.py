"""HTML-like labels: escaped text, cells, tables.

Source: Graphviz documentation, "Node Shapes: HTML-Like Labels".
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable

from mdf_loop.drawing.theme import INK, MARKS, NORMAL, PAPER, QUIET, SMALL
from mdf_loop.errors import UnsupportedError
from mdf_loop.visible import on_one_line, without_middle

LONGEST = 16_000
"""Bytes of one text: Graphviz reads no more than 16384 in one piece."""


def escaped(text: str) -> str:
    """Text that Graphviz shows as it is; what has no picture is shown as an escape.

    Raises:
        UnsupportedError: it is longer than Graphviz can read.
    """
    made = html.escape(on_one_line(text), quote=True) or " "
    if len(made.encode()) > LONGEST:
        raise UnsupportedError(
            f"a text of {len(text)} characters is too long for a picture: "
            f"'{without_middle(text, 100)}'",
            hint=f"a name or formula may have about {LONGEST} characters; shorten it",
        )
    return made


def styled(text: str, *, size: int = NORMAL, color: str = INK, tag: str = "") -> str:
    """A piece of text with size, colour and perhaps `B` or `I`."""
    inner = f"<{tag}>{escaped(text)}</{tag}>" if tag and text.strip() else escaped(text)
    return f'<FONT POINT-SIZE="{size}" COLOR="{color}">{inner}</FONT>'


def bold(text: str, size: int = NORMAL) -> str:
    """What a thing is called."""
    return styled(text, size=size, tag="B")


def small(text: str) -> str:
    """What is said beside or below it."""
    return styled(text, size=SMALL, color=QUIET)


def lines(*parts: str, align: str = "CENTER") -> str:
    """Pieces below each other, each in a row of its own: lines of different sizes keep apart."""
    kept = [part for part in parts if part]
    if len(kept) < 2:
        return "".join(kept)
    return table((row([cell(part, ALIGN=align)]) for part in kept), CELLPADDING=0, CELLSPACING=1)


def wrapped(text: str, width: int) -> list[str]:
    """A long formula on several lines, broken at spaces."""
    return textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False) or [""]


def cell(content: str, **attributes: str | int) -> str:
    """A table cell; attributes in Graphviz's words."""
    return f"<TD{_attributes(attributes)}>{content or ' '}</TD>"


def badge(kind: str, size: int, width: int, height: int, **attributes: str | int) -> str:
    """The sign of a kind on its ground; a sign on paper gets a line around it."""
    mark = MARKS[kind]
    line: dict[str, str | int] = {"BORDER": 1, "COLOR": QUIET} if mark.ground == PAPER else {}
    return cell(
        styled(mark.sign, size=size, color=mark.ink, tag="B"),
        BGCOLOR=mark.ground,
        WIDTH=width,
        HEIGHT=height,
        **line,
        **attributes,
    )


def row(cells: Iterable[str]) -> str:
    """A table row."""
    return f"<TR>{''.join(cells)}</TR>"


def table(rows: Iterable[str], **attributes: str | int) -> str:
    """A table without lines, unless attributes say so."""
    given = {"BORDER": 0, "CELLBORDER": 0, "CELLSPACING": 0, "CELLPADDING": 3, **attributes}
    return f"<TABLE{_attributes(given)}>{''.join(rows)}</TABLE>"


def _attributes(attributes: dict[str, str | int]) -> str:
    return "".join(
        f' {key}="{html.escape(str(value), quote=True)}"' for key, value in attributes.items()
    )
