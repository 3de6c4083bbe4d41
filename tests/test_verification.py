"""verify: three engines side by side; a difference is found and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.demo import DEMOS
from mdf_loop.verification import _compare

SHARED = Path(__file__).parents[2] / "shared" / "models"
WITHOUT_STATE = (
    *(
        "doc_sample.yaml",
        "ONNX/ab.yaml",
        "ONNX/abc.yaml",
        "ONNX/abc.json",
        "ONNX/abc_basic-mdf.yaml",
    ),
    *("ONNX/abcd.yaml", "MDF/ABCD.yaml", "MDF/Arrays.yaml", "MDF/Simple.yaml"),
)
WITH_STATE = ("MDF/States.yaml", "MDF/FN.mdf.json", "NeuroML/FN.mdf.yaml", "MDF/RNN/RNNs.yaml")
"""Their first evaluation, in which states have their initial values."""


@pytest.mark.parametrize("demo", DEMOS, ids=lambda d: d.name)
def test_demos_are_equal_in_all_engines(demo) -> None:
    verification = mdf_loop.verify(demo.path, demo.inputs)
    assert verification.equal, str(verification)
    assert {c.engine for c in verification.comparisons} == {"interpreter", "modeci_mdf"}


@pytest.mark.parametrize("name", [*WITHOUT_STATE, *WITH_STATE])
def test_shared_models_are_equal_in_all_engines(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared models are not here")
    inputs = {}
    if name.startswith("ONNX"):
        inputs["input"] = np.linspace(-1, 2, 6).reshape(2, 3)
    if "abc." in name:
        inputs["B_loop_count"] = 4
    verification = mdf_loop.verify(path, inputs)
    assert verification.equal, str(verification)
    assert any(c.engine == "modeci_mdf" for c in verification.comparisons), verification.notes


def test_float32_is_close() -> None:
    verification = mdf_loop.verify(DEMOS[2].path, DEMOS[2].inputs, precision="float32")
    assert verification.equal, str(verification)
    assert not all(c.max_abs == 0 for c in verification.comparisons)


@pytest.mark.parametrize(
    ("ours", "theirs", "equal"),
    [
        (1.0, 1.0 + 1e-15, True),
        (1.0, 1.0 + 1e-9, False),
        ([1.0, np.nan], [1.0, np.nan], True),
        ([1.0, np.nan], [1.0, 2.0], False),
        ([np.inf], [np.inf], True),
        ([np.inf], [-np.inf], False),
        (3, 3.0, True),
        (3.0, [3.0], True),
        ([[1.0, 2.0]], [[1.0], [2.0]], True),
        (np.ones((2, 3)), np.ones((3, 2)), False),
        ([1.0], [1.0, 1.0], False),
        ([], [], True),
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a"], [1.0], False),
    ],
)
def test_what_counts_as_equal(ours, theirs, equal: bool) -> None:
    comparison = _compare("A.y", "modeci_mdf", np.array(ours), np.array(theirs), 1e-12)
    assert comparison.equal is equal


def test_a_difference_is_shown() -> None:
    comparison = _compare("A.y", "modeci_mdf", np.array([1.0, 2.0]), np.array([1.0, 2.5]), 1e-12)
    verification = mdf_loop.Verification((comparison,), 1e-12)
    assert not verification.equal
    assert "DIFFERENT  A.y" in str(verification)
    assert "max abs 0.5, max rel 0.2" in str(verification)


def test_a_model_that_the_engine_cannot_run_is_compared_with_the_interpreter() -> None:
    graph = {
        "g": {
            "nodes": {
                "A": {
                    "parameters": {"b": {"value": "f * 2"}},
                    "functions": {"f": {"value": "1 + 2"}},
                    "output_ports": {"y": {"value": "b"}},
                }
            },
            "edges": {},
        }
    }
    verification = mdf_loop.verify(graph)
    assert verification.equal
    assert "engine cannot run this model" in verification.notes[0]


OVER_TIME = (("NeuroML/FN.mdf.yaml", 200, 5e-5), ("MDF/RNN/IAF_net.yaml", 60, 1e-3))


@pytest.mark.parametrize(("name", "steps", "dt"), OVER_TIME)
def test_models_over_time_are_equal(name: str, steps: int, dt: float) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared models are not here")
    verification = mdf_loop.verify(path, steps=steps, dt=dt)
    assert verification.equal, str(verification)
    assert {c.engine for c in verification.comparisons} == {"modeci_mdf"}
    assert all(c.max_abs == 0 for c in verification.comparisons)  # arithmetic only: bit for bit


def test_the_first_step_that_differs_is_named() -> None:
    ours = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    theirs = np.array([[1.0, 2.0], [3.0, 4.5], [5.5, 6.0]])
    comparison = _compare("A.y", "modeci_mdf", ours, theirs, 1e-12, over_time=True)
    assert comparison.first_step == 1
    assert str(comparison).endswith("max abs 0.5, max rel 0.111, first at step 1")


def test_a_few_last_bits_of_the_largest_value_are_rounding() -> None:
    ours = np.array([1.0, 1e-17])
    assert _compare("A.y", "modeci_mdf", ours, np.array([1.0, 0.0]), 1e-12).equal
    assert not _compare("A.y", "modeci_mdf", ours, np.array([1.0, 1e-12]), 1e-12).equal
