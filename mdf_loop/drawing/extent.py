"""How large a picture will be, before Graphviz has laid it out: near enough to choose a form by.

    extent = sum over ranks of the largest node          along the flow
             largest sum of nodes over ranks             across it

Nodes stand in ranks by the longest way to them; bands stand beside each other. Texts are measured by
the average letter of Helvetica.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

from msgspec import Struct

_LETTER, _LINE = 0.53, 1.2
"""Width of an average letter and height of a line, in parts of the size of the font."""
_BOX = (16.0, 8.0)
"""What a box has around its text."""


class Room(Struct, frozen=True):
    """Room between ranks, between nodes of a rank, and for an edge that passes a rank."""

    ranks: float
    nodes: float
    passing: float


ROOMY, DENSE = Room(44.0, 22.0, 9.0), Room(16.0, 11.0, 11.0)
_FRAME = 26.0
"""What a frame has around what is in it, on both sides together."""
_MARGIN, _WORDS = 20.0, 90.0
"""What is around all: paper, the title and the legend."""


class Extent(Struct, frozen=True):
    """Width and height in points."""

    width: float
    height: float

    @property
    def ratio(self) -> float:
        """The longer side in parts of the shorter one."""
        return max(self.width / self.height, self.height / self.width)


class Sized(Struct, frozen=True):
    """A drawn node as its size is guessed: its label, and the band and the frames that it is in.

    A box has `least` points at least and room around its label; what is plain has neither.
    """

    label: str
    least: tuple[float, float] | None
    band: int
    frames: int


def extent_of(
    nodes: Mapping[str, Sized],
    edges: Iterable[tuple[str, str]],
    room: Room,
    sideways: bool,
) -> Extent:
    """The extent of nodes and of edges that rank them, flowing sideways or down."""
    links = [(a, b) for a, b in dict.fromkeys(edges) if a != b and a in nodes and b in nodes]
    ranks = _ranks(list(nodes), links)
    along: dict[int, float] = defaultdict(float)
    across: dict[tuple[int, int], float] = defaultdict(float)
    for name, node in nodes.items():
        width, height = size(node.label, node.least)
        long, broad = (width, height) if sideways else (height, width)
        along[ranks[name]] = max(along[ranks[name]], long)
        across[node.band, ranks[name]] += broad + room.nodes
    for tail, head in links:
        for rank in range(ranks[tail] + 1, ranks[head]):
            across[nodes[tail].band, rank] += room.passing
    bands: dict[int, float] = defaultdict(float)
    for (band, _), broad in across.items():
        bands[band] = max(bands[band], broad)
    frames = _FRAME * max((node.frames for node in nodes.values()), default=0)
    length = sum(along.values()) + room.ranks * max(len(along) - 1, 0) + frames
    breadth = sum(bands.values()) + frames + _FRAME * (len(bands) - 1)
    width, height = (length, breadth) if sideways else (breadth, length)
    return Extent(width + _MARGIN, height + _WORDS)


def _ranks(names: list[str], links: list[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest way to each node; a source stands just before its first reader.

    What is in a circle counts from where it is met.
    """
    follows: dict[str, list[str]] = defaultdict(list)
    waits = dict.fromkeys(names, 0)
    for tail, head in links:
        follows[tail].append(head)
        waits[head] += 1
    ranks = dict.fromkeys(names, 0)
    sources = [name for name in names if not waits[name]]
    ready = list(sources)
    for name in ready:
        for head in follows[name]:
            ranks[head] = max(ranks[head], ranks[name] + 1)
            waits[head] -= 1
            if not waits[head]:
                ready.append(head)
    for name in sources:
        ranks[name] = max(min((ranks[head] for head in follows[name]), default=1) - 1, 0)
    return ranks


# --- labels -----------------------------------------------------------------------------------


def size(label: str, least: tuple[float, float] | None) -> tuple[float, float]:
    """Width and height of a node with an HTML-like label; of a box, where it has a least size."""
    width, height = _content(ElementTree.fromstring(f"<L>{label}</L>"), 11.0)
    if least is None:
        return width, height
    return max(width + _BOX[0], least[0]), max(height + _BOX[1], least[1])


def _content(part: ElementTree.Element, font: float) -> tuple[float, float]:
    """The size of texts and tables: lines below each other, the rest beside each other."""
    lines = [[_text(part.text, font)]]
    for child in part:
        match child.tag:
            case "BR":
                lines.append([])
            case "TABLE":
                lines[-1].append(_table(child, font))
            case "FONT":
                lines[-1].append(_content(child, float(child.get("POINT-SIZE", font))))
            case _:
                lines[-1].append(_content(child, font * 1.06))
        lines[-1].append(_text(child.tail, font))
    width = max(sum(w for w, _ in line) for line in lines)
    return width, sum(max((h for _, h in line), default=font * _LINE) for line in lines)


def _text(text: str | None, font: float) -> tuple[float, float]:
    stripped = (text or "").strip("\n")
    return len(stripped) * font * _LETTER, font * _LINE if stripped else 0.0


def _table(table: ElementTree.Element, font: float) -> tuple[float, float]:
    padding, spacing = (float(table.get(f"CELL{key}", 0)) for key in ("PADDING", "SPACING"))
    columns: dict[int, float] = defaultdict(float)
    height = spacing
    for row in table:
        tallest = 0.0
        for k, cell in enumerate(row):
            width, high = _content(cell, font)
            around = 2 * float(cell.get("CELLPADDING", padding))
            columns[k] = max(columns[k], width + around, float(cell.get("WIDTH", 0)))
            tallest = max(tallest, high + around, float(cell.get("HEIGHT", 0)))
        height += tallest + spacing
    return sum(columns.values()) + spacing * (len(columns) + 1), height
