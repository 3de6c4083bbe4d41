"""Estimate of the size of a picture before its layout by Graphviz.

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
    """Gaps in points between ranks, between nodes of a rank, and beside edges that cross a rank."""

    rank_gap: float
    node_gap: float
    edge_gap: float


ROOMY_SPACING, DENSE_SPACING = Spacing(44.0, 22.0, 9.0), Spacing(16.0, 11.0, 11.0)
_FRAME_PADDING = 26.0
"""Sum of the padding on both sides of a frame."""
_PAGE_MARGIN, _TITLE_HEIGHT = 20.0, 90.0
"""Margin around the picture, and height of title and legend."""


class Extent(Struct, frozen=True):
    """Width and height of a picture, in points."""

    width: float
    height: float

    @property
    def ratio(self) -> float:
        """Ratio of the longer side to the shorter side."""
        return max(self.width / self.height, self.height / self.width)


class UnplacedNode(Struct, frozen=True):
    """Drawn node of unknown position: label, minimum size, column, and number of enclosing frames.

    A box has a minimum size and padding around its label. A plain label has no minimum size and no padding.
    """

    label: str
    min_size: tuple[float, float] | None
    band_number: int
    frame_depth: int


def estimate_extent(
    nodes: Mapping[str, UnplacedNode],
    edges: Iterable[tuple[str, str]],
    spacing: Spacing,
    sideways: bool,
) -> Extent:
    """Return the estimated size of a picture of nodes and edges, before its layout by Graphviz."""
    links = [
        (tail, head)
        for tail, head in dict.fromkeys(edges)
        if tail != head and tail in nodes and head in nodes
    ]
    ranks = _node_ranks(list(nodes), links)
    rank_lengths: dict[int, float] = defaultdict(float)
    rank_breadths: dict[tuple[int, int], float] = defaultdict(float)
    for name, node in nodes.items():
        width, height = label_size(node.label, node.min_size)
        node_length, node_breadth = (width, height) if sideways else (height, width)
        rank_lengths[ranks[name]] = max(rank_lengths[ranks[name]], node_length)
        rank_breadths[node.band_number, ranks[name]] += node_breadth + spacing.node_gap
    for tail, head in links:
        for rank in range(ranks[tail] + 1, ranks[head]):
            rank_breadths[nodes[tail].band_number, rank] += spacing.edge_gap
    band_breadths: dict[int, float] = defaultdict(float)
    for (band, _), node_breadth in rank_breadths.items():
        band_breadths[band] = max(band_breadths[band], node_breadth)
    frame_padding = _FRAME_PADDING * max((node.frame_depth for node in nodes.values()), default=0)
    length = (
        sum(rank_lengths.values())
        + spacing.rank_gap * max(len(rank_lengths) - 1, 0)
        + frame_padding
    )
    breadth = (
        sum(band_breadths.values()) + frame_padding + _FRAME_PADDING * (len(band_breadths) - 1)
    )
    width, height = (length, breadth) if sideways else (breadth, length)
    return Extent(width + _PAGE_MARGIN, height + _TITLE_HEIGHT)


def _node_ranks(names: list[str], links: list[tuple[str, str]]) -> dict[str, int]:
    """Return the rank of each drawn node: the length of the longest path to the node.

    A source is just before its first reader.

    In a cycle, the node that is visited first is the start of the path.
    """
    receivers: dict[str, list[str]] = defaultdict(list)
    unvisited_sender_counts = dict.fromkeys(names, 0)
    for tail, head in links:
        receivers[tail].append(head)
        unvisited_sender_counts[head] += 1
    ranks = dict.fromkeys(names, 0)
    source_names = [name for name in names if not unvisited_sender_counts[name]]
    unvisited_names = list(source_names)
    for name in unvisited_names:
        for head in receivers[name]:
            ranks[head] = max(ranks[head], ranks[name] + 1)
            unvisited_sender_counts[head] -= 1
            if not unvisited_sender_counts[head]:
                unvisited_names.append(head)
    for name in source_names:
        ranks[name] = max(min((ranks[head] for head in receivers[name]), default=1) - 1, 0)
    return ranks


# --- labels -----------------------------------------------------------------------------------


def label_size(label: str, min_size: tuple[float, float] | None) -> tuple[float, float]:
    """Return the width and height of a label in points, or of the box around the label."""
    width, height = _content_size(ElementTree.fromstring(f"<L>{label}</L>"), 11.0)
    if min_size is None:
        return width, height
    return max(width + _BOX_PADDING[0], min_size[0]), max(height + _BOX_PADDING[1], min_size[1])


def _content_size(element: ElementTree.Element, font: float) -> tuple[float, float]:
    """Return the width and height in points of an HTML-like label element."""
    part_sizes_by_line = [[_text_size(element.text, font)]]
    for child_element in element:
        match child_element.tag:
            case "BR":
                part_sizes_by_line.append([])
            case "TABLE":
                part_sizes_by_line[-1].append(_table_size(child_element, font))
            case "FONT":
                part_sizes_by_line[-1].append(
                    _content_size(child_element, float(child_element.get("POINT-SIZE", font)))
                )
            case _:
                part_sizes_by_line[-1].append(_content_size(child_element, font * 1.06))
        part_sizes_by_line[-1].append(_text_size(child_element.tail, font))
    width = max(
        sum(part_width for part_width, _ in part_sizes) for part_sizes in part_sizes_by_line
    )
    return width, sum(
        max((part_height for _, part_height in part_sizes), default=font * _LINE_HEIGHT)
        for part_sizes in part_sizes_by_line
    )


def _text_size(text: str | None, font: float) -> tuple[float, float]:
    """Return the estimated width and height of a text in points."""
    stripped_text = (text or "").strip("\n")
    return len(stripped_text) * font * _LETTER_WIDTH, font * _LINE_HEIGHT if stripped_text else 0.0


def _table_size(table: ElementTree.Element, font: float) -> tuple[float, float]:
    """Return the estimated width and height of a label's table from the sizes of its cells."""
    padding, spacing = (
        float(table.get(f"CELL{property_name}", 0)) for property_name in ("PADDING", "SPACING")
    )
    column_widths: dict[int, float] = defaultdict(float)
    height = spacing
    for row in table:
        row_height = 0.0
        for k, cell in enumerate(row):
            cell_width, cell_height = _content_size(cell, font)
            cell_padding = 2 * float(cell.get("CELLPADDING", padding))
            column_widths[k] = max(
                column_widths[k], cell_width + cell_padding, float(cell.get("WIDTH", 0))
            )
            row_height = max(row_height, cell_height + cell_padding, float(cell.get("HEIGHT", 0)))
        height += row_height + spacing
    return sum(column_widths.values()) + spacing * (len(column_widths) + 1), height
