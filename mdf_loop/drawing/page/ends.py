"""Ends of wires at the nodes of a page, and unique numbers for boxes and ports."""

from __future__ import annotations

from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.drawing.page.scene import Port, Wire

WireEnd = tuple[int, str]
"""Number of a port or a box, with the line style of wires that end there."""


class NodeEnds(Struct):
    """Ends of wires at a node, by input port, by output port, and by the name of a value read.

    A port or name may have several targets. `box_id` is the target of a value without a port.
    """

    box_id: int
    inputs: dict[str, list[WireEnd]] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    targets_by_name: dict[str, list[WireEnd]] = field(default_factory=dict)

    def targets(self, port: str | None, name: str) -> list[WireEnd]:
        """Return the ends of wires to an input port, or to formulas that read the value `name`."""
        ends = self.inputs.get(port) if port is not None else self.targets_by_name.get(name)
        return ends or [(self.box_id, "data")]

    def source(self, port: str) -> int:
        """Return the number of the port or box at which wires from an output port start."""
        return self.outputs.get(port, self.box_id)


class Recording(Struct, frozen=True):
    """Port at a drawn loop for a recorded value, with the names of the loop and the output."""

    port_number: int
    frame_number: int
    loop_name: str
    output_name: str


class Numbering(Struct):
    """Generator of unique numbers for boxes and ports, and registry of observed ports and loops.

    Attributes:
        observed_depth: Nesting depth of the graph whose values a run observes.
        current_depth: Nesting depth of the graph under construction.
        port_number_by_output: Ports of the observed graph, by `node.port`.
        frame_number_by_loop: Frames of the observed graph, by `node.function`.
        recordings: Recorded values of the loops in the observed graph.
        chain_box_by_operator: Box of a chain of operators, by the box of each operator in the chain.
    """

    observed_depth: int = 1
    current_depth: int = 0
    number_counter: count[int] = field(default_factory=lambda: count(1))
    port_number_by_output: dict[str, int] = field(default_factory=dict)
    frame_number_by_loop: dict[str, int] = field(default_factory=dict)
    recordings: list[Recording] = field(default_factory=list)
    chain_box_by_operator: dict[int, int] = field(default_factory=dict)

    def next(self) -> int:
        """Return an unused number for a box or a port."""
        return next(self.number_counter)

    def value_source(self, name: str) -> int:
        """Return the number of the port or box that provides the value `node.port`."""
        return self.chain_box_by_operator.get(
            self.port_number_by_output[name], self.port_number_by_output[name]
        )


class BoxPorts:
    """Ports of a box through which values enter and leave, each created on first use."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.left_ports: dict[str, Port] = {}
        self.right_ports: dict[str, Port] = {}
        self.wires: list[Wire] = []

    def entry_port(self, name: str, ends: list[WireEnd], port: Port | None = None) -> WireEnd:
        """Return the port at which a value enters a box, with wires from the port to `ends`."""
        if name not in self.left_ports:
            port_template = port or Port(0, name)
            self.left_ports[name] = replace(
                port_template, id=self.numbering.next(), passes_value=True
            )
        line_styles = {line_style for _, line_style in ends}
        self.wires += [Wire(self.left_ports[name].id, end, line_style) for end, line_style in ends]
        return self.left_ports[name].id, "capture" if line_styles == {"capture"} else "data"

    def exit_port(self, name: str, source: int, port: Port | None = None) -> int:
        """Return the port at which a value leaves a box, with a wire from `source` to the port."""
        if name not in self.right_ports:
            port_template = port or Port(0, name)
            self.right_ports[name] = replace(
                port_template, id=self.numbering.next(), passes_value=True
            )
            self.wires.append(Wire(source, self.right_ports[name].id))
        return self.right_ports[name].id
