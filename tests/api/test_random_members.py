"""Random noisy loops: members of a sweep equal single runs on every engine, whole and in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from tests.long_runs.helpers import Case, chunked, resumed, same_results, unbroken
from tests.run.segment_running import same_bits
from tests.soak import times
from tests.strategies.members import noisy_loop

SEEDS = times(12, 2000)


def run_alone(compiled: Any, sweep: dict[str, Any], member: int, trial: int) -> Any:
    """Run one member in one trial with the interpreter."""
    member_inputs = {name: values[member] for name, values in sweep.items()}
    return compiled.run(member_inputs, trials=[trial], engine="interpreter")


def assert_equals_single_runs(
    compiled: Any, sweep: dict[str, Any], results: Any, trials: range
) -> None:
    """Check some members of a run against single runs."""
    for member in range(3 if sweep else 1):
        for place in (0, len(trials) - 1):
            one = run_alone(compiled, sweep, member, trials[place])
            at = (member, place) if sweep else (place,)
            for name, array in results.items():
                expected, own = one[name][0], array[at]
                if name in results.lengths:
                    count = results.lengths[name][at]
                    own = own[: count if np.ndim(count) == 0 else count[0]].astype(expected.dtype)
                same_bits(own, expected, name)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5))
def test_random_noisy_loops(part: int) -> None:
    for seed in range(part, SEEDS, 5):
        model, sweep = noisy_loop(seed)
        trials = range(seed % 3, seed % 3 + 7)
        words: dict[str, Any] = {"trials": trials} | ({"sweep": sweep} if sweep else {})
        case = Case(model, words, {"native": "off" if seed % 2 else "auto"})
        compiled = case.compiled()
        results = unbroken(case, compiled)
        assert_equals_single_runs(compiled, sweep, results, trials)
        same_results(chunked(case, seed, compiled)[0], results)
        interpreted = compiled.run(**words, engine="interpreter")
        for name in results:
            same_bits(interpreted[name], results[name], name)
        assert interpreted.loops == results.loops


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(0, times(4, 100)))
def test_random_noisy_loops_resumed(seed: int, tmp_path: Any) -> None:
    model, sweep = noisy_loop(seed)
    words = {"trials": 5} | ({"sweep": sweep} if sweep else {})
    case = Case(model, words, {"native": "off" if seed % 2 else "auto"})
    same_results(resumed(case, seed, tmp_path / "run.ckpt")[0], unbroken(case))


@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_trials_and_their_prefixes(seed: int) -> None:
    model, _ = noisy_loop(seed)
    compiled = mdf_loop.compile(model, device="cpu", native="off" if seed == 1 else "auto")
    all_trials = compiled.run(trials=10_000)
    for size in (1, 7):
        part = compiled.run(trials=size)
        for name, array in part.items():
            if name not in part.lengths:
                same_bits(array, all_trials[name][:size], name)
