"""Boxes of loops and conditionals on a page, with the boxes of bodies and branches inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from mdf_loop.drawing.frames import block_name, describe_schedule
from mdf_loop.drawing.page.ends import BoxPorts, NodeEnds, Numbering, Recording, WireEnd
from mdf_loop.drawing.page.fitting import simplify_scene
from mdf_loop.drawing.page.nodes import build_pill_box
from mdf_loop.drawing.page.scene import Box, Port, Scene, Wire
from mdf_loop.drawing.page.terminals import build_terminals
from mdf_loop.drawing.terminal_tables import Terminal
from mdf_loop.drawing.theme import MARKS
from mdf_loop.outline import (
    Block,
    BranchOutline,
    ConditionalOutline,
    GraphOutline,
    LoopOutline,
    OutputOutline,
)
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.pseudocode import pseudocode
from mdf_loop.outline.text import shorten, shorten_name
from mdf_loop.outline.words import headline

GraphBuilder: TypeAlias = Callable[[GraphOutline], tuple[Scene, dict[str, NodeEnds]]]
"""Function that builds the scene of a graph, and the ends of its nodes by id."""

MAX_NAME_LENGTH, MAX_REMARK_LENGTH, MAX_TITLE_LENGTH = 36, 44, 80
"""Maximum number of characters of a terminal's name, of its remark, and of a frame's title."""


class FrameBuilder:
    """Builder of the box of a loop or conditional, with its ports, wires and inner boxes."""

    def __init__(self, block: Block, numbering: Numbering) -> None:
        self.block = block
        self.numbering = numbering
        self.terminals = build_terminals(block)
        self.left_ports = {
            terminal.key: self._port(terminal)
            for terminal, _ in self.terminals.rows
            if terminal is not None
        }
        self.right_ports = {
            terminal.key: self._port(terminal)
            for _, terminal in self.terminals.rows
            if terminal is not None
        }

    def _port(self, terminal: Terminal) -> Port:
        """Create the port that shows an input or output of the loop or conditional."""
        return Port(
            self.numbering.next(),
            shorten_name(terminal.name, MAX_NAME_LENGTH),
            shorten(terminal.remark, MAX_REMARK_LENGTH),
            terminal.mark_kind,
            passes_value=terminal.mark_kind in ("captured", "join"),
        )

    def box(self, build_graph: GraphBuilder) -> Box:
        """Return the box of the loop or conditional, with the boxes of its bodies or branches."""
        box_number = self.numbering.next()
        if isinstance(self.block, LoopOutline):
            self._register_loop(self.block, box_number)
        left_ports = {
            terminal.key: self.left_ports[terminal.key]
            for terminal, _ in self.terminals.rows
            if terminal is not None
        }
        return Box(
            id=box_number,
            kind=self.block.block_type,
            title=shorten(headline(self.block), MAX_TITLE_LENGTH),
            remark=block_name(self.block),
            left_ports=tuple(
                left_ports[terminal.key] if terminal else None
                for terminal, _ in self.terminals.rows
            ),
            right_ports=tuple(
                self.right_ports[terminal.key] if terminal else None
                for _, terminal in self.terminals.rows
            ),
            inner_scene=self._inner_scene(build_graph),
            back_wires=tuple(self._back_wires()),
            details=tuple(self._details()),
            path=self.block.path,
        )

    def _register_loop(self, loop: LoopOutline, number: int) -> None:
        """Register the loop, so that the page of a run can show iterations and recorded values."""
        if loop.kind == "over time":
            self.numbering.frame_number_by_loop[OVER_TIME] = number
        elif self.numbering.current_depth == self.numbering.observed_depth:
            self.numbering.frame_number_by_loop[loop.full_name] = number
            self.numbering.recordings += [
                Recording(
                    self.right_ports[f"r{k}"].id, number, loop.full_name, f"{loop.owner_id}.{port}"
                )
                for k, recorded_value in enumerate(loop.recorded_values)
                for port in recorded_value.ports[:1]
                if not recorded_value.remark
            ]

    def _back_wires(self) -> Iterator[Wire]:
        """Yield the wires that carry values of a loop to a later iteration."""
        for source_key, target_key, label in self.terminals.back_edges:
            if source_key in self.right_ports and target_key in self.left_ports:
                yield Wire(
                    self.right_ports[source_key].id, self.left_ports[target_key].id, "back", label
                )

    def _details(self) -> Iterator[tuple[str, str]]:
        """Yield (title, text) pairs about the box, such as notes, inputs, outputs and pseudo-code."""
        yield "id", self.block.full_name
        yield from (("note", note) for note in self.block.notes)
        if isinstance(self.block, LoopOutline):
            yield from (
                ("schedule", terminal_text) for terminal_text in describe_schedule(self.block)
            )
        for terminal in (
            row_terminal
            for row in self.terminals.rows
            for row_terminal in row
            if row_terminal is not None
        ):
            terminal_text = " ".join(text for text in (terminal.name, terminal.remark) if text)
            yield MARKS[terminal.mark_kind].legend_text, terminal_text
        yield "code", "\n".join(pseudocode(self.block))

    def _inner_scene(self, build_graph: GraphBuilder) -> Scene | None:
        """Return the boxes and wires of a loop's body, or of all branches of a conditional."""
        if isinstance(self.block, ConditionalOutline):
            return _merge_scenes(
                [self._branch_scene(branch, build_graph) for branch in self.block.branches]
            )
        if self.block.body is None:
            return None
        body = self.block.body
        scene, ends_by_node = build_graph(body)
        wires = (
            *self._input_wires(body, ends_by_node),
            *self._output_wires(body.outputs, ends_by_node),
        )
        return simplify_scene(Scene(scene.boxes, (*scene.wires, *wires)), self.numbering)

    def _input_wires(self, body: GraphOutline, ends_by_node: dict[str, NodeEnds]) -> Iterator[Wire]:
        """Yield wires from the input ports of a loop's box to the readers inside the body."""
        for body_input in body.inputs:
            terminal_key, terminal_line_style = self.terminals.terminal_by_name.get(
                body_input.name, ("", "")
            )
            if terminal_key in self.left_ports and body_input.node_id in ends_by_node:
                for end, target_line_style in ends_by_node[body_input.node_id].targets(
                    body_input.port_id, body_input.name
                ):
                    line_style = (
                        "capture"
                        if "capture" in (terminal_line_style, target_line_style)
                        else "data"
                    )
                    yield Wire(self.left_ports[terminal_key].id, end, line_style)

    def _output_wires(
        self, outputs: tuple[OutputOutline, ...], ends_by_node: dict[str, NodeEnds]
    ) -> Iterator[Wire]:
        """Yield wires to the output ports of a loop's box, from its body or from its input ports."""
        for terminal_key, output in zip(self.terminals.output_keys, outputs, strict=False):
            target_port = self.right_ports.get(terminal_key)
            if target_port is None:
                continue
            if output.node_id in ends_by_node:
                yield Wire(ends_by_node[output.node_id].source(output.port_id), target_port.id)
            elif output.port_id in self.terminals.terminal_by_name:
                source_key, line_style = self.terminals.terminal_by_name[output.port_id]
                if source_key in self.left_ports:
                    yield Wire(self.left_ports[source_key].id, target_port.id, line_style)

    def _branch_scene(self, branch: BranchOutline, build_graph: GraphBuilder) -> Scene:
        """Return the box of a branch, with wires between the branch and the conditional's ports."""
        box_ports = BoxPorts(self.numbering)
        scene: Scene = Scene((), ())
        ends_by_node: dict[str, NodeEnds] = {}
        if branch.body is not None:
            scene, ends_by_node = build_graph(branch.body)
        pass_through_boxes = self._pass_through_boxes(branch)
        ends_by_node |= {
            f"passed {name}": NodeEnds(pass_through_box.id)
            for name, pass_through_box in pass_through_boxes.items()
        }
        outer_wires = list(self._branch_input_wires(branch, ends_by_node, box_ports))
        for terminal_key, output in zip(self.terminals.output_keys, branch.outputs, strict=False):
            source_ends = ends_by_node.get(output.node_id or f"passed {output.port_id}")
            if terminal_key in self.right_ports and source_ends is not None:
                exit_port = box_ports.exit_port(
                    f"{terminal_key} {output.port_id}", source_ends.source(output.port_id), Port(0)
                )
                outer_wires.append(Wire(exit_port, self.right_ports[terminal_key].id))
        inner_scene = Scene(
            (*scene.boxes, *pass_through_boxes.values()), (*scene.wires, *box_ports.wires)
        )
        box = Box(
            id=self.numbering.next(),
            kind="branch",
            title=shorten(branch.title, MAX_TITLE_LENGTH),
            inner_scene=simplify_scene(inner_scene, self.numbering),
            details=(("id", branch.title), *(("note", note) for note in branch.notes)),
            path=self.block.path if branch.body is None else branch.body.path,
            left_ports=tuple(box_ports.left_ports.values()),
            right_ports=tuple(box_ports.right_ports.values()),
        )
        return Scene((box,), tuple(outer_wires))

    def _pass_through_boxes(self, branch: BranchOutline) -> dict[str, Box]:
        """Return a pill-shaped box for each value that a branch returns unchanged."""
        return {
            output.port_id: build_pill_box(
                self.numbering, "passed", output.port_id, "passed through", output.path
            )
            for output in branch.outputs
            if output.node_id is None and output.port_id
        }

    def _branch_input_wires(
        self, branch: BranchOutline, ends_by_node: dict[str, NodeEnds], box_ports: BoxPorts
    ) -> Iterator[Wire]:
        """Yield wires from the input ports of a conditional's box to the box of a branch."""
        targets_by_name: dict[str, list[WireEnd]] = {}
        for body_input in branch.body.inputs if branch.body else ():
            if body_input.node_id in ends_by_node:
                targets_by_name.setdefault(body_input.name, []).extend(
                    ends_by_node[body_input.node_id].targets(body_input.port_id, body_input.name)
                )
        for output in branch.outputs:
            if output.node_id is None and output.port_id:
                pill_id = ends_by_node[f"passed {output.port_id}"].box_id
                targets_by_name.setdefault(output.port_id, []).append((pill_id, "data"))
        for name, targets in targets_by_name.items():
            terminal_key, terminal_line_style = self.terminals.terminal_by_name.get(name, ("", ""))
            if terminal_key in self.left_ports:
                entry_end, _ = box_ports.entry_port(name, list(dict.fromkeys(targets)), Port(0))
                yield Wire(self.left_ports[terminal_key].id, entry_end, terminal_line_style)


def _merge_scenes(scenes: list[Scene]) -> Scene:
    """Merge the boxes and wires of several scenes into one scene."""
    return Scene(
        tuple(box for scene in scenes for box in scene.boxes),
        tuple(wire for scene in scenes for wire in scene.wires),
    )
