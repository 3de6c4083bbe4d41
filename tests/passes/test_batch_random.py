"""Batching of random loops and whole models, compared with single runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.passes.batch_running import RUNS, assert_same
from tests.soak import times
from tests.strategies.loops import GIVEN, loops, opened

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@settings(max_examples=times(14, 1500), suppress_health_check=[HealthCheck.too_slow])
@given(loops(), st.sets(st.sampled_from(GIVEN), min_size=1), st.integers(0, 2**32 - 1))
def test_random_loops(loop: dict[str, object], expected_names: set[str], seed: int) -> None:
    program, arrays = opened(loop)
    names = expected_names & set(arrays)
    if not names:
        return
    rng = np.random.default_rng(seed)
    batched_feeds = {k: rng.uniform(-2, 2, (RUNS, *arrays[k].shape)) for k in sorted(names)}
    assert_same(program, {**arrays, **batched_feeds}, names)


@pytest.mark.parametrize("names", [{"a"}, {"x_0", "b"}])
def test_loops_without_a_condition(names: set[str]) -> None:
    loop = {
        "names": ("x", "y"),
        "initial": {"x": [0.5, -1.0, 2.0], "y": [0.5, -1.0, 2.0]},
        "updates": {"x": "x * a + y", "y": "numpy.where(x < b, y, x) + i"},
        "records": ["x", "i"],
        "limit": None,
        "trip_count": 4,
        "vector": True,
    }
    program, arrays = opened(loop)
    rng = np.random.default_rng(1)
    batched_feeds = {k: rng.uniform(-2, 2, (RUNS, *arrays[k].shape)) for k in sorted(names)}
    assert_same(program, {**arrays, **batched_feeds}, names, exact=True)
