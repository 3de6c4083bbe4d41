"""Random ONNX models of loops, branches and scans equal ONNX Runtime in every execution mode.

The tests omit models for which ONNX Runtime divides by zero and ends the process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importing.round_trips import check
from tests.soak import times
from tests.strategies.onnx_models import random_model

pytestmark = [pytest.mark.slow, pytest.mark.soak]

SEEDS = (*range(times(16, 400)), 1163, 2033, 2173, 3533)
"""The last ones: rows of loops that do not run, as wide as a loop with a true condition says; and
a value that grows from an extent that another value has, too.
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_model_gives_what_onnxruntime_gives(seed: int, tmp_path: Path) -> None:
    model, inputs = random_model(seed)
    check(model, inputs, None, tmp_path)


def test_the_same_seed_gives_the_same_model() -> None:
    first, second = random_model(7)[0], random_model(7)[0]
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )
