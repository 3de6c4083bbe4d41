"""Changed copies of parts of a document; the original is unchanged."""

from types import SimpleNamespace

from mdf_loop.document.changes import replace_fields


def test_a_copy_has_new_field_values() -> None:
    part = SimpleNamespace(value="x", args=None)
    copied = replace_fields(part, value="2 * x")
    assert copied == SimpleNamespace(value="2 * x", args=None)
    assert part.value == "x"


def test_equal_values_need_no_copy() -> None:
    part = SimpleNamespace(value="x")
    assert replace_fields(part, value=part.value) is part
    assert replace_fields(part) is part
