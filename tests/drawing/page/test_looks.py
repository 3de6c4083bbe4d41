"""Screenshots of pages compared with stored pictures that somebody has inspected.

Fonts and their edges differ between machines, so tiles of 20 x 20 dots are compared by their mean colours.
Text that moves by a dot changes the mean little. A missing frame, or a frame in another colour, changes it
much. MDF_LOOP_GOLDEN=1 writes the pictures anew.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mdf_loop
from tests.drawing.page.browser import Tab

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
STORED_PICTURES = Path(__file__).parents[1] / "golden" / "pages"
NESTED = ROOT / "examples" / "nested_triangular" / "model.yaml"
TILE_SIZE, MAX_COLOUR_DIFFERENCE, MAX_DIFFERENT_PROPORTION = 20, 12.0, 0.03
"""Dots of a tile, tolerated colour difference of 255 steps, and tolerated proportion of different tiles."""


MEASURE_TEXT = """(() => {
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '20px ' + getComputedStyle(document.querySelector('#world text')).fontFamily;
  return pen.measureText('for step in range(M = 2000)').width;
})()"""
STORED_TEXT_WIDTH = 279.453125
"""Width of a text with the fonts of the stored pictures."""


def tiles(picture: bytes) -> np.ndarray:
    """Return the mean colours of the tiles of a PNG."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), float)
    rows, columns = (length // TILE_SIZE for length in pixels.shape[:2])
    full_tiles = pixels[: rows * TILE_SIZE, : columns * TILE_SIZE]
    return full_tiles.reshape(rows, TILE_SIZE, columns, TILE_SIZE, 3).mean(axis=(1, 3))


def different_proportion(picture: bytes, stored: np.ndarray) -> float:
    """Return the proportion of tiles that differ, among those in which anything is drawn."""
    picture_tiles = tiles(picture)
    assert picture_tiles.shape == stored.shape
    is_drawn = (_colour_differences(picture_tiles, picture_tiles[-1, -1]) > 1) | (
        _colour_differences(stored, stored[-1, -1]) > 1
    )
    return float(
        (_colour_differences(picture_tiles, stored) > MAX_COLOUR_DIFFERENCE)[is_drawn].mean()
    )


def _colour_differences(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.abs(left - right).max(axis=2)


def check(name: str, tab: Tab) -> None:
    """Compare a screenshot with the stored picture. Skip on machines with other fonts, which change sizes."""
    text_width = tab.js(MEASURE_TEXT)
    if abs(text_width - STORED_TEXT_WIDTH) > 0.5:
        pytest.skip(f"the fonts here are not those of the stored pictures ({text_width} points)")
    picture, file = tab.picture(), STORED_PICTURES / f"{name}.png"
    if os.environ.get("MDF_LOOP_GOLDEN"):
        STORED_PICTURES.mkdir(exist_ok=True)
        Image.fromarray(np.rint(tiles(picture)).astype(np.uint8)).save(file)
    stored = np.asarray(Image.open(file), float)
    assert different_proportion(picture, stored) <= MAX_DIFFERENT_PROPORTION


def test_nested_loops(opened):
    check("nested", opened(NESTED))


def test_dark_mode(opened):
    check("dark", opened(NESTED, media={"prefers_color_scheme": "dark"}))


def test_a_run_over_time(opened):
    model = mdf_loop.compile(ROOT / "examples" / "parameter_sweep" / "model.yaml", device="cpu")
    results = model.run({"current": 0.5}, steps=200, dt=0.1)
    check("replay", opened(results.draw().page.html()))


def test_different_pictures_are_detected(opened):
    """Check that the comparison fails for a folded frame and for rows in another colour."""
    tab = opened(NESTED)
    stored = np.asarray(Image.open(STORED_PICTURES / "nested.png"), float)
    tab.js("[...document.querySelectorAll('.chip')].forEach(e => e.style.fill = '#c00')")
    tab.settled()
    assert different_proportion(tab.picture(), stored) > 2 * MAX_DIFFERENT_PROPORTION
    tab.go(f"{tab.js('location.href')}#")
    tab.js(
        "[...document.querySelectorAll('button')].find(b => b.textContent == 'Fold all').click()"
    )
    tab.settled()
    assert different_proportion(tab.picture(), stored) > 2 * MAX_DIFFERENT_PROPORTION
