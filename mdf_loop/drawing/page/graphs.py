"""Boxes and wires (scene) of a graph: a box for each node, and a wire for each edge."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.drawing.page.ends import NodeEnds, Numbering
from mdf_loop.drawing.page.fitting import simplify_scene
from mdf_loop.drawing.page.nodes import (
    MAX_TITLE_LENGTH,
    build_node_box,
    build_pill_box,
    build_small_box,
    operator_name,
)
from mdf_loop.drawing.page.owners import build_owner_box
from mdf_loop.drawing.page.scene import Box, Scene, Wire
from mdf_loop.drawing.page.terminals import FULL_VIEW
from mdf_loop.drawing.small import inline_constants
from mdf_loop.drawing.weights import merge_captured_constants
from mdf_loop.outline import GraphOutline, NodeOutline
from mdf_loop.outline.text import shorten_name, value_text, weight_text

MAX_DETAILED_NODES = 12
"""Maximum number of nodes of a graph that is not simplified.

In a simplified graph, imported operators are single words in chains, and constants are omitted.
"""


def build_model_scene(graph: GraphOutline, numbering: Numbering) -> Scene:
    """Build the boxes and wires (scene) of the whole model."""
    scene, ends_by_node = _SceneBuilder(numbering).build(graph)
    boxes, wires = [*scene.boxes], [*scene.wires]
    input_node_ids = {node.id for node in graph.nodes if node.is_input}
    for model_input in graph.inputs:
        if model_input.node_id in ends_by_node and model_input.node_id not in input_node_ids:
            default_text = (
                "" if model_input.default is None else f" = {value_text(model_input.default, 24)}"
            )
            pill_box = build_pill_box(
                numbering,
                "input",
                model_input.name,
                model_input.type,
                model_input.path,
                default_text,
            )
            boxes.append(pill_box)
            targets = ends_by_node[model_input.node_id].targets(
                model_input.port_id, model_input.name
            )
            wires += [Wire(pill_box.id, end, line_style) for end, line_style in targets]
    for output in graph.outputs:
        if output.node_id in ends_by_node:
            pill_box = build_pill_box(numbering, "output", output.name, output.type, output.path)
            boxes.append(pill_box)
            wires.append(Wire(ends_by_node[output.node_id].source(output.port_id), pill_box.id))
    return simplify_scene(Scene(tuple(boxes), tuple(wires)), numbering)


class _SceneBuilder(Struct, frozen=True):
    """Builder of the boxes and wires (scene) of graphs, with numbers unique on the page."""

    numbering: Numbering

    def build(self, graph: GraphOutline) -> tuple[Scene, dict[str, NodeEnds]]:
        """Return the boxes and wires (scene) of a graph, and where wires attach to each node."""
        self.numbering.current_depth += 1
        graph = inline_constants(merge_captured_constants(graph, FULL_VIEW), FULL_VIEW)
        is_large = len(graph.nodes) > MAX_DETAILED_NODES
        receiving_node_ids = {edge.receiver for edge in graph.edges}
        boxes: list[Box] = []
        ends_by_node: dict[str, NodeEnds] = {}
        for node in graph.nodes:
            if is_large and node.constant is not None:
                continue
            if node.blocks:
                outer_names = frozenset(
                    model_input.name
                    for model_input in graph.inputs
                    if model_input.node_id == node.id
                )
                box, node_ends = build_owner_box(node, outer_names, self.numbering, self.build)
            else:
                box, node_ends = self._node_box(node, node.id in receiving_node_ids, is_large)
            ends_by_node[node.id] = node_ends
            boxes.append(box)
        wires = tuple(_edge_wires(graph, ends_by_node))
        if self.numbering.current_depth == self.numbering.observed_depth:
            self.numbering.port_number_by_output |= {
                f"{name}.{port}": end_number
                for name, node_ends in ends_by_node.items()
                for port, end_number in node_ends.outputs.items()
            }
        self.numbering.current_depth -= 1
        return Scene(tuple(boxes), wires), ends_by_node

    def _node_box(self, node: NodeOutline, is_fed: bool, is_large: bool) -> tuple[Box, NodeEnds]:
        """Return the box of a node without loops or conditionals, and where wires attach."""
        if node.is_input and not is_fed:
            return build_small_box(
                node, self.numbering, "input", shorten_name(node.id, MAX_TITLE_LENGTH)
            )
        if node.constant is not None:
            constant_label = (
                f"{shorten_name(node.id, MAX_TITLE_LENGTH)} = {value_text(node.constant, 24)}"
            )
            return build_small_box(node, self.numbering, "constant", constant_label)
        if is_large and operator_name(node):
            return build_small_box(node, self.numbering, "operator", operator_name(node))
        return build_node_box(node, self.numbering)


def _edge_wires(graph: GraphOutline, ends_by_node: dict[str, NodeEnds]) -> list[Wire]:
    """Return the wires for the edges of a graph."""
    wires = []
    for edge in graph.edges:
        if edge.sender in ends_by_node and edge.receiver in ends_by_node:
            source_end = ends_by_node[edge.sender].source(edge.sender_port)
            label = weight_text(edge.weight)
            for end, target_line_style in ends_by_node[edge.receiver].targets(
                edge.receiver_port, ""
            ):
                line_style = "feedback" if edge.is_feedback else target_line_style
                wires.append(Wire(source_end, end, line_style, label))
    return wires
