"""Estimate of the size of a picture before its layout, for the choice of its form.

    extent = sum over ranks of the largest node          along the flow
             largest sum of nodes over ranks             across the flow

The rank of a node is the length of the longest path to the node. Bands are side by side. The width of a text
is estimated from the average letter of Helvetica.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

from msgspec import Struct

_LETTER_WIDTH, _LINE_HEIGHT = 0.53, 1.2
"""Width of an average letter and height of a line, relative to the font size."""
_BOX_PADDING = (16.0, 8.0)
"""Horizontal and vertical padding of a box around its text."""


class Spacing(Struct, frozen=True):
    """Space in points between ranks, between nodes of one rank, and for an edge that passes a rank."""

    between_ranks: float
    between_nodes: float
    for_passing_edge: float


ROOMY_SPACING, DENSE_SPACING = Spacing(44.0, 22.0, 9.0), Spacing(16.0, 11.0, 11.0)
_FRAME_PADDING = 26.0
"""Sum of the padding on both sides of a frame."""
_PAGE_MARGIN, _TITLE_HEIGHT = 20.0, 90.0
"""Margin around the picture, and height of title and legend."""


class Extent(Struct, frozen=True):
    """Width and height in points."""

    width: float
    height: float

    @property
    def ratio(self) -> float:
        """Ratio of the longer side to the shorter side."""
        return max(self.width / self.height, self.height / self.width)


class UnplacedNode(Struct, frozen=True):
    """Drawn node whose size is estimated: label, minimum size, band, and number of enclosing frames.

    A box has a minimum size and padding around its label. A plain label has no minimum size and no padding.
    """

    label: str
    min_size: tuple[float, float] | None
    band: int
    frame_depth: int


def estimate_extent(
    nodes: Mapping[str, UnplacedNode],
    edges: Iterable[tuple[str, str]],
    spacing: Spacing,
    sideways: bool,
) -> Extent:
    """Return the estimated extent of nodes and edges, for flow from left to right or from top to bottom."""
    links = [(a, b) for a, b in dict.fromkeys(edges) if a != b and a in nodes and b in nodes]
    ranks = _node_ranks(list(nodes), links)
    lengths_of_ranks: dict[int, float] = defaultdict(float)
    breadths_of_ranks: dict[tuple[int, int], float] = defaultdict(float)
    for name, node in nodes.items():
        width, height = label_size(node.label, node.min_size)
        length_of_node, breadth_of_node = (width, height) if sideways else (height, width)
        lengths_of_ranks[ranks[name]] = max(lengths_of_ranks[ranks[name]], length_of_node)
        breadths_of_ranks[node.band, ranks[name]] += breadth_of_node + spacing.between_nodes
    for tail, head in links:
        for rank in range(ranks[tail] + 1, ranks[head]):
            breadths_of_ranks[nodes[tail].band, rank] += spacing.for_passing_edge
    breadths_of_bands: dict[int, float] = defaultdict(float)
    for (band, _), breadth_of_node in breadths_of_ranks.items():
        breadths_of_bands[band] = max(breadths_of_bands[band], breadth_of_node)
    frame_padding = _FRAME_PADDING * max((node.frame_depth for node in nodes.values()), default=0)
    length = (
        sum(lengths_of_ranks.values())
        + spacing.between_ranks * max(len(lengths_of_ranks) - 1, 0)
        + frame_padding
    )
    breadth = (
        sum(breadths_of_bands.values())
        + frame_padding
        + _FRAME_PADDING * (len(breadths_of_bands) - 1)
    )
    width, height = (length, breadth) if sideways else (breadth, length)
    return Extent(width + _PAGE_MARGIN, height + _TITLE_HEIGHT)


def _node_ranks(names: list[str], links: list[tuple[str, str]]) -> dict[str, int]:
    """Return the rank of each drawn node: the length of the longest path to it.

    A source is just before its first reader.

    In a cycle, the node that is visited first is the start of the path.
    """
    receivers: dict[str, list[str]] = defaultdict(list)
    open_senders = dict.fromkeys(names, 0)
    for tail, head in links:
        receivers[tail].append(head)
        open_senders[head] += 1
    ranks = dict.fromkeys(names, 0)
    sources = [name for name in names if not open_senders[name]]
    unvisited_nodes = list(sources)
    for name in unvisited_nodes:
        for head in receivers[name]:
            ranks[head] = max(ranks[head], ranks[name] + 1)
            open_senders[head] -= 1
            if not open_senders[head]:
                unvisited_nodes.append(head)
    for name in sources:
        ranks[name] = max(min((ranks[head] for head in receivers[name]), default=1) - 1, 0)
    return ranks


# --- labels -----------------------------------------------------------------------------------


def label_size(label: str, min_size: tuple[float, float] | None) -> tuple[float, float]:
    """Return width and height of a label. A box has a minimum size."""
    width, height = _content_size(ElementTree.fromstring(f"<L>{label}</L>"), 11.0)
    if min_size is None:
        return width, height
    return max(width + _BOX_PADDING[0], min_size[0]), max(height + _BOX_PADDING[1], min_size[1])


def _content_size(element: ElementTree.Element, font: float) -> tuple[float, float]:
    """Return the size of an HTML-like element. Lines are stacked, other elements are side by side."""
    line_sizes = [[_text_size(element.text, font)]]
    for child in element:
        match child.tag:
            case "BR":
                line_sizes.append([])
            case "TABLE":
                line_sizes[-1].append(_table_size(child, font))
            case "FONT":
                line_sizes[-1].append(_content_size(child, float(child.get("POINT-SIZE", font))))
            case _:
                line_sizes[-1].append(_content_size(child, font * 1.06))
        line_sizes[-1].append(_text_size(child.tail, font))
    width = max(sum(w for w, _ in line_size) for line_size in line_sizes)
    return width, sum(
        max((h for _, h in line_size), default=font * _LINE_HEIGHT) for line_size in line_sizes
    )


def _text_size(text: str | None, font: float) -> tuple[float, float]:
    """Return the estimated width and height of a text in points."""
    stripped_text = (text or "").strip("\n")
    return len(stripped_text) * font * _LETTER_WIDTH, font * _LINE_HEIGHT if stripped_text else 0.0


def _table_size(table: ElementTree.Element, font: float) -> tuple[float, float]:
    """Return the estimated size of a table from the sizes of its cells."""
    padding, spacing = (float(table.get(f"CELL{key}", 0)) for key in ("PADDING", "SPACING"))
    column_widths: dict[int, float] = defaultdict(float)
    height = spacing
    for row in table:
        row_height = 0.0
        for k, cell in enumerate(row):
            cell_width, cell_height = _content_size(cell, font)
            padding_of_cell = 2 * float(cell.get("CELLPADDING", padding))
            column_widths[k] = max(
                column_widths[k], cell_width + padding_of_cell, float(cell.get("WIDTH", 0))
            )
            row_height = max(
                row_height, cell_height + padding_of_cell, float(cell.get("HEIGHT", 0))
            )
        height += row_height + spacing
    return sum(column_widths.values()) + spacing * (len(column_widths) + 1), height
