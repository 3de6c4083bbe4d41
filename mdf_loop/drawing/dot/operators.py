"""Drawing of large graphs in columns (bands) of boxes that show only operators."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.drawing.dot.bands import Bands, cut_into_bands
from mdf_loop.drawing.dot.canvas import EdgeEnd
from mdf_loop.drawing.dot.labels import small_text, stack_lines, style_text
from mdf_loop.drawing.dot.small import draw_pills
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.flow import Flow
from mdf_loop.drawing.scene.elements import Box, Scene
from mdf_loop.drawing.theme import (
    IMPORTED_FUNCTION_ID,
    LINE_COLOR,
    LINE_STYLES,
    PAPER_COLOR,
    SMALL_FONT_SIZE,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import NodeOutline
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


def draw_chain(picture: Picture, box: Box, view: View) -> None:
    """Draw a chain of nodes as one box with a line for each operator.

    A tooltip has the names of the nodes.
    """
    chain = box.outline
    box_name = picture.canvas.unused_name(chain[0].id)
    operator_lines = [style_text(operator_name(node), size=SMALL_FONT_SIZE) for node in chain]
    picture.canvas.add_node(
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
    picture.place_box(box, box_name, box_name)


def draw_bands(picture: Picture, scene: Scene, flow: Flow, view: View) -> None:
    """Draw a graph in columns (bands) of boxes, with one box for each chain of operators."""
    bands = cut_into_bands(flow, view.band_count if view.nesting_depth == 0 else 1)
    chain_boxes, model_port_boxes = scene.boxes[: len(flow.chains)], scene.boxes[len(flow.chains) :]
    chain_by_box = {box.id: k for k, box in enumerate(chain_boxes)}
    chain_by_node = {
        node_id: chain_by_box[wire_ends.box_id] for node_id, wire_ends in scene.ends_by_node.items()
    }
    for band in range(bands.count):
        chain_indices = [
            k for k, chain_band in enumerate(bands.band_by_chain) if chain_band == band
        ]
        label = _band_label(band, [flow.chains[k] for k in chain_indices])
        with picture.canvas.band_frame(bands.count, label, scene.path):
            for k in picture.canvas.direction.stacking_order(chain_indices):
                picture.draw_box(chain_boxes[k], view)
            _draw_band_edges(picture, scene, band, bands, chain_by_node, view)
            band_port_boxes = [
                port_box
                for port_box in model_port_boxes
                if chain_by_node[port_box.outline.node_id] in chain_indices
            ]
            draw_pills(picture, band_port_boxes, scene.wires, view)


def _band_label(band: int, chains: Sequence[tuple[NodeOutline, ...]]) -> str:
    """Return the label of a column (band): its number and the name of its first node."""
    first_node_id = next((chain[0].id for chain in chains if not chain[0].is_input), "")
    return small_text(f"{band + 1}  {shorten_name(first_node_id, 30)}")


def _draw_band_edges(
    picture: Picture,
    scene: Scene,
    band: int,
    bands: Bands,
    chain_by_node: dict[str, int],
    view: View,
) -> None:
    """Draw the edges of a column (band), with numbered stubs for edges to or from other columns."""
    stub_names: dict[tuple[int, str], str] = {}
    for wire in scene.wires:
        if wire.edge is None:
            continue
        sender_chain = chain_by_node[wire.edge.sender]
        sender_band = bands.band_by_chain[sender_chain]
        receiver_band = bands.band_by_chain[chain_by_node[wire.edge.receiver]]
        if band not in (sender_band, receiver_band):
            continue
        if sender_band == receiver_band:
            picture.draw_edge(wire, scene.ends_by_node, view)
            continue
        stub = (sender_chain, "leaves" if sender_band == band else "arrives")
        is_new = stub not in stub_names
        if is_new:
            stub_names[stub] = _draw_stub(
                picture, bands.stub_number_by_chain[sender_chain], stub[1]
            )
        stub_end = EdgeEnd(stub_names[stub])
        if receiver_band == band:
            for target, _ in picture.targets[wire.target]:
                picture.canvas.add_edge(stub_end, target, "cut", wire.path)
        elif is_new:
            picture.canvas.add_edge(picture.sources[wire.source][0], stub_end, "cut")


def _draw_stub(picture: Picture, number: int, side: str) -> str:
    """Draw a numbered end of an edge that is cut between two columns, and return its DOT name."""
    edge_stub_name = picture.canvas.unused_name(f"cut {number} {side}")
    edge_stub_label = f"{number} ▸" if side == "leaves" else f"▸ {number}"
    picture.canvas.add_auxiliary_node(
        edge_stub_name,
        style_text(
            edge_stub_label,
            size=SMALL_FONT_SIZE,
            color=LINE_STYLES["cut"].attributes["color"],
            tag="B",
        ),
        shape="plaintext",
        margin="0.02,0.0",
        width="0.1",
        height="0.15",
    )
    return edge_stub_name
