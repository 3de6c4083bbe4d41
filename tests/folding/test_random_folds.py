"""Random sets of nodes, folded: n rounds are n runs of the flat model, fed back by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from tests.folding.flat_graphs import bits, graph, node

pytestmark = pytest.mark.slow

EXPRESSIONS = ("p + q", "p - 0.5 * q", "p * q / 4", "numpy.abs(p) - q", "q / 2 + 0 * p")


@st.composite
def flat_models(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Up to four nodes with two inputs each, edges forward, and a carry map."""
    count = draw(st.integers(1, 4))
    nodes = {
        f"N{k}": node("p q", **{f"y{k}": draw(st.sampled_from(EXPRESSIONS))}) for k in range(count)
    }
    edges, open_ports = [], []
    for k in range(count):
        for port in "pq":
            sender = draw(st.integers(-2, k - 1))
            if sender >= 0:
                edges.append(f"N{sender}.y{sender} -> N{k}.{port}")
            else:
                open_ports.append(f"N{k}.{port}")
    carry: dict[str, list[str]] = {}
    for destination in draw(st.lists(st.sampled_from(open_ports), unique=True)):
        other = [port for port in open_ports if port != destination]
        sources = [f"N{k}.y{k}" for k in range(count)] + other
        carry.setdefault(draw(st.sampled_from(sources)), []).append(destination)
    flat = graph(nodes, *edges, metadata={"outputs": [f"N{k}.y{k}" for k in range(count)]})
    feeds = {port: {"default_value": 0.25 * (k + 1)} for k, port in enumerate(open_ports)}
    for name, content in feeds.items():
        owner, port = name.split(".")
        flat["flat"]["nodes"][owner]["input_ports"][port] = content
    return flat, carry


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
