"""Random models over time: the same form has the same bits, and its forms agree."""

from __future__ import annotations

import pytest

from tests.random_models.models import random_model
from tests.random_models.verdicts import verdict
from tests.random_programs.verdicts import judge_programs
from tests.soak import times

PART = 10
"""Models of one test, so that tests can run beside each other."""


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
