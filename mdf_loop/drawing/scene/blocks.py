"""Boxes of loops and conditionals in a scene, with the boxes of bodies and branches inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from mdf_loop.drawing.scene.elements import Box, Crossing, NodeEnds, Numbering, Port, Scene, Wire
from mdf_loop.drawing.scene.terminals import (
    RESULT_MARKS,
    Terminal,
    back_edges,
    terminal_rows,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import (
    Block,
    BranchOutline,
    ConditionalOutline,
    GraphOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
)
from mdf_loop.outline.text import weight_text

GraphBuilder: TypeAlias = Callable[[GraphOutline, View], Scene]
"""Function that builds the scene of a graph."""


class BlockBuilder:
    """Builder of the box of a loop or conditional, with its ports, wires and inner boxes.

    Attributes:
        inputs: Numbers of the left ports, by the name in the body.
        results: Numbers of the right ports that show results.
        outputs: Numbers of the right ports, by output port of the node.
        readers: Numbers of the left ports, each with the expressions from outside that it reads.
    """

    def __init__(self, block: Block, view: View, numbering: Numbering) -> None:
        self.block = block
        self.view = view
        self.numbering = numbering
        rows = terminal_rows(block, view)
        self.left_ports = tuple(self._port(terminal) for terminal, _ in rows)
        self.right_ports = tuple(self._port(terminal) for _, terminal in rows)
        left, right = list(_shown(self.left_ports)), list(_shown(self.right_ports))
        self.inputs = {terminal.body_name: port_number for port_number, terminal in reversed(left)}
        self.inputs.pop("", None)
        self.results = [
            port_number for port_number, terminal in right if terminal.mark_kind in RESULT_MARKS
        ]
        self.outputs = {
            output_port: port_number
            for port_number, terminal in right
            for output_port in terminal.ports
        }
        self.readers: list[tuple[int, tuple[Any, ...]]] = [
            (port_number, terminal.expressions) for port_number, terminal in left
        ]

    def _port(self, terminal: Terminal | None) -> Port | None:
        """Create the port that shows an input or output of the loop or conditional."""
        if terminal is None:
            return None
        port = Port(self.numbering.next(), terminal.name, terminal)
        if terminal.mark_kind == "captured":
            self.numbering.captured_ends.add(port.id)
        return port

    def box(self, build_graph: GraphBuilder, node: NodeOutline | None = None) -> Box:
        """Return the box of the loop or conditional. `node` is the node if the box stands for it."""
        return Box(
            id=self.numbering.next(),
            kind=self.block.block_type,
            outline=self.block,
            path=self.block.path,
            left_ports=self.left_ports,
            right_ports=self.right_ports,
            scene=self._inner_scene(self.block, build_graph),
            back_wires=tuple(self._back_wires(self.block)),
            node=node,
        )

    def _back_wires(self, block: Block) -> Iterator[Wire]:
        """Yield the wires that carry values of a loop to a later iteration."""
        if isinstance(block, LoopOutline):
            inputs = {
                terminal.key: (number, terminal) for number, terminal in _shown(self.left_ports)
            }
            sources = {terminal.key: number for number, terminal in _shown(self.right_ports)}
            for source_key, target_key, label in back_edges(block):
                target, terminal = inputs[target_key]
                path = f"{block.path} {terminal.body_name}"
                yield Wire(sources[source_key], target, "back", label, path)

    def _inner_scene(self, block: Block, build_graph: GraphBuilder) -> Scene | None:
        """Return the boxes and wires of a loop's body, or of all branches of a conditional."""
        if isinstance(block, ConditionalOutline):
            branches = [self._branch(branch, build_graph) for branch in block.branches]
            return Scene(
                tuple(box for box, _ in branches),
                tuple(wire for _, wires in branches for wire in wires),
            )
        if block.body is None or not self.view.detail.shows_bodies:
            return None
        scene = build_graph(block.body, self.view.inside_frame())
        wires = (
            *self._input_wires(block.body, scene.ends_by_node),
            *self._output_wires(block.body.outputs, scene.ends_by_node),
        )
        return replace(scene, wires=(*scene.wires, *wires))

    def _input_wires(
        self,
        body: GraphOutline,
        ends_by_node: dict[str, NodeEnds],
        crossing: Crossing | None = None,
    ) -> Iterator[Wire]:
        """Yield the wires from the inputs to the readers in a body, through the ports of `crossing`."""
        for body_input in body.inputs:
            name = body_input.name
            if name in self.inputs and body_input.node_id in ends_by_node:
                source_port = crossing.entry(name) if crossing else self.inputs[name]
                label = weight_text(body_input.weight)
                for target in ends_by_node[body_input.node_id].targets(body_input.port_id, name):
                    yield self.numbering.wire(source_port, target, body_input.path, label)

    def _output_wires(
        self,
        outputs: tuple[OutputOutline, ...],
        ends_by_node: dict[str, NodeEnds],
    ) -> Iterator[Wire]:
        """Yield the wires to the outputs of a loop, from its body or from its inputs."""
        condition_ports: list[int | None] = [
            port_number for port_number, terminal in _shown(self.right_ports) if terminal.key == "c"
        ]
        for target, output in zip(
            (*(condition_ports or [None]), *self.results), outputs, strict=False
        ):
            if target is None:
                continue
            if output.node_id in ends_by_node:
                source = ends_by_node[output.node_id].source(output.port_id)
                yield self.numbering.wire(source, target, output.path)
            elif output.port_id in self.inputs:
                yield self.numbering.wire(self.inputs[output.port_id], target, output.path)

    # --- branches -----------------------------------------------------------------------------

    def _branch(self, branch: BranchOutline, build_graph: GraphBuilder) -> tuple[Box, list[Wire]]:
        """Return the box of a branch, and the wires between the branch and the conditional's ports."""
        is_open = branch.body is None or self.view.detail.shows_bodies
        body = branch.body if is_open else None
        scene = Scene() if body is None else build_graph(body, self.view.inside_frame())
        passed_value_boxes = self._passed_boxes(branch) if is_open else {}
        branch_ports = Crossing(self.numbering)
        wires = [*scene.wires]
        if body is not None:
            wires += self._input_wires(body, scene.ends_by_node, branch_ports)
        for output in branch.outputs if passed_value_boxes else ():
            if output.node_id is None and output.port_id in self.inputs:
                source, target = (
                    branch_ports.entry(output.port_id),
                    passed_value_boxes[output.port_id].id,
                )
                wires.append(self.numbering.wire(source, target, output.path))
        outer_wires = [
            self.numbering.wire(self.inputs[name], port.id)
            for name, port in branch_ports.left_ports.items()
        ]
        for k, (target, output) in enumerate(zip(self.results, branch.outputs, strict=False)):
            if output.node_id in scene.ends_by_node:
                source = scene.ends_by_node[output.node_id].source(output.port_id)
            elif output.port_id in passed_value_boxes:
                source = passed_value_boxes[output.port_id].id
            else:
                continue
            exit_port = branch_ports.exit(f"{k} {output.port_id}")
            wires.append(self.numbering.wire(source, exit_port))
            outer_wires.append(self.numbering.wire(exit_port, target, f"{output.path} {k}"))
        box = Box(
            id=self.numbering.next(),
            kind="branch",
            outline=branch,
            path=self.block.path if branch.body is None else branch.body.path,
            left_ports=tuple(branch_ports.left_ports.values()),
            right_ports=tuple(branch_ports.right_ports.values()),
            scene=replace(
                scene, boxes=(*scene.boxes, *passed_value_boxes.values()), wires=tuple(wires)
            ),
        )
        return box, outer_wires

    def _passed_boxes(self, branch: BranchOutline) -> dict[str, Box]:
        """Return a box for each value that a branch returns unchanged, by the name of the value."""
        boxes: dict[str, Box] = {}
        for output in branch.outputs:
            if output.node_id is None and output.port_id and output.port_id not in boxes:
                boxes[output.port_id] = Box(self.numbering.next(), "passed", output, output.path)
        return boxes


def _shown(ports: tuple[Port | None, ...]) -> Iterator[tuple[int, Terminal]]:
    """Yield the number and the terminal of each port that shows a terminal."""
    for port in ports:
        if port is not None and port.terminal is not None:
            yield port.id, port.terminal
