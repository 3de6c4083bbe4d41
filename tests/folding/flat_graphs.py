"""Builders of small flat graphs, and helpers that run a model and return comparable outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import mdf_loop


def node(inputs: str = "", **outputs: str) -> dict[str, Any]:
    """Return a node with these open input ports, and with outputs that are expressions."""
    return {
        "input_ports": {name: {} for name in inputs.split()},
        "output_ports": {name: {"value": value} for name, value in outputs.items()},
    }


def graph(nodes: Mapping[str, Any], *edges: str, **sections: Any) -> dict[str, Any]:
    """Return a graph with these nodes and with edges that are written as `A.y -> B.x`."""
    edge_contents = {}
    for edge in edges:
        (sender, sender_port), (receiver, receiver_port) = (
            end.split(".") for end in edge.split(" -> ")
        )
        edge_contents[edge.replace(" -> ", "_to_").replace(".", "_")] = {
            "sender": sender,
            "sender_port": sender_port,
            "receiver": receiver,
            "receiver_port": receiver_port,
        }
    return {"flat": {"nodes": dict(nodes), "edges": edge_contents, **sections}}


def run_to_lists(model: Any, **inputs: Any) -> dict[str, Any]:
    """Run a model and return its outputs by port id, as Python numbers and lists."""
    results = mdf_loop.compile(model, device="cpu").run(inputs)
    return {name.split(".")[-1]: np.asarray(results[name]).tolist() for name in results}


def run_to_bytes(model: Any, **inputs: Any) -> dict[str, Any]:
    """Run a model and return its outputs by `node.port`, as dtype, shape and bytes.

    Native loops are off, so that ONNX Runtime computes the loop and its unfolded form alike.
    """
    results = mdf_loop.compile(model, native="off").run(inputs)
    arrays = {name: np.asarray(results[name]) for name in results}
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}


def loop_of(model: Any, node_id: str = "loop") -> Any:
    """Return the loop function of a folded model."""
    (loop_node,) = (n for n in model.graphs[0].nodes if n.id == node_id)
    return next(f for f in loop_node.functions if f.function == "onnx::Loop")


def body_of(model: Any, node_id: str = "loop") -> dict[str, Any]:
    """Return the loop body of a folded model."""
    (body,) = loop_of(model, node_id).args["body"].values()
    return body
