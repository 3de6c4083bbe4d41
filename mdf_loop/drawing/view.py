"""Options of a picture, such as the level of detail and the depth of open frames."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.drawing.theme import DETAIL_LEVELS, OPERATORS_DETAIL, Detail
from mdf_loop.outline import GraphOutline, NodeOutline, Observation


class View(Struct, frozen=True):
    """Options of a picture, such as the level of detail and the depth of open frames.

    Attributes:
        open_depth: Number of further nested frames to open. None means all.
        shows_captures: True if captured values are drawn.
        nesting_depth: Number of frames around the current graph.
        band_count: Number of bands for the operators of a large graph.
        draws_all_constants: True if each of many captured constants is drawn.
        observation: Observation of a run.
    """

    detail: Detail
    open_depth: int | None = None
    shows_captures: bool = True
    collapsed_ids: frozenset[str] = frozenset()
    nesting_depth: int = 0
    band_count: int = 1
    draws_all_constants: bool = False
    observation: Observation | None = None

    def opens(self, node: NodeOutline) -> bool:
        """Return True if a node's loops and conditionals are drawn as frames, not as one box."""
        is_depth_allowed = self.open_depth is None or self.open_depth > 0
        return self.detail.shows_frames and is_depth_allowed and node.id not in self.collapsed_ids

    def inside_frame(self) -> View:
        """Return the view for the graph inside a frame, which is one level deeper."""
        inner_depth = None if self.open_depth is None else self.open_depth - 1
        return replace(self, open_depth=inner_depth, nesting_depth=self.nesting_depth + 1)


def all_nodes(graph: GraphOutline) -> Iterator[NodeOutline]:
    """Yield all nodes of a graph, each followed by the nodes inside its loops and conditionals."""
    for node in graph.nodes:
        yield node
        for body in node.bodies:
            yield from all_nodes(body)


def default_level(graph: GraphOutline) -> int:
    """Choose a level of detail by the size of a graph: 3 if small, 2 if medium, 1 if large."""
    node_count = sum(not node.is_input and node.constant is None for node in all_nodes(graph))
    return 3 if node_count <= 12 else 2 if node_count <= 40 else 1


def detail_of(level: int | str) -> Detail:
    """Return the settings of a level of detail, which is a number or "operators"."""
    return OPERATORS_DETAIL if isinstance(level, str) else DETAIL_LEVELS[level]
