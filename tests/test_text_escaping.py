r"""Control characters in user-supplied texts are escaped, so that `\x1b[2J` appears as these letters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_loop.errors import LoopError, ModelError
from mdf_loop.text_escaping import escape_control_characters, escape_to_one_line, shorten_middle


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("\a\b\r\x7f\0", r"\x07\x08\r\x7f\x00"),
        ("\u202eabc\u202c", r"\u202eabc\u202c"),
        ("\u2066\u2069\u200f\ufeff", r"\u2066\u2069\u200f\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
    ],
)
def test_invisible_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape_control_characters(text) == escaped == escape_to_one_line(text)


@pytest.mark.parametrize(
    "text",
    [
        "µV",
        "数 x",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f52c",
        "e\u0301",
        "a\xa0b",
        "\\x1b",
    ],
)
def test_letters_of_all_scripts_are_kept(text: str) -> None:
    assert escape_control_characters(text) == text


def test_line_breaks_are_kept_except_in_single_lines() -> None:
    assert escape_control_characters("a\nb\tc") == "a\nb\\tc"
    assert escape_to_one_line("a\nb") == "a\\nb"


@given(st.text(st.characters()))
def test_no_control_character_remains(text: str) -> None:
    escaped = escape_to_one_line(text)
    escaped.encode()
    assert not any(c < " " or "\x7f" <= c < "\xa0" for c in escaped)


def test_the_middle_of_a_long_text_is_omitted() -> None:
    assert shorten_middle("abc", 3) == "abc"
    short = shorten_middle("a" * 50 + "z" * 50, 40)
    assert (len(short), short[0], short[-1]) == (40, "a", "z")


def test_errors_escape_user_supplied_texts() -> None:
    error = ModelError("no '\x1b]0;x\a'", "$.nodes['\x9b']", "not '\u202e'")
    assert error.report.splitlines() == [
        r"ModelError: no '\x1b]0;x\x07'",
        r"  at $.nodes['\x9b']",
        r"  hint: not '\u202e'",
    ]
    assert len(str(LoopError("x", "$" * 100_000))) < 2000
