"""The loops that the benchmarks compare with compute what the models say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DT = 0.01


@pytest.fixture(scope="module")
def numpy_loops():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import numpy_loops
    finally:
        sys.path.remove(str(BENCHMARKS))
    return numpy_loops


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("models/*.yaml")), ids=lambda p: p.stem)
def test_a_loop_written_by_hand_gives_what_the_model_gives(numpy_loops, path: Path) -> None:
    dt = DT / 1000 if path.stem in ("FN", "HH") else DT
    given = numpy_loops.parameters(yaml.safe_load(path.read_text(encoding="utf-8")))
    by_hand = numpy_loops.LOOPS[path.stem](given, 50, dt)
    ours = mdf_loop.compile(path, device="cpu").run(steps=50, dt=dt)
    assert set(ours) == set(by_hand)
    for name, array in ours.items():
        assert (array.dtype, array.shape) == (by_hand[name].dtype, by_hand[name].shape)
        np.testing.assert_allclose(array, by_hand[name], rtol=1e-12, atol=1e-15)


def test_every_model_has_its_loop(numpy_loops) -> None:
    assert sorted(numpy_loops.LOOPS) == sorted(p.stem for p in BENCHMARKS.glob("models/*.yaml"))
