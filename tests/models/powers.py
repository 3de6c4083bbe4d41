"""Build a loop that multiplies by a weight five times, plain or with a constant in place of one value."""

from __future__ import annotations

from typing import Any


def power(nodes: dict[str, Any], edges: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build a model of `s = 1; 5 times: s = w * s` with these body nodes."""
    body = {
        "step": {
            "metadata": {"inputs": ["i", "go_in", "s"], "outputs": ["go", "s_next"]},
            "nodes": nodes,
            "edges": edges or {},
        }
    }
    node = {
        "parameters": {"w": {"value": 2.0}, "one": {"value": 1.0}},
        "functions": {
            "loop": {
                "function": "onnx::Loop",
                "args": {"M": 5, "v_initial": "(one,)", "body": body},
            }
        },
        "output_ports": {"s": {"value": "loop[0]"}},
    }
    return {"graph": {"nodes": {"n": node}}}


PLAIN = power(
    {
        "b": {
            "input_ports": {"s": {}, "w": {}},
            "output_ports": {"s_next": {"value": "w*s"}, "go": {"value": "True"}},
        }
    }
)
CUT = power(
    {
        "cut": {"input_ports": {"s": {}}, "output_ports": {"y": {"value": "s"}}},
        "b": {
            "input_ports": {"s": {}, "w": {}, "c": {}, "i": {}},
            "output_ports": {
                "s_next": {"value": "w*(c if i == 2 else s)"},
                "go": {"value": "True"},
            },
        },
    },
    {"e": {"sender": "cut", "sender_port": "y", "receiver": "b", "receiver_port": "c"}},
)
