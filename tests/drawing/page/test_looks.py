"""What pages look like, beside stored pictures of them that somebody has looked at.

Fonts and their edges differ from machine to machine, so tiles of 20 x 20 dots are compared by their mean
colours: text that moves by a dot changes little, a frame that is missing or has another colour much.
MDF_LOOP_GOLDEN=1 writes the pictures anew.
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
STORED = Path(__file__).parents[1] / "golden" / "pages"
NESTED = ROOT / "examples" / "nested_triangular" / "model.yaml"
TILE, ODD, SHARE = 20, 12.0, 0.03
"""Dots of a tile; by how many of 255 steps it may be off; which share of the tiles may be off by more."""


WIDE = """(() => {
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '20px ' + getComputedStyle(document.querySelector('#world text')).fontFamily;
  return pen.measureText('for step in range(M = 2000)').width;
})()"""
STORED_WIDE = 279.453125
"""How wide some text is, and was."""


def tiles(picture: bytes) -> np.ndarray:
    """The mean colours of the tiles of a PNG."""
    dots = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), float)
    high, wide = (length // TILE for length in dots.shape[:2])
    whole = dots[: high * TILE, : wide * TILE]
    return whole.reshape(high, TILE, wide, TILE, 3).mean(axis=(1, 3))


def share_off(picture: bytes, stored: np.ndarray) -> float:
    """Which share of the tiles looks different, of those in which anything is drawn in either."""
    made = tiles(picture)
    assert made.shape == stored.shape
    drawn = (_off(made, made[-1, -1]) > 1) | (_off(stored, stored[-1, -1]) > 1)
    return float((_off(made, stored) > ODD)[drawn].mean())


def _off(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.abs(left - right).max(axis=2)


def check(name: str, tab: Tab) -> None:
    """Hold what is seen against the stored picture; with other fonts boxes have other sizes."""
    wide = tab.js(WIDE)
    if abs(wide - STORED_WIDE) > 0.5:
        pytest.skip(f"the fonts here are not those of the stored pictures ({wide} points)")
    picture, file = tab.picture(), STORED / f"{name}.png"
    if os.environ.get("MDF_LOOP_GOLDEN"):
        STORED.mkdir(exist_ok=True)
        Image.fromarray(np.rint(tiles(picture)).astype(np.uint8)).save(file)
    stored = np.asarray(Image.open(file), float)
    assert share_off(picture, stored) <= SHARE


def test_loops_inside_loops(opened):
    check("nested", opened(NESTED))


def test_in_the_dark(opened):
    check("dark", opened(NESTED, media={"prefers_color_scheme": "dark"}))


def test_a_run_over_time(opened):
    model = mdf_loop.compile(ROOT / "examples" / "parameter_sweep" / "model.yaml", device="cpu")
    made = model.run({"current": 0.5}, steps=200, dt=0.1)
    check("replay", opened(made.draw().page.html()))


def test_another_picture_is_noticed(opened):
    """The comparison is one that can fail: a frame is folded, or its rows have another colour."""
    tab = opened(NESTED)
    stored = np.asarray(Image.open(STORED / "nested.png"), float)
    tab.js("[...document.querySelectorAll('.chip')].forEach(e => e.style.fill = '#c00')")
    tab.settled()
    assert share_off(tab.picture(), stored) > 2 * SHARE
    tab.go(f"{tab.js('location.href')}#")
    tab.js(
        "[...document.querySelectorAll('button')].find(b => b.textContent == 'Fold all').click()"
    )
    tab.settled()
    assert share_off(tab.picture(), stored) > 2 * SHARE
