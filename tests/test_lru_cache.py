"""The cache evicts the least recently used entry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mdf_loop.api.prepared import MAX_CACHED_SESSIONS
from mdf_loop.lru_cache import LRUCache


def test_the_least_recently_used_entry_is_evicted() -> None:
    cache: LRUCache[int] = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    cache.put("a", 4)
    assert len(cache) == 2
    assert [cache.get(key) for key in "abc"] == [4, None, 3]


GROWTH_SCRIPT = """
import gc
import numpy as np
import mdf_loop
from mdf_loop.memory_limit import resident_bytes

node = {"input_ports": {"x": {"shape": [-1]}}, "output_ports": {"y": {"value": "2 * x + 1"}}}
compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}}, device="cpu")

def run(first, last):
    for extent in range(first, last):
        assert compiled.run({"x": np.ones(extent)})["A.y"].shape == (extent,)
    gc.collect()
    return resident_bytes()

before = run(1, 80)  # more shapes than cached sessions; includes one-time allocations
print(run(80, 230) - before, len(compiled.prepared._evaluations))
"""
"""Script for a new process, because memory of earlier tests would distort the growth."""


@pytest.mark.slow
def test_memory_is_flat_over_many_shapes() -> None:
    process = subprocess.run(
        [sys.executable, "-c", GROWTH_SCRIPT], capture_output=True, text=True, check=True
    )
    growth, entries = map(int, process.stdout.split())
    assert growth < 150 * 2e4  # each session is 110 kB
    assert entries == MAX_CACHED_SESSIONS
