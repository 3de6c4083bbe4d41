"""Flat graphs in a few lines, and what they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import mdf_loop


def node(inputs: str = "", **outputs: str) -> dict[str, Any]:
    """A node with these open ports; an output is an expression."""
    return {
        "input_ports": {name: {} for name in inputs.split()},
        "output_ports": {name: {"value": value} for name, value in outputs.items()},
    }


def graph(nodes: Mapping[str, Any], *edges: str, **more: Any) -> dict[str, Any]:
    """A graph; an edge is `A.y -> B.x`."""
    written = {}
    for edge in edges:
        (sender, sent), (receiver, received) = (end.split(".") for end in edge.split(" -> "))
        written[edge.replace(" -> ", "_to_").replace(".", "_")] = {
            "sender": sender,
            "sender_port": sent,
            "receiver": receiver,
            "receiver_port": received,
        }
    return {"flat": {"nodes": dict(nodes), "edges": written, **more}}


def ran(model: Any, **inputs: Any) -> dict[str, Any]:
    """The outputs by port, as plain numbers and lists."""
    results = mdf_loop.compile(model, device="cpu").run(inputs)
    return {name.split(".")[-1]: np.asarray(results[name]).tolist() for name in results}


def bits(model: Any, **inputs: Any) -> dict[str, Any]:
    """The outputs by `node.port`, as dtype, shape and bytes; ONNX Runtime has its own in a loop and out of it."""
    results = mdf_loop.compile(model, native="off").run(inputs)
    arrays = {name: np.asarray(results[name]) for name in results}
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}


def loop_of(model: Any, node_id: str = "loop") -> Any:
    """The loop's function in a folded model."""
    (found,) = (n for n in model.graphs[0].nodes if n.id == node_id)
    return next(f for f in found.functions if f.function == "onnx::Loop")


def body_of(model: Any, node_id: str = "loop") -> dict[str, Any]:
    """The loop's body in a folded model."""
    (body,) = loop_of(model, node_id).args["body"].values()
    return body
