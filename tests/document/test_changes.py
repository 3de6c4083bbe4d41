"""Parts that say something else: the part itself is as it was."""

from types import SimpleNamespace

from mdf_loop.document.changes import replace_fields


def test_a_copy_says_something_else() -> None:
    part = SimpleNamespace(value="x", args=None)
    made = replace_fields(part, value="2 * x")
    assert made == SimpleNamespace(value="2 * x", args=None)
    assert part.value == "x"


def test_what_says_it_already_is_not_copied() -> None:
    part = SimpleNamespace(value="x")
    assert replace_fields(part, value=part.value) is part
    assert replace_fields(part) is part
