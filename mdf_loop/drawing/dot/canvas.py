"""Builder of DOT text for Graphviz: the nodes, frames and edges of a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from msgspec import Struct

from mdf_loop.drawing.dot.extent import (
    DENSE_SPACING,
    ROOMY_SPACING,
    Extent,
    UnplacedNode,
    estimate_extent,
)
from mdf_loop.drawing.theme import (
    BAND_FILL_COLOR,
    BAND_LINE_COLOR,
    FONT_FAMILIES,
    LINE_COLOR,
    LINE_STYLES,
    NORMAL_FONT_SIZE,
    REMARK_COLOR,
    SMALL_FONT_SIZE,
    TEXT_COLOR,
    Direction,
)
from mdf_loop.text_escaping import escape_to_one_line, shorten_middle


class EdgeEnd(Struct, frozen=True):
    """End of an edge: the name of a drawn node, with an optional port and side."""

    node_name: str
    port: str = ""
    side: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.node_name, self.port, self.side) if part)


STRAIGHT_LINE_WEIGHT = 20
"""Weight of edges that must be straight, which exceeds the total weight of competing edges."""
MAX_TOOLTIP_LENGTH = 2_000
"""Maximum number of characters of a tooltip. Graphviz cannot read longer texts."""
MAX_THOROUGH_NAMES = 400
"""Number of nodes, frames and edges above which Graphviz uses `FAST_LAYOUT`."""
FAST_LAYOUT = {"nslimit": "1", "nslimit1": "1", "mclimit": "0.1"}
"""Graphviz attributes that limit the search for short edges and few crossings."""

_Edges = dict[tuple[str, str, str], dict[str, str]]


class Canvas:
    """Builder of the DOT text of a picture. Equal models produce equal texts.

    Edges with `hidden` line styles are omitted. A `dense` picture has little space between nodes.
    """

    def __init__(
        self,
        title: str,
        direction: Direction,
        hidden: frozenset[str] = frozenset(),
        *,
        dense: bool = False,
    ) -> None:
        import graphviz

        self.direction = direction
        self.hidden_line_styles = hidden
        self.is_dense = dense
        self.mark_kinds: set[str] = set()
        self.drawn_line_styles: set[str] = set()
        self._names: set[str] = set()
        self._edges: _Edges = {}
        self._unplaced_nodes: dict[str, UnplacedNode] = {}
        self._ranked_edges: list[tuple[str, str]] = []
        self._open_frame_count = 0
        self._band_number = 0
        self._graphviz = graphviz
        self._root = graphviz.Digraph(name=_to_identifier(title), comment="drawn by mdf_loop")
        self._current_graph = self._root
        self._root.attr(
            "graph",
            rankdir=direction.rankdir,
            compound="true",
            newrank="true",
            fontname=FONT_FAMILIES,
            fontsize=str(NORMAL_FONT_SIZE),
            fontcolor=TEXT_COLOR,
            bgcolor="white",
            labelloc="b",
            labeljust="l",
            nodesep="0.15" if dense else "0.28",
            ranksep="0.22" if dense else "0.55",
            splines="polyline",
            pad="0.15",
            outputorder="edgesfirst",
        )
        self._root.attr(
            "node",
            shape="plain",
            fontname=FONT_FAMILIES,
            fontsize=str(NORMAL_FONT_SIZE),
            color=LINE_COLOR,
        )
        self._root.attr(
            "edge", fontname=FONT_FAMILIES, fontsize=str(SMALL_FONT_SIZE), arrowsize="0.65"
        )

    @property
    def dot(self) -> str:
        """DOT text of the whole picture."""
        return str(self._root.source)

    def unused_name(self, *ids: str) -> str:
        """Return an unused DOT name, composed of model ids, that also serves as an id in SVG."""
        base_name = "__".join(_to_identifier(model_id) for model_id in ids if model_id) or "x"
        name, suffix_number = base_name, 2
        while name in self._names:
            name, suffix_number = f"{base_name}_{suffix_number}", suffix_number + 1
        self._names.add(name)
        return name

    def escape(self, value: str) -> str:
        """Escape a text for a Graphviz attribute, and omit the middle of a long text."""
        return str(
            self._graphviz.escape(escape_to_one_line(shorten_middle(value, MAX_TOOLTIP_LENGTH)))
        )

    def add_node(self, name: str, label: str, kind: str, path: str, **attributes: str) -> None:
        """Add a node with an HTML-like label to the picture."""
        self._store_label(name, label, attributes)
        self._current_graph.node(
            name,
            label=f"<{label}>",
            **{"id": name, "class": kind, "tooltip": self.escape(path), **attributes},
        )

    def add_auxiliary_node(self, name: str, label: str, **attributes: str) -> None:
        """Add a node that represents no part of the model, such as the end of a cut edge."""
        self._store_label(name, label, attributes)
        self._current_graph.node(name, label=f"<{label}>", **attributes)

    def _store_label(self, name: str, label: str, attributes: dict[str, str]) -> None:
        """Store the label and the minimum size of a node, for the estimate of the picture's size."""
        min_box_size = None
        if "shape" in attributes:
            min_box_size = (
                72 * float(attributes.get("width", "0.75")),
                72 * float(attributes.get("height", "0.5")),
            )
        self._unplaced_nodes[name] = UnplacedNode(
            label, min_box_size, self._band_number, self._open_frame_count
        )

    def extent(self) -> Extent:
        """Return the estimated width and height of the picture."""
        spacing = DENSE_SPACING if self.is_dense else ROOMY_SPACING
        return estimate_extent(
            self._unplaced_nodes, self._ranked_edges, spacing, self.direction.is_sideways
        )

    @contextmanager
    def cluster(
        self, name: str, label: str, kind: str, path: str, **attributes: str
    ) -> Iterator[None]:
        """Draw a frame around all elements that are added inside the `with` block."""
        outer_graph_and_edges = self._current_graph, self._edges
        svg_attributes = {"id": f"cluster_{name}", "class": kind, "tooltip": self.escape(path)}
        with outer_graph_and_edges[0].subgraph(name=f"cluster_{name}") as cluster_graph:
            label_text = f"<{label}>" if label else ""
            cluster_graph.attr(
                label=label_text, labelloc="t", labeljust="l", **svg_attributes, **attributes
            )
            self._current_graph, self._edges = cluster_graph, {}
            self._open_frame_count += 1
            yield
            self._open_frame_count -= 1
            self._write_edges()
            self._current_graph, self._edges = outer_graph_and_edges

    @contextmanager
    def band_frame(self, count: int, label: str, path: str) -> Iterator[None]:
        """Draw a frame around one of `count` columns (bands), or no frame around a single column."""
        if count < 2:
            yield
            return
        self._band_number += 1
        with self.cluster(
            self.unused_name("band"),
            label,
            "band",
            path,
            style="rounded,filled",
            pencolor=BAND_LINE_COLOR,
            fillcolor=BAND_FILL_COLOR,
            margin="8",
        ):
            yield

    def add_edge(
        self, tail: EdgeEnd, head: EdgeEnd, kind: str, path: str = "", label: str = ""
    ) -> None:
        """Add an edge, unless an edge of the same kind already connects the same ends."""
        self.drawn_line_styles.add(kind)
        edge_attributes = {"class": kind, **LINE_STYLES[kind].attributes}
        if path:
            edge_attributes |= {"tooltip": self.escape(path), "id": self.unused_name("edge", path)}
        if label:
            edge_attributes |= {
                "label": f"< {label} >",
                "fontcolor": edge_attributes.get("fontcolor", REMARK_COLOR),
            }
        self._edges.setdefault((str(tail), str(head), kind), edge_attributes)

    def has_edge(self, name: str) -> bool:
        """Return True if an edge of the current frame begins or ends at the node `name`."""
        edge_node_names = (
            end.partition(":")[0] for tail, head, _ in self._edges for end in (tail, head)
        )
        return name in edge_node_names

    def add_invisible_edge(self, tail: str, head: str, weight: int = 1) -> None:
        """Add an invisible edge, so that Graphviz places `head` after `tail`."""
        edge_key = (tail, head, "invisible")
        old_weight = int(self._edges.get(edge_key, {}).get("weight", "0"))
        self._edges[edge_key] = {"style": "invis", "weight": str(max(weight, old_weight))}

    def keep_side_by_side(self, frames: Sequence[str]) -> None:
        """Make Graphviz place the first nodes of several frames in one rank, side by side."""
        with self._current_graph.subgraph() as rank_subgraph:
            rank_subgraph.attr(rank="same")
            for node_name in frames:
                rank_subgraph.node(node_name)
            for tail, head in pairwise(frames):
                rank_subgraph.edge(tail, head, style="invis")

    def _write_edges(self) -> None:
        """Write the edges of the current frame (the innermost open `cluster`) as DOT text.

        Invisible edges are first, because Graphviz straightens the first parallel edge.
        """
        for (tail, head, _), edge_attributes in sorted(self._edges.items(), key=_is_visible):
            self._current_graph.edge(tail, head, **edge_attributes)
            if edge_attributes.get("constraint") != "false":
                self._ranked_edges.append((tail.partition(":")[0], head.partition(":")[0]))

    def finish(self, legend: str) -> str:
        """Write the remaining edges and the legend, and return the DOT text."""
        self._write_edges()
        if len(self._names) > MAX_THOROUGH_NAMES:
            self._root.attr("graph", **FAST_LAYOUT)
        self._root.attr("graph", label=f"<{legend}>" if legend else "")
        return self.dot


def _is_visible(edge: tuple[tuple[str, str, str], dict[str, str]]) -> bool:
    """Return True if an edge of the picture is visible."""
    (_, _, line_style), _ = edge
    return line_style != "invisible"


def _to_identifier(text: str) -> str:
    """Replace characters that are not safe in DOT and CSS identifiers by underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:60] or "x"
