"""Drawing of large graphs in columns (bands) of boxes that show only operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from mdf_loop.drawing.bands import Bands, cut_into_bands
from mdf_loop.drawing.canvas import Canvas, EdgeEnd, EdgeTarget, NodeConnections
from mdf_loop.drawing.edges import draw_edge, draw_inputs_and_outputs
from mdf_loop.drawing.flow import Flow, flow_of
from mdf_loop.drawing.frames import GraphDrawer
from mdf_loop.drawing.labels import small_text, stack_lines, style_text
from mdf_loop.drawing.nodes import read_targets
from mdf_loop.drawing.owners import draw_owner
from mdf_loop.drawing.small import draw_small
from mdf_loop.drawing.theme import (
    IMPORTED_FUNCTION_ID,
    LINE_COLOR,
    LINE_STYLES,
    PAPER_COLOR,
    SMALL_FONT_SIZE,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import EdgeOutline, GraphOutline, NodeOutline
from mdf_loop.outline.text import shorten_name

MAX_OPERATOR_LENGTH = 26
"""Maximum number of characters of a node's name in a box of operators."""


def operator_name(node: NodeOutline) -> str:
    """Return the name of a node's only operator, or the node's id if it has none or several."""
    functions = [definition.function for definition in node.definitions if definition.function]
    if len(functions) == 1 and (
        len(node.definitions) == 1 or node.definitions[0].id == IMPORTED_FUNCTION_ID
    ):
        return functions[0].rpartition("::")[2]
    return shorten_name(node.id, MAX_OPERATOR_LENGTH)


def draw_operators(
    canvas: Canvas, graph: GraphOutline, view: View, draw_graph: GraphDrawer
) -> dict[str, NodeConnections]:
    """Draw a graph in columns (bands) of boxes, with one box for each chain of operators."""
    flow = flow_of(graph)
    bands = cut_into_bands(flow, view.band_count if view.nesting_depth == 0 else 1)
    banded_graph = _build_banded_graph(graph, view, flow, bands)
    connections: dict[str, NodeConnections] = {}
    for band in range(bands.count):
        chains = [
            chain
            for chain, chain_band in zip(flow.chains, bands.band_by_chain, strict=True)
            if chain_band == band
        ]
        with canvas.band_frame(bands.count, _band_label(band, chains), graph.path):
            band_connections = _draw_chains(canvas, chains, view, draw_graph)
            _draw_edges(canvas, banded_graph, band, band_connections)
            if view.nesting_depth == 0:
                draw_inputs_and_outputs(canvas, graph, band_connections, view)
        connections |= band_connections
    return connections


class _BandedGraph(Struct, frozen=True):
    """Graph split into columns (bands), with the column of each node and the edges in each column."""

    graph: GraphOutline
    view: View
    bands: Bands
    chain_index_by_node: dict[str, int]
    edges_by_band: dict[int, list[EdgeOutline]]

    def band(self, node: str) -> int:
        """Return the number of the column (band) in which a node is drawn."""
        return self.bands.band_by_chain[self.chain_index_by_node[node]]


def _build_banded_graph(graph: GraphOutline, view: View, flow: Flow, bands: Bands) -> _BandedGraph:
    """Return a graph divided into columns (bands), with the edges to draw in each column."""
    chain_index_by_node = {node.id: k for k, chain in enumerate(flow.chains) for node in chain}
    edges_by_band: dict[int, list[EdgeOutline]] = defaultdict(list)
    for edge in graph.edges:
        if edge.sender in chain_index_by_node and edge.receiver in chain_index_by_node:
            end_bands = (
                bands.band_by_chain[chain_index_by_node[edge.sender]],
                bands.band_by_chain[chain_index_by_node[edge.receiver]],
            )
            for band in dict.fromkeys(end_bands):
                edges_by_band[band].append(edge)
    return _BandedGraph(graph, view, bands, chain_index_by_node, edges_by_band)


def _band_label(band: int, chains: Sequence[tuple[NodeOutline, ...]]) -> str:
    """Return the label of a column (band): its number and the name of its first node."""
    first_node_id = next((chain[0].id for chain in chains if not chain[0].is_input), "")
    return small_text(f"{band + 1}  {shorten_name(first_node_id, 30)}")


