"""Ends of a node's values on a page, and the numbering of boxes and ports."""

from __future__ import annotations

from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.drawing.page.scene import Port, Wire

End = tuple[int, str]
"""Number of a port or a box, with the stroke of wires that end there."""


class NodeEnds(Struct):
    """Ends of a node: where values of its ports, and of the names that its formulas read, arrive and leave.

    A name may arrive in several places. A value without a port arrives at `box_id`.
    """

    box_id: int
    inputs: dict[str, list[End]] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    reads: dict[str, list[End]] = field(default_factory=dict)

    def targets(self, port: str | None, name: str) -> list[End]:
        """Return the ends at which a value arrives, by input port or, without one, by name in formulas."""
        ends = self.inputs.get(port) if port is not None else self.reads.get(name)
        return ends or [(self.box_id, "data")]

    def source(self, port: str) -> int:
        """Return the number at which the value of an output port leaves."""
        return self.outputs.get(port, self.box_id)


class Recording(Struct, frozen=True):
    """Right terminal with a row for each iteration: its frame, its loop, and its output `node.port`."""

    end: int
    frame: int
    loop: str
    name: str


class Numbering(Struct):
    """Numbers of all boxes and ports, and the ports at which values of the model leave.

    Attributes:
        level: Depth of the graph that is run.
        depth: Depth of the graph under construction.
        values: Ports of the graph that is run, by `node.port`.
        loops: Frames of the graph that is run, by `node.function`.
        recordings: Recorded values of the loops in that graph.
        box_of_run: Box of the run that a box was joined into.
    """

    level: int = 1
    depth: int = 0
    counter: count[int] = field(default_factory=lambda: count(1))
    values: dict[str, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    recordings: list[Recording] = field(default_factory=list)
    box_of_run: dict[int, int] = field(default_factory=dict)

    def next(self) -> int:
        """Return a new number."""
        return next(self.counter)

    def end(self, name: str) -> int:
        """Return the number at which the value of `node.port` leaves."""
        return self.box_of_run.get(self.values[name], self.values[name])


class BoxPorts:
    """Ports through which values cross the sides of a box. Each is created on first use."""

    def __init__(self, numbers: Numbering) -> None:
        self.numbers = numbers
        self.left: dict[str, Port] = {}
        self.right: dict[str, Port] = {}
        self.wires: list[Wire] = []

    def enter(self, name: str, ends: list[End], port: Port | None = None) -> End:
        """Return the port through which a value enters, with wires from there to its targets."""
        if name not in self.left:
            template = port or Port(0, name)
            self.left[name] = replace(template, id=self.numbers.next(), passes=True)
        kinds = {kind for _, kind in ends}
        self.wires += [Wire(self.left[name].id, end, kind) for end, kind in ends]
        return self.left[name].id, "capture" if kinds == {"capture"} else "data"

    def leave(self, name: str, source: int, port: Port | None = None) -> int:
        """Return the port through which a value leaves, with a wire to it."""
        if name not in self.right:
            template = port or Port(0, name)
            self.right[name] = replace(template, id=self.numbers.next(), passes=True)
            self.wires.append(Wire(source, self.right[name].id))
        return self.right[name].id
