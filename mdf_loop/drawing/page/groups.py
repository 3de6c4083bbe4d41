"""Many boxes as closed groups: by the scopes in their names where that makes no circle, else in parts.

    /encoder/layers.0/Mul, /encoder/layers.0/Add, /encoder/layers.1/Mul, ...
    groups layers.0, layers.1, ...

A group is a box with ports: one for each value that comes in, one for each that goes out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import takewhile

import networkx as nx
from msgspec import Struct

from mdf_loop.drawing.page.ends import Numbers
from mdf_loop.drawing.page.scene import Box, Pin, Scene, Wire
from mdf_loop.outline.text import shorten_name

MOST = 200
"""Of more boxes beside each other groups are made."""
PARTS = 60
"""Of more groups and single boxes parts are made, of about as many."""
PART = 40
"""Boxes in a part."""
SMALLEST = 3
NAME = 40
_PILLS = ("input", "output")


class _Part(Struct, frozen=True):
    """Boxes that become a group, or a box that stays alone; `scope` is the beginning of their ids."""

    boxes: tuple[Box, ...]
    scope: tuple[str, ...] = ()
    said: str = ""

    @property
    def alone(self) -> bool:
        return len(self.boxes) == 1


def grouped(scene: Scene, numbers: Numbers) -> Scene:
    """The scene, with groups if it has too many boxes."""
    if len(scene.boxes) <= MOST:
        return scene
    pills = tuple(box for box in scene.boxes if box.kind in _PILLS)
    if len(pills) > PART:
        pills = ()
    kept = {box.id for box in pills}
    flow = _flow(scene)
    parts = _scoped(tuple(box for box in scene.boxes if box.id not in kept), flow)
    if len(parts) > PARTS:
        parts = list(_consecutive(parts, flow))
    return _with_groups(scene, [_Part((box,)) for box in pills] + parts, numbers)


def _flow(scene: Scene) -> nx.DiGraph:
    """Which box feeds which, what comes from a pass before left out."""
    owner = {end: box.id for box in scene.boxes for end in box.ends}
    flow = nx.DiGraph()
    flow.add_nodes_from(box.id for box in scene.boxes)
    flow.add_edges_from(
        (owner[wire.source], owner[wire.target])
        for wire in scene.wires
        if wire.kind != "feedback" and wire.source in owner and wire.target in owner
    )
    return flow


# --- scopes ---------------------------------------------------------------------------------------


def _scoped(boxes: tuple[Box, ...], flow: nx.DiGraph) -> list[_Part]:
    """Groups by the first part of names that tells boxes apart, so that none feeds itself."""
    scopes = {box.id: _scope(box) for box in boxes}
    parts = list(_by_scope(boxes, scopes, _shared([s for s in scopes.values() if s]) + 1))
    for split in (_turns, partial(_deeper, scopes), _singles):
        circle = _in_circles(parts, flow)
        if not circle:
            break
        parts = [
            inner
            for k, part in enumerate(parts)
            for inner in (split(part, flow) if k in circle else (part,))
        ]
    if _in_circles(parts, flow):
        parts = [_Part((box,)) for part in parts for box in part.boxes]
    return parts


def _shared(scopes: list[tuple[str, ...]]) -> int:
    """How many parts all names begin with."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*scopes, strict=False)))


def _scope(box: Box) -> tuple[str, ...]:
    """The parts of a name before its last one: of `/encoder/layer.0/Add` encoder, layer.0."""
    name = next((text for what, text in box.details if what == "id"), box.title)
    mark = "/" if "/" in name else "."
    return tuple(part for part in name.split(mark) if part)[:-1]


def _by_scope(
    boxes: Iterable[Box], scopes: dict[int, tuple[str, ...]], depth: int
) -> Iterator[_Part]:
    found: dict[tuple[str, ...], list[Box]] = defaultdict(list)
    for box in boxes:
        scope = scopes[box.id][:depth]
        found[scope if len(scope) == depth else (str(box.id), *scope)].append(box)
    for scope, inner in found.items():
        if len(inner) < SMALLEST:
            yield from (_Part((box,)) for box in inner)
        else:
            yield _Part(tuple(inner), scope)


def _in_circles(parts: list[_Part], flow: nx.DiGraph) -> set[int]:
    """The groups that would feed themselves."""
    part_of = {box.id: k for k, part in enumerate(parts) for box in part.boxes}
    between = nx.DiGraph()
    between.add_nodes_from(range(len(parts)))
    for a, b in flow.edges:
        if a in part_of and b in part_of and part_of[a] != part_of[b]:
            between.add_edge(part_of[a], part_of[b])
    circles = (circle for circle in nx.strongly_connected_components(between) if len(circle) > 1)
    return {k for circle in circles for k in circle if not parts[k].alone}


