"""Nodes that only bring a value: model inputs as pills, typed constants as a few words.

Models that come from other systems have one node for every input and every constant. A constant
stands in the port that reads it (`B = 2`); it has a node of its own where a loop or a choice
reads it, where it is a result, and where several nodes share many numbers.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from mdf_loop.drawing.canvas import Arrival, Canvas, End, Wires
from mdf_loop.drawing.labels import lines, small, styled
from mdf_loop.drawing.theme import HEADER, PAPER, QUIET
from mdf_loop.drawing.view import View
from mdf_loop.ir import Array
from mdf_loop.outline import GraphOutline, NodeOutline
from mdf_loop.outline.text import shorten_name, value_text

_FEW = 16
"""Up to so many shared numbers are written at each reader."""
NAME = 36
"""Letters of a name in a pill."""


def inlined(graph: GraphOutline, view: View) -> GraphOutline:
    """The graph with constants written into the ports that read them."""
    values = {node.id: node.constant for node in graph.nodes if node.constant is not None}
    plain = {node.id for node in graph.nodes if not node.blocks}
    readers = Counter(edge.sender for edge in graph.edges)
    kept = {output.node for output in graph.outputs} | view.collapse
    kept |= {e.sender for e in graph.edges if e.receiver not in plain or e.weight is not None}
    kept |= {k for k, value in values.items() if readers[k] != 1 and value.size > _FEW}
    gone = {k for k in values if k not in kept} if graph.edges else set()
    written = {
        (edge.receiver, edge.receiver_port): values[edge.sender]
        for edge in graph.edges
        if edge.sender in gone
    }
    return replace(
        graph,
        nodes=tuple(_with_values(n, written) for n in graph.nodes if n.id not in gone),
        edges=tuple(edge for edge in graph.edges if edge.sender not in gone),
    )


def _with_values(node: NodeOutline, written: dict[tuple[str, str], Array]) -> NodeOutline:
    return replace(
        node,
        inputs=tuple(
            replace(port, default=written.get((node.id, port.id), port.default))
            for port in node.inputs
        ),
    )


def draw_small(canvas: Canvas, node: NodeOutline, view: View) -> Wires | None:
    """Draw an input or a constant; None for other nodes."""
    value = node.constant
    if value is None and not node.is_input:
        return None
    name = canvas.name("input" if value is None else "", node.id)
    if value is None:
        draw_pill(canvas, name, node.id, node.inputs[0].type, node.path, "input", view)
    else:
        said = f"{shorten_name(node.outputs[0].id, NAME)} = {value_text(value, 24)}"
        canvas.node(
            name,
            small(said),
            "constant",
            node.path,
            shape="box",
            style="filled",
            fillcolor=HEADER,
            color=HEADER,
            margin="0.08,0.03",
            height="0.2",
        )
    end = End(name)
    return Wires(
        first=name,
        last=name,
        inputs={port.id: [Arrival(end)] for port in node.inputs},
        outputs={port.id: end for port in node.outputs},
    )


def draw_pill(
    canvas: Canvas,
    name: str,
    text: str,
    kind: str,
    path: str,
    role: str,
    view: View,
    seen: str = "",
) -> None:
    """Draw an input or an output of the model, with what was seen of it."""
    canvas.kinds.add(role)
    said = small(kind) if view.detail.types and kind else ""
    canvas.node(
        name,
        lines(styled(shorten_name(text, NAME), tag="I"), said, small(seen) if seen else ""),
        role,
        path,
        shape="box",
        style="rounded,filled",
        fillcolor=PAPER,
        color=QUIET,
        margin="0.12,0.05",
        height="0.3",
    )
