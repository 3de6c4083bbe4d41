"""Random flat models that can be folded, with their carry maps."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.folding.flat_graphs import graph, node

EXPRESSIONS = ("p + q", "p - 0.5 * q", "p * q / 4", "numpy.abs(p) - q", "q / 2 + 0 * p")


@st.composite
def flat_models(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Draw up to four nodes with two inputs each, forward edges, and a carry map."""
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
