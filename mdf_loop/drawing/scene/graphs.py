"""Scenes of graphs: a box for each node, and a wire for each edge."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.drawing.flow import Flow, flow_of
from mdf_loop.drawing.scene.captures import merge_captured_constants
from mdf_loop.drawing.scene.constants import inline_constants
from mdf_loop.drawing.scene.elements import Box, NodeEnds, Numbering, Port, Scene, Wire
from mdf_loop.drawing.scene.owners import build_owner
from mdf_loop.drawing.theme import IMPORTED_FUNCTION_ID
from mdf_loop.drawing.view import View
from mdf_loop.outline import GraphOutline, NodeOutline
from mdf_loop.outline.text import weight_text

MAX_DETAILED_NODES = 12
"""Maximum number of nodes of a graph that `Detail.shortens_large_graphs` does not affect."""


def model_scene(graph: GraphOutline, view: View, numbering: Numbering | None = None) -> Scene:
    """Build the scene of a whole model, with its inputs and outputs."""
    builder = _SceneBuilder(numbering or Numbering())
    scene = builder.build(graph, view)
    if not view.detail.shows_bodies:
        return scene
    boxes, wires, wire_ends_by_node = [*scene.boxes], [*scene.wires], scene.ends_by_node
    input_node_ids = {node.id for node in graph.nodes if node.is_input}
    for model_input in graph.inputs:
        if model_input.node_id in wire_ends_by_node and model_input.node_id not in input_node_ids:
            boxes.append(Box(builder.numbering.next(), "input", model_input, model_input.path))
            wires += [
                builder.numbering.wire(boxes[-1].id, target, model_input.path)
                for target in wire_ends_by_node[model_input.node_id].targets(
                    model_input.port_id, model_input.name
                )
            ]
    for output in graph.outputs:
        if output.node_id in wire_ends_by_node:
            boxes.append(Box(builder.numbering.next(), "output", output, output.path))
            source = wire_ends_by_node[output.node_id].source(output.port_id)
            wires.append(builder.numbering.wire(source, boxes[-1].id, output.path))
    return replace(scene, boxes=tuple(boxes), wires=tuple(wires))


def imported_operator(node: NodeOutline) -> str:
    """Return the operator of an imported node, such as `Add`, or "" for a node with formulas."""
    functions = [definition for definition in node.definitions if definition.function]
    if node.blocks or len(functions) != 1 or functions[0].id != IMPORTED_FUNCTION_ID:
        return ""
    return functions[0].function.rpartition("::")[2]


class _SceneBuilder(Struct, frozen=True):
    """Builder of the scenes of graphs, with numbers unique in the whole model."""

    numbering: Numbering

    def build(self, graph: GraphOutline, view: View) -> Scene:
        """Return the scene of a graph."""
        shown_graph = merge_captured_constants(graph, view)
        operator_flow = flow_of(shown_graph) if view.detail.shows_only_operators else None
        if operator_flow is not None:
            boxes = list(self._chain_boxes(shown_graph, operator_flow, view))
        else:
            shown_graph = inline_constants(shown_graph, view)
            boxes = list(self._node_boxes(shown_graph, view))
        wire_ends_by_node = {
            node_id: wire_ends
            for _, box_wire_ends in boxes
            for node_id, wire_ends in box_wire_ends.items()
        }
        return Scene(
            tuple(box for box, _ in boxes),
            tuple(self._edge_wires(shown_graph, wire_ends_by_node, view)),
            graph,
            wire_ends_by_node,
            operator_flow,
        )

    def _node_boxes(
        self, graph: GraphOutline, view: View
    ) -> Iterator[tuple[Box, dict[str, NodeEnds]]]:
        """Yield a box for each node of a graph, with the ends of wires at the node."""
        is_short = view.detail.shortens_large_graphs and len(graph.nodes) > MAX_DETAILED_NODES
        receiving_node_ids = {edge.receiver for edge in graph.edges}
        for node in graph.nodes:
            if is_short and node.constant is not None:
                continue
            if node.blocks:
                box, wire_ends = self._owner_box(node, graph, view)
            elif node.id not in receiving_node_ids and (node.is_input or node.constant is not None):
                box, wire_ends = self._plain_box(node, "input" if node.is_input else "constant")
            elif is_short and imported_operator(node):
                box, wire_ends = self._plain_box(node, "operator")
            elif not view.detail.shows_bodies or node.id in view.collapsed_ids:
                box, wire_ends = self._plain_box(node, "closed")
            else:
                box, wire_ends = self._table_box(node)
            yield box, {node.id: wire_ends}

    def _owner_box(
        self, node: NodeOutline, graph: GraphOutline, view: View
    ) -> tuple[Box, NodeEnds]:
        """Return the box of a node with loops or conditionals, and its ends of wires."""
        if not view.opens(node):
            return self._plain_box(node, "closed")
        outer_names = frozenset(
            model_input.name for model_input in graph.inputs if model_input.node_id == node.id
        )
        return build_owner(node, outer_names, view, self.numbering, self.build)

    def _table_box(self, node: NodeOutline) -> tuple[Box, NodeEnds]:
        """Return the box of a node with a port for each of its ports, and its ends of wires."""
        left_ports = tuple(Port(self.numbering.next(), port.id) for port in node.inputs)
        right_ports = tuple(Port(self.numbering.next(), port.id) for port in node.outputs)
        box = Box(self.numbering.next(), "node", node, node.path, left_ports, right_ports)
        inputs = {port.name: [port.id] for port in left_ports}
        return box, NodeEnds(box.id, inputs, {port.name: port.id for port in right_ports})

    def _plain_box(self, node: NodeOutline, kind: str) -> tuple[Box, NodeEnds]:
        """Return a box without ports, and its ends of wires."""
        box = Box(self.numbering.next(), kind, node, node.path)
        return box, NodeEnds(box.id, outputs={port.id: box.id for port in node.outputs})

    def _chain_boxes(
        self, graph: GraphOutline, flow: Flow, view: View
    ) -> Iterator[tuple[Box, dict[str, NodeEnds]]]:
        """Yield a box for each chain of nodes of a large graph, with the ends of wires at the nodes."""
        for chain in flow.chains:
            node = chain[0]
            if node.is_input:
                box, wire_ends = self._plain_box(node, "input")
                yield box, {node.id: wire_ends}
            elif node.blocks and len(chain) == 1:
                box, wire_ends = self._owner_box(node, graph, view)
                yield box, {node.id: wire_ends}
            else:
                box = Box(self.numbering.next(), "chain", chain)
                yield box, {node.id: NodeEnds(box.id) for node in chain}

    def _edge_wires(
        self, graph: GraphOutline, wire_ends_by_node: dict[str, NodeEnds], view: View
    ) -> Iterator[Wire]:
        """Yield the wires for the edges of a graph, without those inside a chain of nodes."""
        for edge in graph.edges:
            sender, receiver = (
                wire_ends_by_node.get(edge.sender),
                wire_ends_by_node.get(edge.receiver),
            )
            if sender is None or receiver is None:
                continue
            is_in_chain = view.detail.shows_only_operators and sender.box_id == receiver.box_id
            if is_in_chain and not edge.is_feedback:
                continue
            label = weight_text(edge.weight) if view.detail.shows_bodies else ""
            source = sender.source(edge.sender_port)
            for target in receiver.targets(edge.receiver_port):
                wire = self.numbering.wire(source, target, edge.path, label, edge)
                yield replace(wire, line_style="feedback") if edge.is_feedback else wire
