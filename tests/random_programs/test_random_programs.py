"""Random programs: machine code, ONNX Runtime, the interpreter and the saved file agree."""

from __future__ import annotations

import pytest

from tests.random_programs.run import KINDS
from tests.random_programs.verdicts import judge_programs
from tests.soak import times


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_all_forms_agree(kind: str) -> None:
    tally = judge_programs(KINDS[kind], 0, times(20, 10_000))
    assert tally.failures == []
    assert tally.counts["amplified"] <= 0.05 * tally.counts["programs"]
    assert tally.counts["native loops"] > tally.counts["standard loops"] > 0
