"""Random models over time: `random_model(seed)` returns the same model and run for equal seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.native.loop_decisions import MIN_SHARED_ELEMENTS
from tests.random_models.functions import FUNCTIONS
from tests.random_models.nodes import Drawing, Node, random_profile

STEPS = (2, 3, 5, 8, 12, 20, 31, 50, 64, 120)


@dataclass(frozen=True)
class RandomModel:
    """A model, a run of it, and values to sweep over.

    `feeds` are the values of all ports without an edge. Feeds named in `rows` have a row for each step.
    `is_exact` is True if all forms must have equal bits, and `draws` if the model draws random numbers.
    `is_large` is True if arrays have so many elements that threads share them.
    """

    source: dict[str, Any]
    run: dict[str, Any]
    options: dict[str, Any]
    sweep: dict[str, np.ndarray]
    rows: frozenset[str]
    feeds: dict[str, Any]
    is_exact: bool
    draws: bool
    is_large: bool


def random_model(seed: int) -> RandomModel:
    """Return the random model of a seed."""
    rng = random.Random(f"model {seed}")
    profile = random_profile(rng)
    d = Drawing(rng, profile)
    nodes = [Node(f"N{k}") for k in range(rng.choice((1, 1, 2, 2, 3, 4)))]
    for node in nodes:
        node.outputs = {f"o{k}": d.kind() for k in range(rng.randint(1, 2))}
    edges = {f"e{k}": _edge(d, nodes) for k in range(rng.randint(0, 2 * len(nodes)))}
    edges = {name: edge for name, edge in edges.items() if edge}
    for node in nodes:
        _free_ports(d, node)
    contents = {node.id: d.draw(node, FUNCTIONS) for node in nodes}
    ids = list(contents)
    rng.shuffle(ids)
    graph: dict[str, Any] = {"nodes": {name: contents[name] for name in ids}, "edges": edges}
    outputs = [f"{node.id}.{name}" for node in nodes for name in node.outputs]
    graph["metadata"] = {"outputs": outputs}
    if len(nodes) > 1 and d.chance(0.25):
        graph["conditions"] = _schedule(d, nodes)
    source = {"m": {"graphs": {"g": graph}}}
    steps = rng.choice(STEPS)
    inputs = _inputs(d, nodes, steps)
    kinds = {f"{n.id}.{name}": kind for n in nodes for name, kind in n.input_kinds.items()}
    run: dict[str, Any] = {
        "steps": steps,
        "dt": rng.choice((None, 0.1, 0.1, 0.25)),
        "inputs": inputs,
    }
    if d.chance(0.3):
        run["record"] = _recorded(d, nodes)
    options = {"precision": "float32"} if d.chance(0.15) else {}
    rows = frozenset(name for name, a in inputs.items() if a.shape != d.shape(kinds[name]))
    return RandomModel(
        source,
        run,
        options,
        _sweep(d, nodes, rows, steps),
        rows,
        {**_defaults(nodes), **inputs},
        not d.writer.has_rounded,
        "random" in str(source),
        profile.length >= MIN_SHARED_ELEMENTS,
    )


def _edge(d: Drawing, nodes: list[Node]) -> dict[str, Any] | None:
    """Return an edge to a later node, or any edge to a port with a default."""
    sender = d.rng.choice(nodes)
    back = d.chance(0.5)
    later = nodes if back else nodes[nodes.index(sender) + 1 :]
    if not later:
        return None
    receiver = d.rng.choice(later)
    port, kind = d.rng.choice(list(sender.outputs.items()))
    name = f"i{len(receiver.input_ports)}"
    receiver.input_ports[name] = {"default_value": d.constant(kind)} if back else {}
    receiver.input_kinds[name] = kind
    edge: dict[str, Any] = {
        "sender": sender.id,
        "sender_port": port,
        "receiver": receiver.id,
        "receiver_port": name,
    }
    if kind[0] == "f" and d.chance(0.4):
        edge["parameters"] = {"weight": round(d.rng.uniform(-1.5, 1.5), 3)}
    return edge


def _free_ports(d: Drawing, node: Node) -> None:
    """Add input ports without an edge."""
    for _ in range(d.rng.choice((0, 0, 1, 2))):
        kind = d.kind(least="f")
        name = f"i{len(node.input_ports)}"
        port: dict[str, Any] = {"shape": list(d.shape(kind))} if kind != "fn" else {}
        if d.chance(0.5):
            port["default_value"] = d.constant(kind)
        node.input_ports[name] = port or {"type": "float"}
        node.input_kinds[name] = kind
        node.free.append(name)


def _inputs(d: Drawing, nodes: list[Node], steps: int) -> dict[str, Any]:
    """Return values of the ports without an edge, constant or with a row for each step."""
    inputs: dict[str, Any] = {}
    for node in nodes:
        for name in node.free:
            if "default_value" in node.input_ports[name] and d.chance(0.3):
                continue
            front = (steps,) if d.chance(0.6) else ()
            inputs[f"{node.id}.{name}"] = d.array(node.input_kinds[name], *front)
    return inputs


def _defaults(nodes: list[Node]) -> dict[str, Any]:
    ports = {f"{n.id}.{name}": port for n in nodes for name, port in n.input_ports.items()}
    free = {f"{node.id}.{name}" for node in nodes for name in node.free}
    return {n: ports[n]["default_value"] for n in free if "default_value" in ports[n]}


def _schedule(d: Drawing, nodes: list[Node]) -> dict[str, Any]:
    """Return random conditions of some nodes."""
    conditions = {}
    for node, other in zip(nodes[1:], nodes, strict=False):
        uniform_number = d.rng.random()
        if uniform_number < 0.4:
            kwargs: dict[str, Any] = {"dependency": other.id, "n": d.rng.randint(1, 3)}
            conditions[node.id] = {"type": "EveryNCalls", "kwargs": kwargs}
        elif uniform_number < 0.7:
            kwargs = {"n": d.rng.randint(1, 3), "time_scale": "TimeScale.LIFE"}
            conditions[node.id] = {"type": "EveryNPasses", "kwargs": kwargs}
    schedule: dict[str, Any] = {"node_specific": conditions}
    if any(condition["type"] == "EveryNPasses" for condition in conditions.values()):
        one_pass = {"type": "AfterNPasses", "kwargs": {"n": 1}}
        schedule["termination"] = {"environment_state_update": one_pass}
    return schedule


def _recorded(d: Drawing, nodes: list[Node]) -> list[str]:
    """Return random names of parameters and functions to record."""
    names = [
        f"{node.id}.{name}"
        for node in nodes
        for name in node.inner
        if name.isidentifier() and name not in node.input_ports and not name.startswith("p")
    ]
    return d.rng.sample(names, min(3, len(names)))


def _sweep(
    d: Drawing, nodes: list[Node], rows: frozenset[str], steps: int
) -> dict[str, np.ndarray]:
    """Return values to sweep of one or two parameters, initial values or inputs."""
    kinds = {f"{n.id}.{name}": kind for n in nodes for name, kind in n.settable.items()}
    kinds |= {f"{n.id}.{name}": n.input_kinds[name] for n in nodes for name in n.free}
    if not kinds:
        return {}
    names = d.rng.sample(sorted(kinds), min(len(kinds), d.rng.choice((1, 1, 2))))
    members = d.rng.choice((2, 3, 5, 9, 13))
    fronts = {name: (members, steps) if name in rows else (members,) for name in names}
    return {name: d.array(kinds[name], *fronts[name]) for name in names}
