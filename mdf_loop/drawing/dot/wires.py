"""Points of a picture at which the wires of a scene start and end, and drawing of the wires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from mdf_loop.drawing.dot.canvas import Canvas, EdgeEnd
from mdf_loop.drawing.scene.elements import Box, NodeEnds, Wire
from mdf_loop.drawing.view import View
from mdf_loop.outline import EdgeOutline


class Anchors(Struct, frozen=True):
    """Names of the first and the last DOT node of a box.

    `unanchored` are the names of DOT nodes beside frames, whose position edges do not determine.
    """

    first: str
    last: str
    unanchored: tuple[str, ...] = ()


StyledEnd: TypeAlias = tuple[EdgeEnd, str]
"""Point at which wires start or end, with a line style."""
BoxDrawer: TypeAlias = "Callable[[Picture, Box, View], None]"
"""Function that draws a box."""


class Picture:
    """Canvas of a scene, with the points at which wires start and end.

    Attributes:
        drawers: Function that draws a box, by the kind of the box.
        sources: Start of the wires from each port or box, by number, with a line style.
        targets: Ends of the wires to each port or box, by number, each with a line style. A wire to a port
            that passes a value ends at all readers inside the box.
        anchors: DOT nodes of each box, by number.
    """

    def __init__(self, canvas: Canvas, drawers: Mapping[str, BoxDrawer]) -> None:
        self.canvas = canvas
        self.drawers = drawers
        self.sources: dict[int, StyledEnd] = {}
        self.targets: dict[int, list[StyledEnd]] = {}
        self.anchors: dict[int, Anchors] = {}
        self._last_feedback_edge: EdgeOutline | None = None

    def draw_box(self, box: Box, view: View) -> None:
        """Draw a box and the boxes inside."""
        self.drawers[box.kind](self, box, view)

    def place_box(self, box: Box, first: str, last: str, unanchored: Iterable[str] = ()) -> None:
        """Register the DOT nodes of a box, which are also the ends of wires without a port."""
        self.anchors[box.id] = Anchors(first, last, tuple(unanchored))
        self.place_end(box.id, EdgeEnd(last), EdgeEnd(first))

    def place_end(self, number: int, source: EdgeEnd, target: EdgeEnd) -> None:
        """Register the points at which wires from and to a port or box start and end."""
        self.sources[number] = (source, "data")
        self.targets[number] = [(target, "data")]

    def place_port(self, number: int, dot_node: str, source_port: str, target_port: str) -> None:
        """Register the ports of a DOT node at which wires from and to a port or box start and end."""
        direction = self.canvas.direction
        self.place_end(
            number,
            EdgeEnd(dot_node, source_port, direction.leave_side),
            EdgeEnd(dot_node, target_port, direction.enter_side),
        )

    def continue_to(self, wire: Wire) -> None:
        """Let wires that end at the source of `wire`, a port of a box, continue to its target."""
        targets = self.targets.setdefault(wire.source, [])
        targets += [(end, _joint_style(wire, style)) for end, style in self.targets[wire.target]]

    def continue_from(self, wire: Wire) -> None:
        """Let wires that start at the target of `wire`, a port of a box, start at its source."""
        end, style = self.sources[wire.source]
        self.sources[wire.target] = (end, _joint_style(wire, style))

    def shows_wire(self, wire: Wire) -> bool:
        """Return True if at least one of the edges for a wire is not hidden."""
        styles = (_joint_style(wire, style) for _, style in self.targets[wire.target])
        return any(style not in self.canvas.hidden_line_styles for style in styles)

    def draw_wires(self, wires: Iterable[Wire]) -> None:
        """Draw the edges for wires, without hidden ones."""
        for wire in wires:
            self._draw(wire, self.sources[wire.source], self.targets[wire.target])

    def _draw(self, wire: Wire, source: StyledEnd, targets: list[StyledEnd]) -> None:
        """Draw the edges for a wire from `source` to `targets`, without hidden ones."""
        for target_end, target_style in targets:
            line_style = _joint_style(wire, source[1], target_style)
            if line_style not in self.canvas.hidden_line_styles:
                self.canvas.add_edge(source[0], target_end, line_style, wire.path, wire.label)

    def draw_edge(self, wire: Wire, ends_by_node: Mapping[str, NodeEnds], view: View) -> None:
        """Draw a wire of a graph. A feedback edge connects whole boxes and names its ports.

        An edge of an unknown port ends anywhere at the box, not at its header.
        """
        edge = wire.edge
        if edge is None or not edge.is_feedback:
            source, targets = self.sources[wire.source], self.targets[wire.target]
            if wire.source in self.anchors:
                source = (EdgeEnd(self.anchors[wire.source].last), "data")
            if wire.target in self.anchors:
                targets = [(EdgeEnd(self.anchors[wire.target].first), "data")]
            self._draw(wire, source, targets)
        elif edge is not self._last_feedback_edge:
            self._last_feedback_edge = edge
            ports_text = f"{edge.sender_port} → {edge.receiver_port} {wire.label}".strip()
            self.canvas.add_edge(
                EdgeEnd(self.anchors[ends_by_node[edge.sender].box_id].first),
                EdgeEnd(self.anchors[ends_by_node[edge.receiver].box_id].last),
                "feedback",
                edge.path,
                ports_text if view.detail.shows_bodies else "",
            )


def _joint_style(wire: Wire, *styles: str) -> str:
    """Return the line style of a wire that continues wires in other styles."""
    return "capture" if "capture" in styles else wire.line_style
