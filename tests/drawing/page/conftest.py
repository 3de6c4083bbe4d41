"""Chromium for all tests of pages, with pages of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mdf_loop.drawing.page import Page
from mdf_loop.outline import outline
from tests.drawing.page.browser import Browser, Tab, chromium_path


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Browser]:
    """Start Chromium once for all tests, or skip them if this machine lacks it."""
    if chromium_path() is None:
        pytest.skip("no Chromium here: pages are not opened (Debian: apt install chromium)")
    chromium = Browser(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Callable[..., Tab]]:
    """Return a function that opens a model (path or document) or the text of a page in a tab."""
    tabs: list[Tab] = []

    def opener(model: Any, suffix: str = "", **options: Any) -> Tab:
        is_page = isinstance(model, str) and model.startswith("<!doctype")
        file = tmp_path / f"page{len(tabs)}.html"
        file.write_text(model if is_page else Page(outline(model)).html(), encoding="utf-8")
        tabs.append(Tab(browser, file.as_uri() + suffix, **options))
        return tabs[-1]

    yield opener
    for tab in tabs:
        tab.close()


def element_box(tab: Tab, selector: str) -> dict[str, float]:
    """Return x, y, width, height and centre of an element on the screen."""
    rectangle_text = tab.js(
        f"JSON.stringify(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )
    rectangle = json.loads(rectangle_text)
    return rectangle | {
        "midx": rectangle["x"] + rectangle["width"] / 2,
        "midy": rectangle["y"] + rectangle["height"] / 2,
    }


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder of models to draw."""
    return Path(__file__).parents[1] / "models"
