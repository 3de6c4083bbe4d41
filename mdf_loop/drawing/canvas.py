"""The DOT text under construction: names, nodes, clusters, edges, and what kinds were drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from msgspec import Struct, field

from mdf_loop.drawing.extent import DENSE, ROOMY, Extent, Sized, extent_of
from mdf_loop.drawing.theme import (
    BAND_FILL,
    BAND_LINE,
    FONT,
    INK,
    LINE,
    NORMAL,
    QUIET,
    SMALL,
    STROKES,
    Direction,
)
from mdf_loop.visible import on_one_line, without_middle


class End(Struct, frozen=True):
    """An end of an edge: a drawn node, perhaps a port of it and the side."""

    name: str
    port: str = ""
    side: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.name, self.port, self.side) if part)


class Arrival(Struct, frozen=True):
    """A place where values arrive: the end, the stroke, and the expressions that it shows."""

    end: End
    kind: str = "data"
    expressions: tuple[Any, ...] = ()


class Wires(Struct):
    """Where the values of a drawn node arrive and leave.

    `inputs` are by port; `reads` by the name of a value from outside that a formula uses. What
    belongs to no port arrives and leaves at the `header`, if there is one. `loose` are drawn nodes
    beside it, which no edge may hold where it stands.
    """

    first: str
    last: str
    header: str = ""
    inputs: dict[str, list[Arrival]] = field(default_factory=dict)
    outputs: dict[str, End] = field(default_factory=dict)
    reads: dict[str, list[Arrival]] = field(default_factory=dict)
    loose: tuple[str, ...] = ()

    @property
    def whole_in(self) -> End:
        """Where a value arrives that belongs to no port."""
        return End(self.first, self.header, "w" if self.header else "")

    @property
    def whole_out(self) -> End:
        """Where a value leaves that belongs to no port."""
        return End(self.last, self.header, "e" if self.header else "")


STRAIGHT = 20
"""The weight of what must stand on one line: more than all edges that pull it aside."""
LONGEST_TIP = 2_000
"""Characters that are shown where the mouse is; Graphviz cannot read any number of them."""
MANY = 400
"""A picture with more names than this (of nodes, frames and edges) is laid out in less time."""
QUICK = {"nslimit": "1", "nslimit1": "1", "mclimit": "0.1"}
"""Bounds on Graphviz's search for the shortest edges and the fewest crossings."""

_Edges = dict[tuple[str, str, str], dict[str, str]]


