"""What a page shows: boxes inside of boxes, ports at their sides, and wires between ports, by number.

A number belongs to one box or one port of the whole page. A wire goes from number to number: a port, or a
box as a whole. What crosses the side of a box that is open goes through a port of it: such a port has a
wire outside and wires inside. The page asks nothing of names; they are texts to be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from mdf_loop.outline.text import shorten
from mdf_loop.visible import on_one_line, visible

LONGEST = 4000
"""Of a longer text a page has its beginning."""


class Pin(Struct, frozen=True):
    """Where values enter or leave a box; `passes` if what leaves it is the value that came."""

    id: int
    name: str = ""
    below: str = ""
    kind: str = ""
    passes: bool = False


class Wire(Struct, frozen=True):
    """A value on its way; `kind` is a stroke of the legend."""

    source: int
    target: int
    kind: str = "data"
    label: str = ""


class Box(Struct, frozen=True):
    """A node, or something that holds others (`inner`).

    `left[k]` and `right[k]` stand in one row; `back` are the wires that lead from a right port to a
    left one through the inside; `details` are said beside the picture: what, and the text.
    """

    id: int
    kind: str
    title: str
    below: str = ""
    lines: tuple[str, ...] = ()
    left: tuple[Pin | None, ...] = ()
    right: tuple[Pin | None, ...] = ()
    inner: Scene | None = None
    back: tuple[Wire, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    path: str = ""

    @property
    def ports(self) -> Iterator[Pin]:
        """All ports."""
        yield from (port for port in (*self.left, *self.right) if port is not None)

    @property
    def ends(self) -> Iterator[int]:
        """Every number by which a wire can reach the box."""
        yield self.id
        yield from (port.id for port in self.ports)


class Scene(Struct, frozen=True):
    """Boxes beside each other, and the wires between them."""

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]

    @property
    def count(self) -> int:
        """How many boxes there are, those inside of others counted too."""
        return sum(1 + (box.inner.count if box.inner else 0) for box in self.boxes)


# --- as JSON --------------------------------------------------------------------------------------


def packed(scene: Scene) -> dict[str, Any]:
    """The scene as plain data with short keys; what is empty is left out."""
    return {"b": [_box(box) for box in scene.boxes], "w": [_wire(wire) for wire in scene.wires]}


def _box(box: Box) -> dict[str, Any]:
    found: dict[str, Any] = {
        "i": box.id,
        "k": box.kind,
        "t": plain(box.title),
        "s": plain(box.below),
        "x": [plain(line) for line in box.lines],
        "L": [_port(port) for port in box.left],
        "R": [_port(port) for port in box.right],
        "z": [_wire(wire) for wire in box.back],
        "d": [[what, visible(shorten(text, LONGEST))] for what, text in box.details],
        "p": plain(box.path),
    }
    if box.inner is not None:
        found["g"] = packed(box.inner)
    return {key: value for key, value in found.items() if value not in ("", [])}


def _port(port: Pin | None) -> list[Any] | int:
    if port is None:
        return 0
    return [port.id, plain(port.name), plain(port.below), port.kind, int(port.passes)]


def _wire(wire: Wire) -> list[Any]:
    return [wire.source, wire.target, wire.kind, plain(wire.label)]


def plain(text: str) -> str:
    """A text that does nothing where it is shown: on one line, without controls, not endless."""
    return on_one_line(shorten(text, LONGEST))