def _draw_chains(
    canvas: Canvas,
    chains: Sequence[tuple[NodeOutline, ...]],
    view: View,
    draw_graph: GraphDrawer,
) -> dict[str, NodeConnections]:
    """Draw one column (band) of node chains, and return the points for edges of each node."""
    connections: dict[str, NodeConnections] = {}
    for chain in canvas.direction.stacking_order(chains):
        (first_node, *following_nodes) = chain
        pill_connections = draw_small(canvas, first_node, view) if first_node.is_input else None
        if pill_connections is not None:
            connections[first_node.id] = pill_connections
        elif first_node.blocks and not following_nodes:
            connections[first_node.id] = draw_owner(canvas, first_node, view, draw_graph)
        else:
            connections |= _draw_chain(canvas, chain, view)
    return connections


def _draw_chain(
    canvas: Canvas, chain: tuple[NodeOutline, ...], view: View
) -> dict[str, NodeConnections]:
    """Draw a chain of nodes as one box with a line for each operator.

    A tooltip has the names of the nodes.
    """
    box_name = canvas.unused_name(chain[0].id)
    operator_lines = [style_text(operator_name(node), size=SMALL_FONT_SIZE) for node in chain]
    canvas.add_node(
        box_name,
        stack_lines(*operator_lines),
        "node",
        " · ".join(node.id for node in chain),
        shape="box",
        style="rounded,filled",
        fillcolor=PAPER_COLOR,
        color=LINE_COLOR,
        margin="0.07,0.03",
        width="0.3",
        height="0.2",
    )
    edge_targets = [EdgeTarget(EdgeEnd(box_name))]
    is_body = view.nesting_depth > 0
    return {
        node.id: NodeConnections(
            first_dot_node=box_name,
            last_dot_node=box_name,
            inputs={port.id: edge_targets for port in node.inputs},
            outputs={port.id: EdgeEnd(box_name) for port in node.outputs},
            targets_by_name=read_targets(node, edge_targets) if is_body else {},
        )
        for node in chain
    }


def _draw_edges(
    canvas: Canvas, banded_graph: _BandedGraph, band: int, connections: dict[str, NodeConnections]
) -> None:
    """Draw the edges of a column (band), with numbered stubs for edges to or from other columns."""
    stub_names: dict[tuple[int, str], str] = {}
    for edge in banded_graph.edges_by_band[band]:
        sender_band, receiver_band = (
            banded_graph.band(edge.sender),
            banded_graph.band(edge.receiver),
        )
        if sender_band == receiver_band:
            if (
                banded_graph.chain_index_by_node[edge.sender]
                != banded_graph.chain_index_by_node[edge.receiver]
                or edge.is_feedback
            ):
                draw_edge(canvas, edge, connections, banded_graph.view)
            continue
        sender_chain = banded_graph.chain_index_by_node[edge.sender]
        stub_number = banded_graph.bands.stub_number_by_chain[sender_chain]
        stub_side = "leaves" if sender_band == band else "arrives"
        if (sender_chain, stub_side) not in stub_names:
            stub_names[sender_chain, stub_side] = _draw_stub(canvas, stub_number, stub_side)
            if stub_side == "leaves":
                sender_connections = connections[edge.sender]
                source_end = sender_connections.outputs.get(
                    edge.sender_port, EdgeEnd(sender_connections.last_dot_node)
                )
                canvas.add_edge(source_end, EdgeEnd(stub_names[sender_chain, stub_side]), "cut")
        if stub_side == "arrives":
            receiver_connections = connections[edge.receiver]
            for target in receiver_connections.inputs.get(
                edge.receiver_port, [EdgeTarget(EdgeEnd(receiver_connections.first_dot_node))]
            ):
                canvas.add_edge(
                    EdgeEnd(stub_names[sender_chain, stub_side]), target.edge_end, "cut", edge.path
                )


def _draw_stub(canvas: Canvas, number: int, side: str) -> str:
    """Draw a numbered end of an edge that is cut between two columns, and return its DOT name."""
    stub_name = canvas.unused_name(f"cut {number} {side}")
    stub_label = f"{number} ▸" if side == "leaves" else f"▸ {number}"
    canvas.add_auxiliary_node(
        stub_name,
        style_text(
            stub_label, size=SMALL_FONT_SIZE, color=LINE_STYLES["cut"].attributes["color"], tag="B"
        ),
        shape="plaintext",
        margin="0.02,0.0",
        width="0.1",
        height="0.15",
    )
    return stub_name
