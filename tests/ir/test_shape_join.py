"""The join of two shapes, according to the table of MindSpore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_loop.errors import JoinError
from mdf_loop.ir.shape_join import any_shape, join_shapes

RANK = "rank?"

TABLE: list[tuple[Any, Any, Any]] = [
    ((3, 4), (3, 4), (3, 4)),
    ((3, 5), (3, 4), None),
    ((3, 4), (3, 4, 1), None),
    ((3, "?"), (3, 4), (3, "?")),
    (RANK, (3, 4), RANK),
    ((3, "?"), (3, "?", "?"), RANK),
    ((3, "?"), (4, "?", "?"), None),
    ((3, "?"), (3, 4, "?"), None),
    ((), (2,), None),
    ((1,), (1, 1), None),
    ((1,), (), (1,)),
    ((), (1,), (1,)),
    (("?", 2), (1, "?"), ("?", "?")),
    ((2, 3), ("?", "?"), ("?", "?")),
    (RANK, RANK, RANK),
    (("?",), ("?", "?"), RANK),
    ((), ("?",), RANK),
    ((0, 3), (0, 3), (0, 3)),
    (("?", 3), ("?", 4), None),
    ((5,), RANK, RANK),
]
"""Two shapes and their join; None if they do not join."""


def ir_shape(entry: Any, name: str) -> Any:
    """Convert a shape of the table to an IR shape with a distinct name for each unknown extent."""
    if entry == RANK:
        return None
    return tuple(f"{name}{k}" if d == "?" else d for k, d in enumerate(entry))


def table_shape(joined: Any) -> Any:
    """Convert an IR shape to the notation of the table."""
    return RANK if joined is None else tuple("?" if isinstance(d, str) else d for d in joined)


@pytest.mark.parametrize(("first", "second", "joined"), TABLE)
def test_shapes_join_as_in_the_table(first: Any, second: Any, joined: Any) -> None:
    for one, other in ((first, second), (second, first)):
        pair = ir_shape(one, "n"), ir_shape(other, "m")
        if joined is None:
            with pytest.raises(JoinError, match="Shape Join Failed: shape1 = "):
                join_shapes(*pair)
        else:
            assert table_shape(join_shapes(*pair)) == joined


def test_the_table_equals_the_stored_table() -> None:
    path = Path(__file__).parents[3] / "shared" / "cases" / "mindspore" / "shapejoin_table.json"
    if not path.exists():
        pytest.skip("there is no folder 'shared' beside the checkout")
    rows = json.loads(path.read_text())["rows"]

    def as_shape(entry: Any) -> Any:
        return tuple(entry) if isinstance(entry, list) else entry

    stored = [(as_shape(r["shape1"]), as_shape(r["shape2"]), as_shape(r["joined"])) for r in rows]
    assert stored == TABLE


def test_equal_symbolic_extents_are_kept() -> None:
    assert join_shapes(("n", 3), ("n", 3)) == ("n", 3)
    assert table_shape(join_shapes(("n", 3), ("m", 3))) == ("?", 3)


def test_the_error_names_both_shapes() -> None:
    with pytest.raises(JoinError) as caught:
        join_shapes((1,), (1, 1))
    assert caught.value.findings[0].what == "Shape Join Failed: shape1 = (1), shape2 = (1, 1)"


extents = st.one_of(st.integers(0, 3), st.sampled_from(["n", "m"]))
shapes = st.one_of(st.none(), st.lists(extents, max_size=3).map(tuple))


@given(shapes, shapes)
def test_joins_are_symmetric_and_cover_both_shapes(first: Any, second: Any) -> None:
    try:
        joined = join_shapes(first, second)
    except JoinError:
        with pytest.raises(JoinError):
            join_shapes(second, first)
        assert table_shape(any_shape(first, second)) != table_shape(first) or first != second
        return
    assert table_shape(join_shapes(second, first)) == table_shape(joined)
    assert table_shape(join_shapes(joined, first)) == table_shape(joined)
    if joined != (1,):
        assert table_shape(any_shape(first, second)) == table_shape(joined)
