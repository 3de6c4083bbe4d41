"""Runs that stop or crash and resume from a checkpoint equal unbroken runs, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from mdf_loop.errors import InputError
from mdf_loop.ir import StopReason
from tests.long_runs.helpers import Case, resumed, same_results, unbroken
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


def check(case: Case, seed: int, folder: Path) -> str:
    """Check that a resumed run equals the unbroken run."""
    unbroken_run = unbroken(case)
    results, interruptions = resumed(case, seed, folder / "run.checkpoint")
    same_results(results, unbroken_run)
    return "resumed" if interruptions.all else "in one"


def check_streamed(case: Case, seed: int, folder: Path) -> str:
    """Check that a resumed run with rows on disk equals the unbroken run."""
    unbroken_run = unbroken(case)
    streamed = {"output": folder / "rows.zarr", "overwrite": True}
    streamed_case = replace(case, arguments={**case.arguments, **streamed})
    results, interruptions = resumed(streamed_case, seed, folder / "run.checkpoint")
    same_results(results, unbroken_run)
    return "resumed" if interruptions.all else "in one"


@pytest.mark.soak
@pytest.mark.parametrize("name", MODELS)
def test_a_model_over_time(name: str, tmp_path: Path) -> None:
    cases = enumerate(with_each_argument(*MODELS[name], 12))
    outcomes = Counter(check(case, seed, tmp_path) for seed, case in cases)
    assert outcomes["resumed"] >= 2, outcomes


@pytest.mark.soak
@pytest.mark.parametrize("name", MODELS)
def test_a_model_over_time_that_is_streamed(name: str, tmp_path: Path) -> None:
    cases = enumerate(with_each_argument(*MODELS[name], 24))
    outcomes = Counter(check_streamed(case, seed, tmp_path) for seed, case in cases)
    assert outcomes["resumed"] >= 1, outcomes


@pytest.mark.soak
@pytest.mark.parametrize(("name", "dt"), some(product(shared_models(), [None, 0.001]), 18))
def test_a_shared_model_over_time(name: str, dt: float | None, tmp_path: Path) -> None:
    arguments = {"inputs": inputs_of(name), "dt": dt}
    cases = enumerate(with_each_argument(SHARED / name, arguments, 6))
    outcomes = Counter(check(case, seed, tmp_path) for seed, case in cases)
    assert outcomes["resumed"] >= outcomes.total() / 5, outcomes


@pytest.mark.soak
@pytest.mark.parametrize("name", some(shared_models(), 16))
def test_a_shared_model(name: str, tmp_path: Path) -> None:
    arguments = {"inputs": inputs_of(name)}
    full_case = whole_case(SHARED / name, arguments)
    over_time = whole_case(SHARED / name, {**arguments, "steps": 150, "dt": 0.001})
    assert full_case is not None
    assert over_time is not None
    check(full_case, 1, tmp_path)
    assert check(over_time, 1, tmp_path) == "resumed"
    assert check_streamed(over_time, 4, tmp_path) == "resumed"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(1, 1 + PARTS))
@pytest.mark.parametrize(("kind", "examples"), FAMILIES.items())
def test_random_programs(kind: str, examples: int, part: int, tmp_path: Path) -> None:
    law_for(kind, examples, tmp_path, part)


def law_for(kind: str, examples: int, folder: Path, part: int) -> None:
    """Check many programs, of which at most two thirds are refused and a minimum is resumed."""

    def law(case: Case, seed: int) -> str:
        streams = "steps" in case.arguments and seed % 3 == 0
        return (check_streamed if streams else check)(case, seed, folder)

    outcomes = for_each(family(kind), examples, law, part)
    print(kind, dict(outcomes))  # noqa: T201 - shown by pytest -s
    assert outcomes["refused"] <= examples * 2 / 3, outcomes
    assert outcomes["resumed"] >= (examples / 4 if "control" not in kind else 1), outcomes


@pytest.mark.soak
@pytest.mark.parametrize("name", ["widened after the first step", "without a state"])
def test_a_checkpoint_after_the_first_step(name: str, tmp_path: Path) -> None:
    """Check early checkpoints, with rows of a narrower dtype or without any state."""
    model, more = {"without a state": (WITHOUT_STATE, {}), **MODELS}[name]
    case = Case(model, {**more, "steps": 30})
    for seed in range(times(3, 8)):
        check(case, seed, tmp_path)
        check_streamed(case, seed, tmp_path)


WITHOUT_STATE = {"g": {"nodes": {"A": {"output_ports": {"y": {"value": "3"}}}}}}


@pytest.mark.soak
def test_random_numbers_continue_after_resuming(tmp_path: Path) -> None:
    node = {
        "functions": {"r": {"function": "onnx::RandomNormal", "args": {"shape": [2]}}},
        "parameters": {"x": {"value": "x + r", "default_initial_value": [0.0, 0.0]}},
        "output_ports": {"y": {"value": "x"}},
    }
    for more in ({}, {"trials": 3}):
        case = Case({"g": {"nodes": {"A": node}}}, {"steps": 30, "seed": 5, **more})
        for seed in range(times(2, 4)):
            check(case, seed, tmp_path)
            check_streamed(case, seed, tmp_path)


def test_an_execution_order_that_the_checkpoint_lacks_is_refused(tmp_path: Path) -> None:
    compiled, file = Case(MODELS["scheduled"][0]).compiled(), tmp_path / "run.checkpoint"
    compiled.run(steps=5, checkpoint=file)
    with pytest.raises(InputError, match="of a run without execution_list"):
        compiled.run(steps=9, resume=file, execution_list=True)


@pytest.mark.soak
@pytest.mark.parametrize("output", some([None, "rows.zarr"], 2))
def test_time_limits_with_real_clock_and_chunks(output: str | None, tmp_path: Path) -> None:
    """Check that a run stopped by time limits equals the unbroken run, with real clock and chunks.

    The last call has no limit, since a slow machine would stop the run in each of its first steps.
    """
    model, options = MODELS["neuron"]
    arguments = {
        **options,
        "steps": times(10_000_000, 20_000_000),
        "every": 1000,
        "reduce": {"fn.v": ["mean", "max"]},
    }
    case = Case(model, arguments)
    stored = {} if output is None else {"output": tmp_path / output}
    file = tmp_path / "run.checkpoint"
    stops = []
    for limit in (0.05, 0.05, 0.05, None):
        results = case.compiled().run(
            **case.arguments, **stored, time_limit=limit, checkpoint=file, resume=file
        )
        stops.append(results.stopped_by)
        if results.stopped_by is not StopReason.TIME_LIMIT:
            break
    assert stops[0] is StopReason.TIME_LIMIT
    same_results(results, unbroken(case))
