"""Random folded models: `n` iterations equal `n` runs of the flat model with feedback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from tests.folding.flat_graphs import run_to_bytes
from tests.strategies.flat_models import flat_models

pytestmark = pytest.mark.slow


def run_repeatedly(
    flat: dict[str, Any], carry: dict[str, list[str]], run_count: int
) -> list[np.ndarray]:
    """Run the flat model repeatedly, with carried outputs fed back, and return the last outputs."""
    compiled = mdf_loop.compile(flat, device="cpu")
    nodes = flat["flat"]["nodes"]
    inputs = {
        f"{name}.{port}": port_content["default_value"]
        for name, content in nodes.items()
        for port, port_content in content["input_ports"].items()
        if port_content
    }
    for _ in range(run_count):
        results = compiled.run(inputs)
        outputs = {name: results[name] for name in results}
        carried = {
            to: {**inputs, **outputs}[source]
            for source, destinations in carry.items()
            for to in destinations
        }
        inputs = {**inputs, **carried}
    return [outputs[name] for name in outputs]


@settings(max_examples=30)
@given(flat_models(), st.integers(1, 4))
def test_iterations_equal_repeated_runs(
    drawn: tuple[dict[str, Any], dict[str, list[str]]], rounds: int
) -> None:
    flat, carry = drawn
    folded_model = mdf_loop.fold(flat, list(flat["flat"]["nodes"]), carry, trip_count=rounds)
    results = mdf_loop.compile(folded_model, device="cpu").run()
    outputs = [results[name] for name in results]
    for loop_output, run_output in zip(outputs, run_repeatedly(flat, carry, rounds), strict=True):
        np.testing.assert_array_equal(loop_output, run_output)
    assert run_to_bytes(mdf_loop.unfold(folded_model, "loop")) == run_to_bytes(folded_model)
