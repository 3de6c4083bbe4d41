"""Random models over time: each form is reproducible bit by bit, and all forms agree."""

from __future__ import annotations

import pytest

from tests.random_models.models import random_model
from tests.random_models.verdicts import verdict
from tests.random_programs.verdicts import judge_programs
from tests.soak import times

PART = 10
"""Number of models in one test, small enough to run the tests in parallel."""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.native
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(times(2, 50)))
def test_all_forms_and_ways_agree(part: int) -> None:
    tally = judge_programs(random_model, part * PART, times(3, PART), verdict)
    assert tally.failures == []
    assert tally.counts["amplified"] + tally.counts["refused"] <= times(0, 1)
    assert tally.counts["native"] > 0
