"""What was not used for longest goes when there are too many."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import mdf_loop
from mdf_loop.api.prepared import SESSIONS
from mdf_loop.memory_limit import resident
from mdf_loop.recent import Recent


def test_the_one_not_used_for_longest_goes() -> None:
    kept: Recent[int] = Recent(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    kept.put("a", 4)
    assert len(kept) == 2
    assert [kept.get(key) for key in "abc"] == [4, None, 3]


@pytest.mark.slow
def test_memory_is_flat_over_many_shapes() -> None:
    node = {"input_ports": {"x": {"shape": [-1]}}, "output_ports": {"y": {"value": "2 * x + 1"}}}
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}}, device="cpu")

    def run(first: int, last: int) -> int:
        for extent in range(first, last):
            made = compiled.run({"x": np.ones(extent)})["A.y"]
            assert made.shape == (extent,)
        gc.collect()
        return resident()

    before = run(1, 80)  # more than are kept, and what is done once
    after = run(80, 230)
    assert after - before < 150 * 4e4  # each session is 110 kB
    assert len(compiled.prepared._evaluations) == SESSIONS