def _turns(part: _Part, flow: nx.DiGraph) -> list[_Part]:
    """A group apart where values leave it and come back: one for each stay."""
    members = {box.id for box in part.boxes}
    turn: dict[int, int] = {}
    for node in _ordered(flow):
        before = [
            turn[p] + (p not in members and node in members) for p in flow.pred[node] if p in turn
        ]
        if before or node in members:
            turn[node] = max(before, default=0)
    stays: dict[int, list[Box]] = defaultdict(list)
    for box in part.boxes:
        stays[turn.get(box.id, 0)].append(box)
    count = len(stays)
    return [
        _Part(tuple(boxes), part.scope, f"{k + 1} of {count}" if count > 1 else "")
        for k, (_, boxes) in enumerate(sorted(stays.items()))
    ]


def _deeper(scopes: dict[int, tuple[str, ...]], part: _Part, flow: nx.DiGraph) -> list[_Part]:
    """A group apart by the next part of names."""
    return list(_by_scope(part.boxes, scopes, len(part.scope) + 1))


def _singles(part: _Part, flow: nx.DiGraph) -> list[_Part]:
    return [_Part((box,)) for box in part.boxes]


def _ordered(flow: nx.DiGraph) -> list[int]:
    """Boxes in an order of values; those of a circle one after the other."""
    whole = nx.condensation(flow)
    return [n for k in nx.topological_sort(whole) for n in sorted(whole.nodes[k]["members"])]


# --- parts ----------------------------------------------------------------------------------------


def _consecutive(parts: list[_Part], flow: nx.DiGraph) -> Iterator[_Part]:
    """Neighbours in the order of values together; what follows each other makes no circle."""
    part_of = {box.id: k for k, part in enumerate(parts) for box in part.boxes}
    between = nx.DiGraph()
    between.add_nodes_from(range(len(parts)))
    between.add_edges_from(
        (part_of[a], part_of[b]) for a, b in flow.edges if a in part_of and b in part_of
    )
    between.remove_edges_from(list(nx.selfloop_edges(between)))
    waiting: list[Box] = []
    for k in _ordered(between):
        if parts[k].alone and len(waiting) < PART:
            waiting += parts[k].boxes
            continue
        if waiting:
            yield _Part(tuple(waiting))
        waiting = [*parts[k].boxes] if parts[k].alone else []
        if not parts[k].alone:
            yield parts[k]
    if waiting:
        yield _Part(tuple(waiting))


# --- boxes of groups ------------------------------------------------------------------------------


def _with_groups(scene: Scene, parts: list[_Part], numbers: Numbers) -> Scene:
    """The scene with a box for each part that is more than one box."""
    home: dict[int, int] = {}
    names: dict[int, str] = {}
    for k, part in enumerate(parts):
        for box in part.boxes:
            names |= dict.fromkeys(box.ends, box.title)
            names |= {port.id: port.name for port in box.ports if port.name}
            home |= dict.fromkeys(box.ends, k) if not part.alone else {}
    inner: dict[int, list[Wire]] = defaultdict(list)
    pins: dict[tuple[int, str, int], Pin] = {}
    outer: dict[Wire, None] = {}

    def pin(k: int, side: str, end: int) -> int:
        known = (k, side, end)
        if known not in pins:
            pins[known] = Pin(numbers.next(), shorten_name(names.get(end, ""), NAME), passes=True)
        return pins[known].id

    for wire in scene.wires:
        source, target = home.get(wire.source), home.get(wire.target)
        if source is not None and source == target:
            inner[source].append(wire)
            continue
        first, last = wire.source, wire.target
        if source is not None:
            first = pin(source, "right", wire.source)
            inner[source].append(Wire(wire.source, first))
        if target is not None:
            last = pin(target, "left", wire.source)
            inner[target].append(Wire(last, wire.target, wire.kind))
        outer[Wire(first, last, wire.kind, wire.label)] = None
    boxes = [
        part.boxes[0] if part.alone else _group(part, k, pins, inner[k], numbers)
        for k, part in enumerate(parts)
    ]
    return Scene(tuple(boxes), tuple(outer))


def _group(
    part: _Part, k: int, pins: dict[tuple[int, str, int], Pin], wires: list[Wire], numbers: Numbers
) -> Box:
    sides = {
        side: tuple(port for (owner, at, _), port in pins.items() if (owner, at) == (k, side))
        for side in ("left", "right")
    }
    inside = Scene(part.boxes, tuple(dict.fromkeys(wires)))
    words = [box.title for box in part.boxes]
    title = "/".join(part.scope) or f"{words[0]} … {words[-1]}"
    return Box(
        id=numbers.next(),
        kind="group",
        title=shorten_name(title, NAME) + (f" ({part.said})" if part.said else ""),
        below=f"{inside.count} boxes",
        left=sides["left"],
        right=sides["right"],
        inner=grouped(inside, numbers),
        details=(("id", title), ("", f"{inside.count} boxes")),
    )
