"""Random condition trees on random graphs: the engine's order and numbers, or an error.

Every model runs for some evaluations in both engines, and no model differs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.over_time.schedules import Model, compare, decide_while_running, short_patience
from tests.soak import times
from tests.strategies.condition_trees import models, timed_models

pytestmark = [pytest.mark.slow, pytest.mark.soak]

STEPS, DT = 7, 0.125

_few = settings(max_examples=times(5, 400), suppress_health_check=list(HealthCheck))
_many = settings(_few, max_examples=times(15, 2000))


@pytest.fixture(autouse=True, scope="module")
def _short_patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        short_patience(patch)
        yield


@_many
@given(models())
def test_random_conditions(source: Model) -> None:
    compare(source, STEPS, DT)


@_few
@given(timed_models())
def test_random_conditions_on_absolute_time(source: Model) -> None:
    compare(source, STEPS, DT)


@_few
@given(st.one_of(models(), timed_models()))
def test_random_conditions_decided_while_running(source: Model) -> None:
    with pytest.MonkeyPatch.context() as patch:
        decide_while_running(patch)
        compare(source, STEPS, DT)
