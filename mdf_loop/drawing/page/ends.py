"""Where the values of a node arrive and leave, and what is known while a page is built."""

from __future__ import annotations

from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.drawing.page.scene import Pin, Wire

End = tuple[int, str]
"""The number of a port or a box, and the stroke of what arrives there."""


class Ends(Struct):
    """Of one drawn node: where its ports and the names that its formulas read arrive and leave.

    A name may arrive in several places; what no port is for arrives at `whole`.
    """

    whole: int
    inputs: dict[str, list[End]] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    reads: dict[str, list[End]] = field(default_factory=dict)

    def arriving(self, port: str | None, name: str) -> list[End]:
        """Where a value arrives that is for a port or, without one, for a name in formulas."""
        found = self.inputs.get(port) if port is not None else self.reads.get(name)
        return found or [(self.whole, "data")]

    def leaving(self, port: str) -> int:
        """Where the value of an output port leaves."""
        return self.outputs.get(port, self.whole)


class Recording(Struct, frozen=True):
    """A right terminal with a row for each iteration: its frame and loop, its output `node.port`."""

    end: int
    frame: int
    loop: str
    name: str


class Numbers(Struct):
    """Gives every box and port its number, and remembers which value of the model leaves where.

    Of the graph that is run, `level` graphs deep, `values` has the ports by `node.port`, `loops` the
    frames by `node.function`, and `recordings` what its loops record; `moved` says into which box
    another one has gone.
    """

    level: int = 1
    depth: int = 0
    counter: count[int] = field(default_factory=lambda: count(1))
    values: dict[str, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    recordings: list[Recording] = field(default_factory=list)
    moved: dict[int, int] = field(default_factory=dict)

    def next(self) -> int:
        """A number that nothing has yet."""
        return next(self.counter)

    def end(self, name: str) -> int:
        """Where the value of `node.port` leaves."""
        return self.moved.get(self.values[name], self.values[name])


class Pins:
    """The ports of a box by which values cross its side; each is made when it is first asked for."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.left: dict[str, Pin] = {}
        self.right: dict[str, Pin] = {}
        self.wires: list[Wire] = []

    def enter(self, name: str, ends: list[End], port: Pin | None = None) -> End:
        """The port by which a value comes in, with wires from there to where it arrives."""
        if name not in self.left:
            made = port or Pin(0, name)
            self.left[name] = replace(made, id=self.numbers.next(), passes=True)
        kinds = {kind for _, kind in ends}
        self.wires += [Wire(self.left[name].id, end, kind) for end, kind in ends]
        return self.left[name].id, "capture" if kinds == {"capture"} else "data"

    def leave(self, name: str, source: int, port: Pin | None = None) -> int:
        """The port by which a value goes out, with a wire to it."""
        if name not in self.right:
            made = port or Pin(0, name)
            self.right[name] = replace(made, id=self.numbers.next(), passes=True)
            self.wires.append(Wire(source, self.right[name].id))
        return self.right[name].id
