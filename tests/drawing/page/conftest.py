"""A Chromium for all tests of pages, and pages of models in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mdf_loop.drawing.page import Page
from mdf_loop.outline import outline
from tests.drawing.page.browser import Browser, Tab, program


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Browser]:
    """One Chromium, if this machine has it."""
    if program() is None:
        pytest.skip("no Chromium here: pages are not opened (Debian: apt install chromium)")
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Callable[..., Tab]]:
    """`opened(model)`: its page in a tab; a path, a document, or the text of a page."""
    tabs: list[Tab] = []

    def opener(model: Any, behind: str = "", **options: Any) -> Tab:
        is_page = isinstance(model, str) and model.startswith("<!doctype")
        file = tmp_path / f"page{len(tabs)}.html"
        file.write_text(model if is_page else Page(outline(model)).html(), encoding="utf-8")
        tabs.append(Tab(browser, file.as_uri() + behind, **options))
        return tabs[-1]

    yield opener
    for tab in tabs:
        tab.close()


def place(tab: Tab, selector: str) -> dict[str, float]:
    """Where an element is seen: x, y, width, height, and its middle."""
    found = tab.js(
        f"JSON.stringify(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )
    at = json.loads(found)
    return at | {"midx": at["x"] + at["width"] / 2, "midy": at["y"] + at["height"] / 2}


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of models to draw."""
    return Path(__file__).parents[1] / "models"
