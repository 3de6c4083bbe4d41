"""What the caller wants to see: detail, depth, captures, collapsed ids."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.drawing.theme import LEVELS, OPERATORS, Detail
from mdf_loop.outline import GraphOutline, NodeOutline, Observation


class View(Struct, frozen=True):
    """How to draw; `depth` is how many frames inside frames may still be opened (None: all).

    `bands` is into how many bands the operators of a large graph are cut; `weights` says whether
    captured constants are drawn also where they are many; `observation` is what a run says.
    """

    detail: Detail
    depth: int | None = None
    captures: bool = True
    collapse: frozenset[str] = frozenset()
    nesting: int = 0
    bands: int = 1
    weights: bool = False
    observation: Observation | None = None

    def opens(self, node: NodeOutline) -> bool:
        """Whether the loops and choices of a node are shown as frames rather than as one box."""
        allowed = self.depth is None or self.depth > 0
        return self.detail.frames and allowed and node.id not in self.collapse

    def inner(self) -> View:
        """The view of what stands inside a frame."""
        depth = None if self.depth is None else self.depth - 1
        return replace(self, depth=depth, nesting=self.nesting + 1)


def all_nodes(graph: GraphOutline) -> Iterator[NodeOutline]:
    """Every node, those of bodies after the node that owns them."""
    for node in graph.nodes:
        yield node
        for body in node.bodies:
            yield from all_nodes(body)


def default_level(graph: GraphOutline) -> int:
    """Everything for small models, less for larger ones, boxes and frames for the largest."""
    count = sum(not node.is_input and node.constant is None for node in all_nodes(graph))
    return 3 if count <= 12 else 2 if count <= 40 else 1


def detail_of(level: int | str) -> Detail:
    """What a level shows."""
    return OPERATORS if isinstance(level, str) else LEVELS[level]
