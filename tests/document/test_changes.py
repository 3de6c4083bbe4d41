"""Changed copies of parts of a document; the original is unchanged."""

from mdf_loop.document.changes import replace_fields
from mdf_loop.document.parts import OutputPort


def test_a_copy_has_new_field_values() -> None:
    part = OutputPort(id="p", value="x")
    copied = replace_fields(part, value="2 * x")
    assert (copied.id, copied.value) == ("p", "2 * x")
    assert part.value == "x"


def test_equal_values_need_no_copy() -> None:
    part = OutputPort(id="p", value="x")
    assert replace_fields(part, value=part.value) is part
    assert replace_fields(part) is part
