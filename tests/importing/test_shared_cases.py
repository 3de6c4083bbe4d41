"""Stored loop cases with known results: imported, written as YAML, compiled, run and exported again.

The cases lie beside the checkout of developers and CI. Without them these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from tests.models.stored_cases import CASES, imported, runs, stored, value

NOT_IN_THE_FILE = {"iter_value_first"}
"""OpenVINO's API was asked for the value of the first iteration, but its file cannot say so."""


def assert_same(arrays: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, list):
        assert len(arrays) == len(expected)
        for ours, theirs in zip(arrays, expected, strict=True):
            assert_same(ours, theirs, tolerance)
        return
    arrays = np.asarray(arrays)
    same_dtype = arrays.dtype == expected.dtype or {arrays.dtype.kind, expected.dtype.kind} <= {
        *"OUT"
    }
    assert same_dtype, (arrays.dtype, expected.dtype)
    assert arrays.shape == expected.shape
    if expected.dtype.kind in "fV":
        pair = (np.asarray(a, np.float64) for a in (arrays, expected))
        np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance / 100)
    else:
        np.testing.assert_array_equal(arrays, expected)


def assert_near(array: Any, expected: Any) -> None:
    """Check float32 outputs relative to the largest number, because terms may cancel."""
    if getattr(array, "dtype", None) != np.float32 or array.shape != expected.shape:
        assert_same(array, expected, 1e-6)
        return
    finite = np.abs(expected)[np.isfinite(expected)]
    largest = float(np.max(finite, initial=0.0))
    np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-6 * largest, strict=True)


@pytest.mark.slow
@pytest.mark.skipif(not CASES.exists(), reason="the stored cases are not here")
@pytest.mark.parametrize("path", stored(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_stored_case_gives_the_expected_result(path: Path, tmp_path: Path) -> None:
    case = json.loads(path.read_text())
    tolerance = max(case.get("tol", 1e-5), case.get("rtol", 0.0))
    for run in runs(case):
        inputs = {name: value(stored) for name, stored in run["inputs"].items()}
        if isinstance(run["expected"], dict):
            with pytest.raises(mdf_loop.LoopError):
                imported(path, tmp_path).run(inputs)
            continue
        section = "observed" if path.stem in NOT_IN_THE_FILE else "expected"
        expected = [value(stored) for stored in run[section]]
        compiled = imported(path, tmp_path)
        results = list(compiled.run(inputs).values())
        assert len(results) == len(expected)
        for ours, theirs in zip(results, expected, strict=True):
            assert_same(ours, theirs, tolerance)
        exported_gives_the_same(compiled, inputs, results)


def exported_gives_the_same(compiled: mdf_loop.CompiledModel, inputs: Any, results: Any) -> None:
    """Check the exported file: its outputs in ONNX Runtime, and a second export after its import."""
    proto = compiled.to_onnx(inputs)
    onnx.checker.check_model(proto, full_check=True)
    types = [
        entry.type.tensor_type.elem_type for entry in (*proto.graph.input, *proto.graph.output)
    ]
    if 16 not in types:  # ONNX Runtime has no bfloat16 in Python
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        names = {entry.name for entry in session.get_inputs()}
        outputs = session.run(
            None, {name: array for name, array in inputs.items() if name in names}
        )
        for theirs, ours in zip(outputs, results, strict=True):
            assert_near(theirs, ours)
        standard = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu", native="off").run(
            inputs
        )
        for theirs, ours in zip(outputs, standard.values(), strict=True):
            assert_same(theirs, ours, 1e-6)
    repeated = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").to_onnx(inputs)
    assert repeated.SerializeToString(deterministic=True) == proto.SerializeToString(
        deterministic=True
    )