class Canvas:
    """Collects a picture; `dot` is its text. The same model always gives the same text.

    Edges of the `hidden` strokes are left out. A `dense` picture has little room between its nodes.
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
        self.hidden = hidden
        self.dense = dense
        self.kinds: set[str] = set()
        self.strokes: set[str] = set()
        self._names: set[str] = set()
        self._edges: _Edges = {}
        self._placed: dict[str, Sized] = {}
        self._ranking: list[tuple[str, str]] = []
        self._frames = 0
        self._band = 0
        self._graphviz = graphviz
        self._root = graphviz.Digraph(name=_slug(title), comment="drawn by mdf_loop")
        self._here = self._root
        self._root.attr(
            "graph",
            rankdir=direction.rankdir,
            compound="true",
            newrank="true",
            fontname=FONT,
            fontsize=str(NORMAL),
            fontcolor=INK,
            bgcolor="white",
            labelloc="b",
            labeljust="l",
            nodesep="0.15" if dense else "0.28",
            ranksep="0.22" if dense else "0.55",
            splines="polyline",
            pad="0.15",
            outputorder="edgesfirst",
        )
        self._root.attr("node", shape="plain", fontname=FONT, fontsize=str(NORMAL), color=LINE)
        self._root.attr("edge", fontname=FONT, fontsize=str(SMALL), arrowsize="0.65")

    @property
    def dot(self) -> str:
        """The whole picture as DOT text."""
        return str(self._root.source)

    def name(self, *ids: str) -> str:
        """A new name for use in DOT and as id in SVG, made of ids of the model."""
        base = "__".join(_slug(part) for part in ids if part) or "x"
        name, k = base, 2
        while name in self._names:
            name, k = f"{base}_{k}", k + 1
        self._names.add(name)
        return name

    def text(self, value: str) -> str:
        """A text for an attribute, shown as it is; of a very long one both ends."""
        return str(self._graphviz.escape(on_one_line(without_middle(value, LONGEST_TIP))))

    def node(self, name: str, label: str, kind: str, path: str, **attributes: str) -> None:
        """Draw a node with an HTML-like label."""
        self._place(name, label, attributes)
        self._here.node(
            name,
            label=f"<{label}>",
            **{"id": name, "class": kind, "tooltip": self.text(path), **attributes},
        )

    def point(self, name: str, label: str, **attributes: str) -> None:
        """Draw a plain shape that stands for nothing in the model."""
        self._place(name, label, attributes)
        self._here.node(name, label=f"<{label}>", **attributes)

    def _place(self, name: str, label: str, attributes: dict[str, str]) -> None:
        least = None
        if "shape" in attributes:
            least = (
                72 * float(attributes.get("width", "0.75")),
                72 * float(attributes.get("height", "0.5")),
            )
        self._placed[name] = Sized(label, least, self._band, self._frames)

    def extent(self) -> Extent:
        """How large the picture will be, about."""
        between = DENSE if self.dense else ROOMY
        return extent_of(self._placed, self._ranking, between, self.direction.sideways)

    @contextmanager
    def cluster(
        self, name: str, label: str, kind: str, path: str, **attributes: str
    ) -> Iterator[None]:
        """A frame around what is drawn inside the block."""
        outer = self._here, self._edges
        identity = {"id": f"cluster_{name}", "class": kind, "tooltip": self.text(path)}
        with outer[0].subgraph(name=f"cluster_{name}") as frame:
            said = f"<{label}>" if label else ""
            frame.attr(label=said, labelloc="t", labeljust="l", **identity, **attributes)
            self._here, self._edges = frame, {}
            self._frames += 1
            yield
            self._frames -= 1
            self._write_edges()
            self._here, self._edges = outer

    @contextmanager
    def band(self, count: int, label: str, path: str) -> Iterator[None]:
        """One of several bands that stand beside each other; a frame only where there are several."""
        if count < 2:
            yield
            return
        self._band += 1
        with self.cluster(
            self.name("band"),
            label,
            "band",
            path,
            style="rounded,filled",
            pencolor=BAND_LINE,
            fillcolor=BAND_FILL,
            margin="8",
        ):
            yield

    def edge(self, tail: End, head: End, kind: str, path: str = "", label: str = "") -> None:
        """Draw an edge; a second one of the same kind between the same ends is not drawn."""
        if kind in self.hidden:
            return
        self.strokes.add(kind)
        attributes = {"class": kind, **STROKES[kind].attributes}
        if path:
            attributes |= {"tooltip": self.text(path), "id": self.name("edge", path)}
        if label:
            attributes |= {"label": f"< {label} >", "fontcolor": attributes.get("fontcolor", QUIET)}
        self._edges.setdefault((str(tail), str(head), kind), attributes)

    def joined(self, name: str) -> bool:
        """Whether an edge of the frame under construction begins or ends at a node."""
        ends = (end.partition(":")[0] for tail, head, _ in self._edges for end in (tail, head))
        return name in ends

    def hold(self, tail: str, head: str, weight: int = 1) -> None:
        """An invisible edge: `head` stands after `tail`, and on one line with it if heavy."""
        key = (tail, head, "hold")
        known = int(self._edges.get(key, {}).get("weight", "0"))
        self._edges[key] = {"style": "invis", "weight": str(max(weight, known))}

    def in_order(self, frames: Sequence[str]) -> None:
        """Keep frames beside each other, in this order where Graphviz can; each by what stands first in it."""
        with self._here.subgraph() as rank:
            rank.attr(rank="same")
            for frame in frames:
                rank.node(frame)
            for tail, head in pairwise(frames):
                rank.edge(tail, head, style="invis")

    def _write_edges(self) -> None:
        """What holds comes first: of edges between the same nodes Graphviz straightens the first one."""
        for (tail, head, _), attributes in sorted(self._edges.items(), key=_is_shown):
            self._here.edge(tail, head, **attributes)
            if attributes.get("constraint") != "false":
                self._ranking.append((tail.partition(":")[0], head.partition(":")[0]))

    def finish(self, legend: str) -> str:
        """Write the edges and the legend, and give the DOT text."""
        self._write_edges()
        if len(self._names) > MANY:
            self._root.attr("graph", **QUICK)
        self._root.attr("graph", label=f"<{legend}>" if legend else "")
        return self.dot


def _is_shown(edge: tuple[tuple[str, str, str], dict[str, str]]) -> bool:
    (_, _, kind), _ = edge
    return kind != "hold"


def _slug(text: str) -> str:
    """Letters, digits and underscores only, so that no DOT or CSS rule can trip over it."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:60] or "x"
