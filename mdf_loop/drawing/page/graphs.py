"""A graph as a scene: a box for each node, wires for its edges, pills for what comes in and goes out."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.drawing.page.ends import Ends, Numbers
from mdf_loop.drawing.page.fitting import fitted
from mdf_loop.drawing.page.nodes import TITLE, node_box, operator, pill, small_box
from mdf_loop.drawing.page.owners import owner_box
from mdf_loop.drawing.page.scene import Box, Scene, Wire
from mdf_loop.drawing.page.terminals import ALL
from mdf_loop.drawing.small import inlined
from mdf_loop.drawing.weights import without_weights
from mdf_loop.outline import GraphOutline, NodeOutline
from mdf_loop.outline.text import shorten_name, value_text, weight_text

FEW = 12
"""Of more nodes imported operators are words, in runs, and constants are not shown."""


def model_scene(graph: GraphOutline, numbers: Numbers) -> Scene:
    """The whole model."""
    scene, ends = _Maker(numbers).made(graph)
    boxes, wires = [*scene.boxes], [*scene.wires]
    inputs = {node.id for node in graph.nodes if node.is_input}
    for given in graph.inputs:
        if given.node in ends and given.node not in inputs:
            said = "" if given.default is None else f" = {value_text(given.default, 24)}"
            box = pill(numbers, "input", given.name, given.type, given.path, said)
            boxes.append(box)
            places = ends[given.node].arriving(given.port, given.name)
            wires += [Wire(box.id, end, kind) for end, kind in places]
    for output in graph.outputs:
        if output.node in ends:
            box = pill(numbers, "output", output.name, output.type, output.path)
            boxes.append(box)
            wires.append(Wire(ends[output.node].leaving(output.port), box.id))
    return fitted(Scene(tuple(boxes), tuple(wires)), numbers)


class _Maker(Struct, frozen=True):
    """Makes scenes of graphs with one row of numbers."""

    numbers: Numbers

    def made(self, graph: GraphOutline) -> tuple[Scene, dict[str, Ends]]:
        """Boxes and wires of a graph, and where its nodes are reached."""
        self.numbers.depth += 1
        graph = inlined(without_weights(graph, ALL), ALL)
        many = len(graph.nodes) > FEW
        fed = {edge.receiver for edge in graph.edges}
        boxes: list[Box] = []
        ends: dict[str, Ends] = {}
        for node in graph.nodes:
            if many and node.constant is not None:
                continue
            if node.blocks:
                outer = frozenset(i.name for i in graph.inputs if i.node == node.id)
                box, found = owner_box(node, outer, self.numbers, self.made)
            else:
                box, found = self._drawn(node, node.id in fed, many)
            ends[node.id] = found
            boxes.append(box)
        wires = tuple(_wires(graph, ends))
        if self.numbers.depth == self.numbers.level:
            self.numbers.values |= {
                f"{name}.{port}": end
                for name, found in ends.items()
                for port, end in found.outputs.items()
            }
        self.numbers.depth -= 1
        return Scene(tuple(boxes), wires), ends

    def _drawn(self, node: NodeOutline, is_fed: bool, many: bool) -> tuple[Box, Ends]:
        if node.is_input and not is_fed:
            return small_box(node, self.numbers, "input", shorten_name(node.id, TITLE))
        if node.constant is not None:
            said = f"{shorten_name(node.id, TITLE)} = {value_text(node.constant, 24)}"
            return small_box(node, self.numbers, "constant", said)
        if many and operator(node):
            return small_box(node, self.numbers, "operator", operator(node))
        return node_box(node, self.numbers)


def _wires(graph: GraphOutline, ends: dict[str, Ends]) -> list[Wire]:
    found = []
    for edge in graph.edges:
        if edge.sender in ends and edge.receiver in ends:
            source = ends[edge.sender].leaving(edge.sender_port)
            label = weight_text(edge.weight)
            for end, kind in ends[edge.receiver].arriving(edge.receiver_port, ""):
                stroke = "feedback" if edge.feedback else kind
                found.append(Wire(source, end, stroke, label))
    return found
