"""Small models over time, and a comparison of their results."""

from __future__ import annotations

from typing import Any

import numpy as np

Model = dict[str, Any]


def graph(edges: dict[str, Any] | None = None, **nodes: Any) -> Model:
    return {"g": {"nodes": nodes, "edges": edges or {}}}


def edge(sender: str, out: str, receiver: str, port: str) -> dict[str, Any]:
    return {"sender": sender, "sender_port": out, "receiver": receiver, "receiver_port": port}


NEURON = graph(
    fn={
        "input_ports": {"I": {"default_value": 0.5}},
        "parameters": {
            "a": {"value": 0.7},
            "b": {"value": 0.8},
            "start": {"value": -1.0},
            "v": {"default_initial_value": "start", "time_derivative": "v - v*v*v/3 - w + I"},
            "w": {"default_initial_value": 0.0, "time_derivative": "(v + a - b*w) / 12.5"},
        },
        "output_ports": {"v": {"value": "v"}, "w": {"value": "w"}},
    }
)
"""FitzHugh-Nagumo: two states, an input, three plain parameters."""

PAIR = graph(
    {"e": edge("source", "y", "cell", "x"), "back": edge("cell", "v", "source", "x")},
    source={
        "input_ports": {"x": {"default_value": 0.0}, "drive": {"default_value": 1.0}},
        "parameters": {"gain": {"value": 0.5}, "n": {"value": "n + 1"}},
        "output_ports": {"y": {"value": "gain * n - 0.25 * x + drive"}},
    },
    cell={
        "input_ports": {"x": {}},
        "parameters": {
            "tau": {"value": 2.0},
            "v": {
                "default_initial_value": 0.0,
                "time_derivative": "(x - v) / tau",
                "conditions": {"spike": {"test": "v > 1.5", "value": -0.5}},
            },
        },
        "output_ports": {"v": {"value": "v"}, "rate": {"value": "v / tau"}},
    },
)
"""Two nodes, a counter, a reset and an edge back."""

ARRAYS = graph(
    net={
        "input_ports": {"I": {"shape": [3], "default_value": [0.0, 1.0, 2.0]}},
        "parameters": {
            "W": {"value": [[0.0, 0.5, 0.0], [-0.5, 0.0, 0.25], [1.0, 0.0, 0.0]]},
            "leak": {"value": 0.125},
            "r": {"default_initial_value": [1.0, 0.0, -1.0], "time_derivative": "drive - leak * r"},
            "drive": {"value": "W @ r + I"},
        },
        "output_ports": {"r": {"value": "r"}, "total": {"value": "r[0] + r[1] + r[2]"}},
    }
)
"""A small network: vectors and a matrix."""

SCHEDULED = graph(
    {"e": edge("fast", "n", "slow", "x")},
    fast={
        "parameters": {"n": {"value": "n + step"}, "step": {"value": 1}},
        "output_ports": {"n": {"value": "n"}},
    },
    slow={
        "input_ports": {"x": {}},
        "parameters": {"total": {"default_initial_value": 0, "value": "total + x"}},
        "output_ports": {"total": {"value": "total"}},
    },
)
SCHEDULED["g"]["conditions"] = {
    "node_specific": {
        "slow": {
            "type": "Threshold",
            "kwargs": {"dependency": "fast", "parameter": "n", "threshold": 4, "comparator": ">="},
        }
    },
    "termination": {"environment_state_update": {"type": "AfterNPasses", "kwargs": {"n": 1}}},
}
"""Node that runs once a parameter of another node has reached a threshold."""

ADDING = graph(
    add={
        "parameters": {
            "by": {"value": 1.0},
            "x": {"default_initial_value": 0.0, "value": "x + by"},
        },
        "output_ports": {"x": {"value": "x"}, "by": {"value": "by"}},
    }
)
"""Counter whose rows differ in all steps for different values of `by`."""

ALL = {"neuron": NEURON, "pair": PAIR, "arrays": ARRAYS, "scheduled": SCHEDULED}


def same(left: Any, right: Any) -> None:
    """Check that two runs have identical outputs, bit for bit."""
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        np.testing.assert_array_equal(left[name], right[name], err_msg=name, strict=True)
