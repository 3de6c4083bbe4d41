"""Runs in chunks of any lengths equal unbroken runs, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from tests.long_runs.helpers import Case, chunked, same_results, unbroken
from tests.soak import some, times
from tests.strategies.run_cases import (
    FAMILIES,
    MODELS,
    PARTS,
    SHARED,
    family,
    few_passes,
    for_each,
    inputs_of,
    shared_models,
    whole_case,
    with_each_argument,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _few_passes() -> Iterator[None]:
    with few_passes():
        yield


def check(case: Case, *seeds: int) -> str:
    """Check that chunked runs of the case equal the unbroken run."""
    compiled = case.compiled()
    unbroken_run = unbroken(case, compiled)
    ways = [chunked(case, seed, compiled) for seed in seeds]
    for chunked_results, _ in ways:
        same_results(chunked_results, unbroken_run)
    return "in chunks" if max(count for _, count in ways) > 2 else "in one"


@pytest.mark.soak
@pytest.mark.parametrize("name", MODELS)
def test_a_model_over_time(name: str) -> None:
    outcomes = Counter(check(case, 1, 2, 3) for case in with_each_argument(*MODELS[name], 2))
    assert outcomes["in chunks"] >= times(5, 8), outcomes


@pytest.mark.soak
@pytest.mark.parametrize(("name", "dt"), some(product(shared_models(), [None, 0.001]), 18))
def test_a_shared_model_over_time(name: str, dt: float | None) -> None:
    arguments = {"inputs": inputs_of(name), "dt": dt}
    outcomes = Counter(
        check(case, 1, 2) for case in with_each_argument(SHARED / name, arguments, 4)
    )
    assert outcomes["in chunks"] >= outcomes.total() / 4, outcomes


@pytest.mark.soak
@pytest.mark.parametrize("name", some(shared_models(), 10))
def test_a_shared_model(name: str) -> None:
    arguments = {"inputs": inputs_of(name)}
    full_case = whole_case(SHARED / name, arguments)
    over_time = whole_case(SHARED / name, {**arguments, "steps": 150, "dt": 0.001})
    assert full_case is not None
    assert over_time is not None
    check(full_case, 1, 2, 3)
    assert check(over_time, 4, 5) == "in chunks"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(1, 1 + PARTS))
@pytest.mark.parametrize(("kind", "examples"), FAMILIES.items())
def test_random_programs(kind: str, examples: int, part: int) -> None:
    law_for(kind, examples, part)


def law_for(kind: str, examples: int, part: int) -> None:
    """Check many programs, of which at most two thirds are refused and a minimum runs in chunks."""
    outcomes = for_each(family(kind), examples, check, part)
    print(kind, dict(outcomes))  # noqa: T201 - shown by pytest -s
    assert outcomes["refused"] <= examples * 2 / 3, outcomes
    assert outcomes["in chunks"] >= (examples / 4 if "control" not in kind else 1), outcomes
