"""A large graph: boxes that show operators only, chains of them in one box, cut into bands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from mdf_loop.drawing.bands import Bands, cut
from mdf_loop.drawing.canvas import Arrival, Canvas, End, Wires
from mdf_loop.drawing.edges import draw_edge, draw_ends
from mdf_loop.drawing.flow import Flow, flow_of
from mdf_loop.drawing.frames import GraphDrawer
from mdf_loop.drawing.labels import lines, small, styled
from mdf_loop.drawing.nodes import reads_of
from mdf_loop.drawing.owners import draw_owner
from mdf_loop.drawing.small import draw_small
from mdf_loop.drawing.theme import IMPORTED, LINE, PAPER, SMALL, STROKES
from mdf_loop.drawing.view import View
from mdf_loop.outline import EdgeOutline, GraphOutline, NodeOutline
from mdf_loop.outline.text import shorten_name

OPERATOR = 26
"""Letters of what a node is called in a box of operators."""


def operator_of(node: NodeOutline) -> str:
    """What a node does in one word: its operator; its id where it has none, or several."""
    functions = [item.function for item in node.items if item.function]
    if len(functions) == 1 and (len(node.items) == 1 or node.items[0].id == IMPORTED):
        return functions[0].rpartition("::")[2]
    return shorten_name(node.id, OPERATOR)


def draw_operators(
    canvas: Canvas, graph: GraphOutline, view: View, draw_graph: GraphDrawer
) -> dict[str, Wires]:
    """Draw a graph as runs of operators; a whole model with its inputs and outputs, in bands."""
    flow = flow_of(graph)
    bands = cut(flow, view.bands if view.nesting == 0 else 1)
    part = _part(graph, view, flow, bands)
    wires: dict[str, Wires] = {}
    for band in range(bands.count):
        runs = [run for run, of in zip(flow.runs, bands.of, strict=True) if of == band]
        with canvas.band(bands.count, _words(band, runs), graph.path):
            made = _draw_runs(canvas, runs, view, draw_graph)
            _draw_edges(canvas, part, band, made)
            if view.nesting == 0:
                draw_ends(canvas, graph, made, view)
        wires |= made
    return wires


class _Part(Struct, frozen=True):
    """What is drawn: the graph, how, the place of each node's run, and the edges of each band."""

    graph: GraphOutline
    view: View
    bands: Bands
    place: dict[str, int]
    edges: dict[int, list[EdgeOutline]]

    def band(self, node: str) -> int:
        """The band of a node."""
        return self.bands.of[self.place[node]]


def _part(graph: GraphOutline, view: View, flow: Flow, bands: Bands) -> _Part:
    place = {node.id: k for k, run in enumerate(flow.runs) for node in run}
    edges: dict[int, list[EdgeOutline]] = defaultdict(list)
    for edge in graph.edges:
        if edge.sender in place and edge.receiver in place:
            both = (bands.of[place[edge.sender]], bands.of[place[edge.receiver]])
            for band in dict.fromkeys(both):
                edges[band].append(edge)
    return _Part(graph, view, bands, place, edges)


def _words(band: int, runs: Sequence[tuple[NodeOutline, ...]]) -> str:
    """The number of a band, and the name that it begins with."""
    first = next((run[0].id for run in runs if not run[0].is_input), "")
    return small(f"{band + 1}  {shorten_name(first, 30)}")


def _draw_runs(
    canvas: Canvas,
    runs: Sequence[tuple[NodeOutline, ...]],
    view: View,
    draw_graph: GraphDrawer,
) -> dict[str, Wires]:
    wires: dict[str, Wires] = {}
    for run in canvas.direction.stacked(runs):
        (first, *others) = run
        pill = draw_small(canvas, first, view) if first.is_input else None
        if pill is not None:
            wires[first.id] = pill
        elif first.blocks and not others:
            wires[first.id] = draw_owner(canvas, first, view, draw_graph)
        else:
            wires |= _draw_run(canvas, run, view)
    return wires


def _draw_run(canvas: Canvas, run: tuple[NodeOutline, ...], view: View) -> dict[str, Wires]:
    """One box with a line for each node, which are named where the mouse is."""
    name = canvas.name(run[0].id)
    said = [styled(operator_of(node), size=SMALL) for node in run]
    canvas.node(
        name,
        lines(*said),
        "node",
        " · ".join(node.id for node in run),
        shape="box",
        style="rounded,filled",
        fillcolor=PAPER,
        color=LINE,
        margin="0.07,0.03",
        width="0.3",
        height="0.2",
    )
    entries = [Arrival(End(name))]
    outer = view.nesting > 0
    return {
        node.id: Wires(
            first=name,
            last=name,
            inputs={port.id: entries for port in node.inputs},
            outputs={port.id: End(name) for port in node.outputs},
            reads=reads_of(node, entries) if outer else {},
        )
        for node in run
    }


def _draw_edges(canvas: Canvas, part: _Part, band: int, wires: dict[str, Wires]) -> None:
    """The edges of a band; of those that are cut the numbered stub on its side."""
    stubs: dict[tuple[int, str], str] = {}
    for edge in part.edges[band]:
        tail, head = part.band(edge.sender), part.band(edge.receiver)
        if tail == head:
            if part.place[edge.sender] != part.place[edge.receiver] or edge.feedback:
                draw_edge(canvas, edge, wires, part.view)
            continue
        run = part.place[edge.sender]
        number = part.bands.stubs[run]
        way = "leaves" if tail == band else "arrives"
        if (run, way) not in stubs:
            stubs[run, way] = _draw_stub(canvas, number, way)
            if way == "leaves":
                sender = wires[edge.sender]
                end = sender.outputs.get(edge.sender_port, End(sender.last))
                canvas.edge(end, End(stubs[run, way]), "cut")
        if way == "arrives":
            receiver = wires[edge.receiver]
            for entry in receiver.inputs.get(edge.receiver_port, [Arrival(End(receiver.first))]):
                canvas.edge(End(stubs[run, way]), entry.end, "cut", edge.path)


def _draw_stub(canvas: Canvas, number: int, way: str) -> str:
    """Where an edge is cut; its other end has the same number."""
    name = canvas.name(f"cut {number} {way}")
    said = f"{number} ▸" if way == "leaves" else f"▸ {number}"
    canvas.point(
        name,
        styled(said, size=SMALL, color=STROKES["cut"].attributes["color"], tag="B"),
        shape="plaintext",
        margin="0.02,0.0",
        width="0.1",
        height="0.15",
    )
    return name
