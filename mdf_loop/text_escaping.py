r"""Escaping of control characters in texts from models, files and users.

    escape_control_characters("a\x1b[2Jb")     r"a\x1b[2Jb": the characters \, x, 1, b for the escape
    escape_control_characters("a\u202eb")      r"a\u202eb"
    escape_control_characters("a\nb")          "a\nb": two lines
    escape_to_one_line("a\nb")                 r"a\nb": one line

Control characters, surrogates, characters that change the text direction, and all other unprintable
characters are shown as escapes. Letters of all scripts, spaces and joiners are unchanged.
"""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Zero-width joiners, which are unprintable, but necessary in some scripts and emoji sequences."""


def escape_control_characters(text: str) -> str:
    """Return the text with escapes for unprintable characters, except for line ends."""
    return "\n".join(map(escape_to_one_line, text.split("\n")))


def escape_to_one_line(text: str) -> str:
    """Return the text on one line, with escapes for unprintable characters and line ends."""
    return text if text.isprintable() else "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    """Return a printable character unchanged, and any other as its escape sequence."""
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")


def shorten_middle(text: str, limit: int) -> str:
    """Return a text with ` ... ` in place of its middle if the text is too long."""
    if len(text) <= limit:
        return text
    end_length = (limit - 5) // 3
    return f"{text[: limit - 5 - end_length]} ... {text[len(text) - end_length :]}"
