"""Models to draw, and golden texts. `UPDATE_GOLDEN=1 pytest tests/drawing` writes the golden files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder of models to draw."""
    return HERE / "models"


@pytest.fixture(scope="session")
def golden() -> Callable[[str, str], None]:
    """Return a function `golden(name, text)` that compares a text with the stored file."""

    def compare(name: str, text: str) -> None:
        file = HERE / "golden" / name
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"no {file}: run with UPDATE_GOLDEN=1 and look at what it wrote"
        assert text == file.read_text(encoding="utf-8")

    return compare
