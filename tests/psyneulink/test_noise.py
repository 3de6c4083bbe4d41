"""Noisy models of PsyNeuLink: statistics compared with PsyNeuLink, numbers with modeci_mdf's engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop

DATA = Path(__file__).parent / "data" / "noisy"
EXPORTS = sorted(path.stem for path in DATA.glob("*.yaml"))
TRIALS = 20_000
SIGMAS = 5.0

UNKNOWN_TO_ENGINE = {"noisy_exponential", "noisy_ornstein_uhlenbeck"}
"""Exports with functions that modeci_mdf's engine does not have."""


RESET_EACH_TRIAL = {"DDM.DDM_DECISION_VARIABLE"}
"""Outputs that PsyNeuLink resets before each trial, unlike its export; only the first trial is compared."""

NOT_EXPORTED = {"DDM.DDM_RESPONSE_TIME"}
"""Outputs that PsyNeuLink counts in code that it does not export."""


def statistics(name: str) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return inputs, means and variances of outputs after each step, and the number of runs."""
    content = json.loads((DATA / f"{name}.statistics.json").read_text())
    return content["inputs"], content["outputs"], content["repeats"]


def test_there_are_ten_exports() -> None:
    assert len(EXPORTS) == 10
    assert set(EXPORTS) >= UNKNOWN_TO_ENGINE


@pytest.mark.parametrize("name", EXPORTS)
def test_statistics_equal_psyneulink(name: str) -> None:
    inputs, outputs, repeats = statistics(name)
    steps = len(next(iter(inputs.values())))
    model = mdf_loop.compile(DATA / f"{name}.yaml")
    results = model.run(inputs, steps=steps, trials=TRIALS, record=list(outputs), seed=1)
    for output, (means, variances) in outputs.items():
        if output in NOT_EXPORTED:
            continue
        compared = slice(1) if output in RESET_EACH_TRIAL else slice(None)
        ours = results[output].reshape(TRIALS, steps, -1)[:, compared, 0]
        spread = ours.std(axis=0)
        difference = np.abs(ours.mean(axis=0) - np.array(means)[compared])
        assert (difference <= SIGMAS * spread / np.sqrt(repeats) + 1e-9).all(), output
        fourth = ((ours - ours.mean(axis=0)) ** 4).mean(axis=0)
        deviation = np.sqrt(np.maximum(fourth - spread**4, 0) / repeats)
        assert (
            np.abs(spread**2 - np.array(variances)[compared]) <= SIGMAS * deviation + 1e-9
        ).all(), output


@pytest.mark.parametrize("name", [name for name in EXPORTS if name not in UNKNOWN_TO_ENGINE])
def test_the_engine_draws_the_same_numbers(name: str) -> None:
    inputs, _, _ = statistics(name)
    arrays = {port: np.array(rows) for port, rows in inputs.items()}
    steps = len(next(iter(arrays.values())))
    verification = mdf_loop.verify(DATA / f"{name}.yaml", arrays, steps=steps, seed=2)
    assert verification.equal, str(verification)
