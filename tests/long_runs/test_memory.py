"""Peak memory of long runs: the requested arrays and a small overhead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.long_runs.processes import ENDLESS, WALK, peak_of, saved

pytestmark = pytest.mark.slow

FEW, MANY, LONG = 500_000, 10_000_000, 1_500_000
"""Numbers of steps; already the few come in chunks of 8 MB."""

MORE = 60.0
"""MB that a run may take besides the arrays that were asked for."""


def growth(model: Path, option: str, count: int, *words: Any, few: int = FEW) -> float:
    """Return the growth of the peak memory in MB from few to many steps."""
    least, most = (
        peak_of("run", model.name, "--device", "cpu", option, steps, *words, cwd=model.parent)
        for steps in (few, count)
    )
    return most - least


def size(count: int) -> float:
    """Return the size of `count` float64 numbers in MB."""
    return count * 8 / 1e6


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (MANY, ("--output", "rows.npz", "--dt", 0.001)),
        (MANY, ("--output", "rows.h5")),
        (LONG, ("--output", "rows.csv")),  # text files are slow and need large lists
        (LONG, ("--json",)),
    ],
)
def test_rows_in_memory(tmp_path, steps, words):
    assert growth(saved(tmp_path, WALK), "--steps", steps, *words) < size(steps) + MORE


def test_rows_that_are_streamed_and_reduced(tmp_path):
    """Check the memory beyond two million steps, where all buffers are full."""
    words = ("--output", "rows.zarr", "--overwrite", "--only", "walk.x")
    words += ("--reduce", "walk.x=mean,max")
    assert growth(saved(tmp_path, WALK), "--steps", MANY, *words, few=MANY // 5) < MORE / 2


def test_a_while_loop(tmp_path):
    """Check a loop that runs in a single call, where the runtime holds all rows and returns a copy."""
    count, words = MANY // 2, ("--output", "rows.npz")
    growth_mb = growth(saved(tmp_path, ENDLESS), "--max-iterations", count, *words)
    assert growth_mb < 2 * size(count) + MORE
