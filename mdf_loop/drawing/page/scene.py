"""Content of a page: a scene with all texts, and groups in place of many boxes.

Each number belongs to one box or one port of the whole page. A wire connects two numbers: ports, or whole
boxes. A value that crosses the side of an open box passes a port with a wire outside and wires inside. The
page only displays names, and does not use names as keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from mdf_loop.drawing.scene import elements
from mdf_loop.drawing.scene.elements import Wire
from mdf_loop.outline.text import shorten
from mdf_loop.text_escaping import escape_control_characters, escape_to_one_line

MAX_TEXT_LENGTH = 4000
"""Maximum number of characters of a text. A page has only the beginning of a longer text."""


class Numbering(elements.Numbering):
    """Generator of unique numbers for boxes and ports.

    `chain_box_by_operator` is the box of a chain of operators, by the box of each operator in the chain.
    """

    chain_box_by_operator: dict[int, int] = field(default_factory=dict)


class Port(Struct, frozen=True):
    """Port at a side of a box. `passes_value` is True if a value passes unchanged."""

    id: int
    name: str = ""
    remark: str = ""
    mark_kind: str = ""
    passes_value: bool = False


class Box(Struct, frozen=True):
    """Box of a node, loop or conditional, which may contain other boxes (`inner_scene`).

    Attributes:
        left_ports: Ports on the left. `left_ports[k]` and `right_ports[k]` are in one row.
        right_ports: Ports on the right.
        back_wires: Wires from a right port to a left port inside the box.
        details: Titles and texts that are shown beside the picture.
    """

    id: int
    kind: str
    title: str
    remark: str = ""
    lines: tuple[str, ...] = ()
    left_ports: tuple[Port | None, ...] = ()
    right_ports: tuple[Port | None, ...] = ()
    inner_scene: Scene | None = None
    back_wires: tuple[Wire, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    path: str = ""

    @property
    def ports(self) -> Iterator[Port]:
        """All ports of the box."""
        yield from (port for port in (*self.left_ports, *self.right_ports) if port is not None)

    @property
    def ends(self) -> Iterator[int]:
        """Ids of the box and of its ports, at which wires can start and end."""
        yield self.id
        yield from (port.id for port in self.ports)


class Scene(Struct, frozen=True):
    """Boxes side by side, and the wires between these boxes."""

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]

    @property
    def count(self) -> int:
        """Number of boxes, including nested boxes."""
        return sum(1 + (box.inner_scene.count if box.inner_scene else 0) for box in self.boxes)


# --- as JSON --------------------------------------------------------------------------------------


def pack_scene(scene: Scene) -> dict[str, Any]:
    """Convert boxes and wires to plain data for JSON, with short keys and without empty entries."""
    return {
        "b": [_pack_box(box) for box in scene.boxes],
        "w": [_pack_wire(wire) for wire in scene.wires],
    }


def _pack_box(box: Box) -> dict[str, Any]:
    """Convert a box to plain data for JSON."""
    box_json: dict[str, Any] = {
        "i": box.id,
        "k": box.kind,
        "t": safe_text(box.title),
        "s": safe_text(box.remark),
        "x": [safe_text(line) for line in box.lines],
        "L": [_pack_port(port) for port in box.left_ports],
        "R": [_pack_port(port) for port in box.right_ports],
        "z": [_pack_wire(wire) for wire in box.back_wires],
        "d": [
            [title, escape_control_characters(shorten(text, MAX_TEXT_LENGTH))]
            for title, text in box.details
        ],
        "p": safe_text(box.path),
    }
    if box.inner_scene is not None:
        box_json["g"] = pack_scene(box.inner_scene)
    return {key: value for key, value in box_json.items() if value not in ("", [])}


def _pack_port(port: Port | None) -> list[Any] | int:
    """Convert a port to plain data for JSON, or to 0 for a missing port."""
    if port is None:
        return 0
    return [
        port.id,
        safe_text(port.name),
        safe_text(port.remark),
        port.mark_kind,
        int(port.passes_value),
    ]


def _pack_wire(wire: Wire) -> list[Any]:
    """Convert a wire to plain data for JSON."""
    return [wire.source, wire.target, wire.line_style, safe_text(wire.label)]


def safe_text(text: str) -> str:
    """Return a text as one line of limited length, without control characters."""
    return escape_to_one_line(shorten(text, MAX_TEXT_LENGTH))
