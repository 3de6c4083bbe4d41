"""Random sets of nodes, folded: n rounds are n runs of the flat model, fed back by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from tests.folding.flat_graphs import bits
from tests.strategies.flat_models import flat_models

pytestmark = pytest.mark.slow


def by_hand(flat: dict[str, Any], carry: dict[str, list[str]], rounds: int) -> list[np.ndarray]:
    """The outputs of the last of so many runs."""
    compiled = mdf_loop.compile(flat, device="cpu")
    nodes = flat["flat"]["nodes"]
    held = {
        f"{name}.{port}": held["default_value"]
        for name, content in nodes.items()
        for port, held in content["input_ports"].items()
        if held
    }
    for _ in range(rounds):
        results = compiled.run(held)
        made = {name: results[name] for name in results}
        new = {to: {**held, **made}[source] for source, all_to in carry.items() for to in all_to}
        held = {**held, **new}
    return [made[name] for name in made]


@settings(max_examples=30)
@given(flat_models(), st.integers(1, 4))
def test_rounds_are_runs(drawn: tuple[dict[str, Any], dict[str, list[str]]], rounds: int) -> None:
    flat, carry = drawn
    folded = mdf_loop.fold(flat, list(flat["flat"]["nodes"]), carry, trip_count=rounds)
    results = mdf_loop.compile(folded, device="cpu").run()
    made = [results[name] for name in results]
    for left, right in zip(made, by_hand(flat, carry, rounds), strict=True):
        np.testing.assert_array_equal(left, right)
    assert bits(mdf_loop.unfold(folded, "loop")) == bits(folded)
