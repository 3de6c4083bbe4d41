"""The program form for CUDA, run on the CPU: random programs equal the usual form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopError
from tests.long_runs.helpers import Case, same_results, unbroken
from tests.placements import written_for_cuda
from tests.soak import times
from tests.strategies.loops import graph, loops
from tests.strategies.members import noisy_loop
from tests.strategies.nested_control import blocks, document
from tests.strategies.run_cases import MODELS

SOME = settings(
    max_examples=times(10, 1000), suppress_health_check=list(HealthCheck), deadline=None
)
NUMBERS = st.integers(-5, 9)
STANDARD = {"native": "off"}


def results_or_place(source: Any, options: dict[str, Any]) -> mdf_loop.Results | str:
    """Return the results of a run, or the source location of its failure."""
    try:
        return unbroken(Case(source, options, STANDARD))
    except LoopError as error:
        return str(error.findings[0].where)


def same(source: Any, options: dict[str, Any]) -> None:
    expected = results_or_place(source, options)
    with written_for_cuda():
        optimized = results_or_place(source, options)
    if isinstance(expected, str) or isinstance(optimized, str):
        assert optimized == expected
    else:
        same_results(optimized, expected)


@SOME
@given(loops())
def test_loops(loop: dict[str, Any]) -> None:
    same(graph(loop), {})


@SOME
@given(blocks, NUMBERS, NUMBERS)
def test_nested_control_flow(block: Any, a: int, b: int) -> None:
    same(document(block), {"inputs": {"a": a, "b": b}})


@pytest.mark.parametrize("seed", range(times(6, 300)))
def test_loops_whose_members_stop_each_for_itself(seed: int) -> None:
    model, sweep = noisy_loop(seed)
    same(model, {"trials": (1, 7, 20)[seed % 3]} | ({"sweep": sweep} if sweep else {}))


@pytest.mark.parametrize("name", MODELS)
def test_models_over_time(name: str) -> None:
    source, options = MODELS[name]
    same(source, {"steps": 30, **options})
