"""Counts of trials and points beyond any memory are refused before an allocation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, MemoryLimitError
from mdf_loop.reading.streams import Streams
from mdf_loop.sweeps import generate_sobol_points
from mdf_loop.trials import checked_draws

NODE: dict[str, Any] = {
    "parameters": {
        "a": {"value": 0.5},
        "v": {
            "default_initial_value": 0.1,
            "value": "v * a + numpy.random.normal(0.0, 1.0)",
        },
    },
    "output_ports": {"v": {"value": "v"}},
}
OVER_TIME = {"g": {"nodes": {"n": NODE}}}
ONCE = {
    "g": {
        "nodes": {
            "n": {
                "parameters": {"a": {"value": 0.5}},
                "output_ports": {"v": {"value": "a * numpy.random.normal(0.0, 1.0)"}},
            }
        }
    }
}


@pytest.mark.parametrize("trials", [2**40, range(2**40), range(2**39, 0, -1), range(0, 2**40, 3)])
@pytest.mark.parametrize(
    ("source", "others"),
    [
        (ONCE, {}),
        (OVER_TIME, {"steps": 3}),
        (ONCE, {"sweep": {"n.a": [0.1, 0.2]}}),
        (OVER_TIME, {"steps": 3, "sweep": {"n.a": [0.1, 0.2]}}),
        (OVER_TIME, {"steps": 3, "memory_limit": "1GB"}),
    ],
)
def test_trials_that_are_kept(source: Any, others: dict[str, Any], trials: Any) -> None:
    compiled = mdf_loop.compile(source, device="cpu")
    with pytest.raises(MemoryLimitError, match=r"runs would take .* TB of memory"):
        compiled.run(trials=trials, progress=False, **others)


def test_the_keys_of_members_with_seeds_of_their_own() -> None:
    with pytest.raises(MemoryLimitError, match="random numbers of 8589934592 runs"):
        Streams((1, 2), range(2**32)).keys(("a", "b"), 2)
    assert Streams(1, range(4)).keys(("a", "b"), 3).shape == (12, 2)
    np.testing.assert_array_equal(Streams(1, range(2)).repeat_for_trials(np.eye(2))[:2, 0], [1, 1])


def test_ranges_are_checked_without_a_walk_through_them() -> None:
    assert checked_draws(0, range(2**40)).trials == range(2**40)
    for wrong in (range(0), range(-1, 2**40), range(2**41), range(2**70), [3, 3]):
        with pytest.raises(InputError, match="trials must be how many there are"):
            checked_draws(0, wrong)


def test_points() -> None:
    with pytest.raises(MemoryLimitError, match=r"1000000000000 points of 2 numbers would take"):
        generate_sobol_points(10**12, 2, 0)
    with pytest.raises(MemoryLimitError, match=r"1000000000000 points of 1 numbers would take"):
        generate_sobol_points(10**12, 1, 0, first=5)
    with pytest.raises((InputError, MemoryLimitError)):
        generate_sobol_points(2**31, 1, 0)
    assert generate_sobol_points(5, 2, 0).shape == (5, 2)


def test_points_of_a_fit() -> None:
    decay = {
        "g": {
            "nodes": {
                "n": {
                    "parameters": {"a": {"value": 1.0}},
                    "output_ports": {"y": {"value": "2.0 * a"}},
                }
            }
        }
    }
    compiled = mdf_loop.compile(decay, device="cpu")
    with pytest.raises(MemoryLimitError, match=r"1000000000000 points of 1 numbers would take"):
        compiled.fit({"n.y": [1.0]}, {"n.a": (0.0, 3.0)}, "n.y", points=10**12)
