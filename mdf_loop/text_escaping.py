r"""Escaping of control characters in texts of others.

    visible("a\x1b[2Jb")     r"a\x1b[2Jb": the characters \, x, 1, b instead of an escape
    visible("a\u202eb")      r"a\u202eb"
    visible("a\nb")          "a\nb": two lines
    on_one_line("a\nb")      r"a\nb": one line

Shown as escapes: control characters, surrogates, what turns the direction of writing around, and
everything else that has no picture. Letters of all scripts and their spaces and joiners stay.
"""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Without a picture of their own, but words of some scripts and pictures are written with them."""


def escape_control_characters(text: str) -> str:
    """Return the text with its lines, and with escapes for unprintable characters."""
    return "\n".join(map(escape_to_one_line, text.split("\n")))


def escape_to_one_line(text: str) -> str:
    """Return the text on one line, with escapes for unprintable characters and line ends."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")


def shorten_middle(text: str, limit: int) -> str:
    """Return the text, or its beginning and end if it is longer than a limit."""
    if len(text) <= limit:
        return text
    end = (limit - 5) // 3
    return f"{text[: limit - 5 - end]} ... {text[len(text) - end :]}"
