"""Random models over time equal modeci_mdf's engine, or are refused for a listed reason.

`make soak` tests more models.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.over_time.law import judge
from tests.soak import times
from tests.strategies.models_over_time import Focus, Run, runs

pytestmark = [pytest.mark.slow, pytest.mark.soak]

EXAMPLES = times(8, 1300)
"""Models of each family."""

FAMILIES = {
    "one node of plain numbers": Focus(
        nodes=(1, 1), parameters=(1, 4), edges=(0, 0), kinds=("number",), depth=1
    ),
    "long formulas": Focus(nodes=(1, 1), parameters=(1, 2), edges=(0, 0), depth=3),
    "functions": Focus(nodes=(1, 1), parameters=(1, 3), functions=(2, 4), edges=(0, 1)),
    "lists and tables": Focus(nodes=(1, 2), edges=(0, 2), kinds=("list", "list", "table")),
    "edges forward": Focus(nodes=(2, 4), parameters=(0, 2), edges=(2, 6), back=False),
    "several edges into a node": Focus(nodes=(2, 2), parameters=(0, 1), edges=(3, 7), depth=1),
    "circles": Focus(nodes=(1, 3), parameters=(0, 2), functions=(0, 1), edges=(1, 5)),
    "everything": Focus(nodes=(2, 5), edges=(2, 7)),
}
MOSTLY = 0.75
"""Minimum fraction of models that both run, so that the test is meaningful."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_model_over_time(family: str) -> None:
    verdicts: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],  # making a large model smaller takes minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(runs(FAMILIES[family]))
    def law(run: Run) -> None:
        verdicts[judge(run)] += 1

    law()
    print(dict(verdicts))  # noqa: T201 - shown by pytest -s
    assert verdicts["equal"] >= MOSTLY * verdicts.total(), dict(verdicts)
