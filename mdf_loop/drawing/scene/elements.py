"""Elements of a scene: nested boxes, ports at their sides, and wires, all with numbers.

Each number belongs to one box or one port of the whole scene. A wire connects two numbers: ports, or whole
boxes. A value that crosses the side of a box passes a port, with a wire outside and wires inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from msgspec import Struct, field

from mdf_loop.drawing.flow import Flow
from mdf_loop.drawing.scene.terminals import Terminal
from mdf_loop.outline import EdgeOutline, GraphOutline, NodeOutline


class Port(Struct, frozen=True):
    """Port at a side of a box.

    Attributes:
        id: Number of the port.
        name: Name of the node's port or of the value.
        terminal: Input or output of the loop or conditional that the port shows.
    """

    id: int
    name: str = ""
    terminal: Terminal | None = None


class Wire(Struct, frozen=True):
    """Wire from one port or box to another.

    Attributes:
        line_style: Name of a style in `LINE_STYLES`.
        path: Path of the wire in the document. A wire without a path only continues another wire at a port of
            the box around it.
        edge: Edge of the graph that the wire represents.
    """

    source: int
    target: int
    line_style: str = "data"
    label: str = ""
    path: str = ""
    edge: EdgeOutline | None = None


class Box(Struct, frozen=True):
    """Box of a part of the model, which may contain other boxes.

    Kinds and the class of their `outline`:

        node, closed, owner, input, constant, operator    NodeOutline
        chain                                             tuple[NodeOutline, ...]
        loop, choice                                      LoopOutline, ConditionalOutline
        branch                                            BranchOutline
        formula                                           OwnFormula
        input                                             InputOutline
        output, passed                                    OutputOutline

    Attributes:
        left_ports: Ports on the left. `left_ports[k]` and `right_ports[k]` of a loop are in one row.
        right_ports: Ports on the right.
        scene: Boxes inside, and the wires between them and the ports of this box.
        back_wires: Wires from a right port to a left port inside the box, for a later iteration.
        node: Node that consists of only this loop or conditional.
    """

    id: int
    kind: str
    outline: Any
    path: str = ""
    left_ports: tuple[Port | None, ...] = ()
    right_ports: tuple[Port | None, ...] = ()
    scene: Scene | None = None
    back_wires: tuple[Wire, ...] = ()
    node: NodeOutline | None = None

    def split_wires(self, wires: Iterable[Wire]) -> tuple[list[Wire], list[Wire]]:
        """Return the wires that do not touch the ports of this box, and the wires that do."""
        own_ports = {port.id for port in (*self.left_ports, *self.right_ports) if port is not None}
        inner_and_port_wires: tuple[list[Wire], list[Wire]] = [], []
        for wire in wires:
            inner_and_port_wires[not own_ports.isdisjoint((wire.source, wire.target))].append(wire)
        return inner_and_port_wires


class NodeEnds(Struct):
    """Ends of wires at the box of a node, by input port, by output port, and by the name of a value read.

    A port or name may have several targets. `box_id` is the end of a value without a port.
    """

    box_id: int
    inputs: dict[str, list[int]] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    targets_by_name: dict[str, list[int]] = field(default_factory=dict)

    def targets(self, port: str | None, name: str = "") -> list[int]:
        """Return the ends of wires to an input port, or to formulas that read the value `name`."""
        wire_targets = self.inputs.get(port) if port is not None else self.targets_by_name.get(name)
        return wire_targets or [self.box_id]

    def source(self, port: str) -> int:
        """Return the number of the port or box at which wires from an output port start."""
        return self.outputs.get(port, self.box_id)


class Scene(Struct, frozen=True):
    """Boxes side by side, and the wires between these boxes.

    Attributes:
        graph: Graph of the nodes among the boxes, as the model states it.
        ends_by_node: Ends of wires at each node with a box, by id.
        flow: Chains of the nodes of a large graph, each with one of the first boxes.
    """

    boxes: tuple[Box, ...] = ()
    wires: tuple[Wire, ...] = ()
    graph: GraphOutline | None = None
    ends_by_node: dict[str, NodeEnds] = field(default_factory=dict)
    flow: Flow | None = None

    @property
    def path(self) -> str:
        """Path of the graph in the document."""
        return "" if self.graph is None else self.graph.path


class Numbering(Struct):
    """Generator of unique numbers for boxes and ports, and of wires between them.

    `captured_ends` are the ports at which only captured values enter.
    """

    number_counter: count[int] = field(default_factory=lambda: count(1))
    captured_ends: set[int] = field(default_factory=set)

    def next(self) -> int:
        """Return an unused number for a box or a port."""
        return next(self.number_counter)

    def wire(
        self,
        source: int,
        target: int,
        path: str = "",
        label: str = "",
        edge: EdgeOutline | None = None,
    ) -> Wire:
        """Create a wire, whose line style tells captured values from others."""
        line_style = "data" if self.captured_ends.isdisjoint((source, target)) else "capture"
        return Wire(source, target, line_style, label, path, edge)


class Crossing:
    """Ports of a box through which values enter and leave, each created on first use."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.left_ports: dict[str, Port] = {}
        self.right_ports: dict[str, Port] = {}

    def entry(self, name: str) -> int:
        """Return the number of the port at which the value `name` enters the box."""
        return self._port(self.left_ports, name)

    def exit(self, name: str) -> int:
        """Return the number of the port at which the value `name` leaves the box."""
        return self._port(self.right_ports, name)

    def _port(self, ports: dict[str, Port], name: str) -> int:
        """Return the number of the port for a value at one side of the box."""
        if name not in ports:
            ports[name] = Port(self.numbering.next(), name)
        return ports[name].id
