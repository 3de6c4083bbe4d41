"""Results as text, and as tables in notebooks."""

from __future__ import annotations

import re
from typing import Any

import pytest

import mdf_loop
from mdf_loop.html_tables import MAX_ROWS, html_table, short_text
from tests.conftest import document_of
from tests.models.fitted import CELL, DT, FREE, compiled, trace


def _objects() -> dict[str, Any]:
    model = compiled(CELL)
    data = trace(model)
    return {
        "Results": model.run(steps=3, dt=DT),
        "Fit": model.fit(data, FREE, "cell.V", dt=DT),
        "Fits": model.fit({"a": data, "b": data}, FREE, "cell.V", dt=DT),
        "Gradient": model.gradient({"cell.V": "sum"}, ["cell.tau"], steps=3, dt=DT),
        "Derivatives": model.jacobian(["cell.V"], ["cell.tau"], steps=3, dt=DT),
        "Verification": mdf_loop.verify(document_of(CELL), steps=3, dt=DT),
    }


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    return _objects()


@pytest.mark.parametrize(
    "kind", ["Results", "Fit", "Fits", "Gradient", "Derivatives", "Verification"]
)
def test_text_and_table(objects: dict[str, Any], kind: str) -> None:
    thing = objects[kind]
    assert type(thing).__name__ == kind
    text, table = repr(thing), thing._repr_html_()
    assert "cell" in text
    assert "array(" not in text
    assert "<table>" in table
    assert "cell" in table
    assert not re.search(r"(src|href)=", table)


def test_large_tables_are_cut() -> None:
    rows = [(f"<{k}>", "x") for k in range(MAX_ROWS + 2)]
    table = html_table("many", ("name", "value"), rows)
    assert table.count("<tr>") == MAX_ROWS + 2
    assert "... and 2 more" in table
    assert "&lt;0&gt;" in table
    assert short_text("x" * 100) == "x" * 40 + "..."
