"""Loops that are machine code in the first evaluation of a run over time, but not in later evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.native.loop_decisions import NATIVE, STANDARD_FOR_LITTLE_WORK
from mdf_loop.run.time_stepper import TimeStepper

BODY = {
    "b": {
        "metadata": {"inputs": ["i", "go", "c"], "outputs": ["on", "d"]},
        "nodes": {
            "n": {
                "input_ports": {"c": {}, "go": {}},
                "output_ports": {"on": {"value": "go"}, "d": {"value": "0.5 * c + 1.0"}},
            }
        },
    }
}


def uneven() -> mdf_loop.CompiledModel:
    """Return a loop over a large array whose members have unequal counts after the first evaluation."""
    node: dict[str, Any] = {
        "functions": {
            "f": {"function": "onnx::Loop", "args": {"M": "k", "v_initial": "w", "body": BODY}}
        },
        "parameters": {
            "g": {"value": 1},
            "w": {"value": [1.0] * 3000},
            "k": {"default_initial_value": 40, "value": "k + g"},
        },
        "output_ports": {"y": {"value": "numpy.sum(f)"}},
    }
    graph = {"nodes": {"N": node}}
    return mdf_loop.compile({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": graph}}})


SWEEP = {"N.g": [0, 1, 2]}


def test_a_run_whose_loop_is_native_at_first() -> None:
    results = uneven().run(sweep=SWEEP, steps=6)
    expected = uneven().run(sweep=SWEEP, steps=6, engine="interpreter")
    np.testing.assert_allclose(results["y"], expected["y"], rtol=1e-12)


def stopped_after(count: int, model: mdf_loop.CompiledModel, file: Path) -> mdf_loop.Results:
    """Run a few steps and write a checkpoint of them."""
    return model.run(
        sweep=SWEEP,
        steps=6,
        checkpoint=file,
        checkpoint_every=1e-9,
        progress=lambda progress: progress.done < count,
        on_interrupt="return",
    )


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_run_goes_on_from_a_checkpoint(count: int, tmp_path: Path) -> None:
    file = tmp_path / "run.checkpoint"
    assert stopped_after(count, uneven(), file).checkpoint
    results = uneven().run(sweep=SWEEP, steps=6, resume=file)
    np.testing.assert_array_equal(results["y"], uneven().run(sweep=SWEEP, steps=6)["y"])
    assert results.native["N.f"] != NATIVE


def test_a_loop_that_was_native_must_stay_native() -> None:
    stepper = object.__new__(TimeStepper)
    stepper.native, stepper._later_execution_modes = {}, {}
    stepper._check_execution_modes({"N.f": NATIVE})
    stepper._check_execution_modes({"N.f": STANDARD_FOR_LITTLE_WORK})
    stepper._check_execution_modes({"N.f": NATIVE})
    with pytest.raises(InputError, match=r"'N\.f' was native in the run that goes on"):
        stepper._check_execution_modes({"N.f": "standard: a reason"})
