"""Groups of boxes, which are closed at first, by the scopes in the names of boxes.

    /encoder/layers.0/Mul, /encoder/layers.0/Add, /encoder/layers.1/Mul, ...
    groups layers.0, layers.1, ...

A group that would feed itself is split. A group is a box with one port for each value that enters or leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import takewhile

import networkx as nx
from msgspec import Struct

from mdf_loop.drawing.page.ends import Numbering
from mdf_loop.drawing.page.scene import Box, Port, Scene, Wire
from mdf_loop.outline.text import shorten_name

MAX_BOXES = 200
"""Maximum number of boxes side by side without groups."""
MAX_PARTS = 60
"""Maximum number of groups and single boxes. Above this number, neighbours are merged."""
MAX_PART_SIZE = 40
"""Maximum number of boxes in a merged part."""
MIN_GROUP_SIZE = 3
MAX_NAME_LENGTH = 40
_PILL_KINDS = ("input", "output")


class _Part(Struct, frozen=True):
    """Group of boxes, or a single box. `scope` is the common beginning of their names."""

    boxes: tuple[Box, ...]
    scope: tuple[str, ...] = ()
    remark: str = ""

    @property
    def is_single(self) -> bool:
        """True if the part consists of a single box."""
        return len(self.boxes) == 1


def group_boxes(scene: Scene, numbers: Numbering) -> Scene:
    """Return a scene whose boxes are grouped if it has more than `MAX_BOXES` boxes."""
    if len(scene.boxes) <= MAX_BOXES:
        return scene
    pills = tuple(box for box in scene.boxes if box.kind in _PILL_KINDS)
    if len(pills) > MAX_PART_SIZE:
        pills = ()
    pill_ids = {box.id for box in pills}
    flow = _build_box_flow(scene)
    parts = _group_by_scopes(tuple(box for box in scene.boxes if box.id not in pill_ids), flow)
    if len(parts) > MAX_PARTS:
        parts = list(_merge_neighbours(parts, flow))
    return _replace_parts(scene, [_Part((box,)) for box in pills] + parts, numbers)


def _build_box_flow(scene: Scene) -> nx.DiGraph:
    """Build the directed graph of boxes and wires, without feedback wires."""
    box_of_end = {end: box.id for box in scene.boxes for end in box.ends}
    flow = nx.DiGraph()
    flow.add_nodes_from(box.id for box in scene.boxes)
    flow.add_edges_from(
        (box_of_end[wire.source], box_of_end[wire.target])
        for wire in scene.wires
        if wire.kind != "feedback" and wire.source in box_of_end and wire.target in box_of_end
    )
    return flow


# --- scopes ---------------------------------------------------------------------------------------


def _group_by_scopes(boxes: tuple[Box, ...], flow: nx.DiGraph) -> list[_Part]:
    """Group boxes by the first differing part of their names, such that no group feeds itself."""
    scopes = {box.id: _scope_of(box) for box in boxes}
    parts = list(_group_scopes(boxes, scopes, _common_depth([s for s in scopes.values() if s]) + 1))
    for split_method in (
        _split_by_reentry,
        partial(_split_by_next_scope, scopes),
        _split_into_boxes,
    ):
        cyclic_positions = _cyclic_groups(parts, flow)
        if not cyclic_positions:
            break
        parts = [
            split_part
            for k, part in enumerate(parts)
            for split_part in (split_method(part, flow) if k in cyclic_positions else (part,))
        ]
    if _cyclic_groups(parts, flow):
        parts = [_Part((box,)) for part in parts for box in part.boxes]
    return parts


def _common_depth(scopes: list[tuple[str, ...]]) -> int:
    """Return the number of leading parts that all scopes have in common."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*scopes, strict=False)))


def _scope_of(box: Box) -> tuple[str, ...]:
    """Return the scope of a box, which is its name without the last part.

    The scope of `/encoder/layer.0/Add` is (encoder, layer.0).
    """
    name = next((text for detail, text in box.details if detail == "id"), box.title)
    separator = "/" if "/" in name else "."
    return tuple(part for part in name.split(separator) if part)[:-1]


def _group_scopes(
    boxes: Iterable[Box], scopes: dict[int, tuple[str, ...]], depth: int
) -> Iterator[_Part]:
    """Yield a group for each scope of this depth, and a single box for each member of a small group."""
    boxes_by_scope: dict[tuple[str, ...], list[Box]] = defaultdict(list)
    for box in boxes:
        scope = scopes[box.id][:depth]
        boxes_by_scope[scope if len(scope) == depth else (str(box.id), *scope)].append(box)
    for scope, scope_boxes in boxes_by_scope.items():
        if len(scope_boxes) < MIN_GROUP_SIZE:
            yield from (_Part((box,)) for box in scope_boxes)
        else:
            yield _Part(tuple(scope_boxes), scope)


def _cyclic_groups(parts: list[_Part], flow: nx.DiGraph) -> set[int]:
    """Return the positions of groups that feed themselves."""
    part_of_box = {box.id: k for k, part in enumerate(parts) for box in part.boxes}
    part_flow = nx.DiGraph()
    part_flow.add_nodes_from(range(len(parts)))
    for a, b in flow.edges:
        if a in part_of_box and b in part_of_box and part_of_box[a] != part_of_box[b]:
            part_flow.add_edge(part_of_box[a], part_of_box[b])
    cycles = (cycle for cycle in nx.strongly_connected_components(part_flow) if len(cycle) > 1)
    return {k for cycle in cycles for k in cycle if not parts[k].is_single}


def _split_by_reentry(part: _Part, flow: nx.DiGraph) -> list[_Part]:
    """Split a group at the values that leave the group and enter it again."""
    member_ids = {box.id for box in part.boxes}
    reentries: dict[int, int] = {}
    for node in _topological_order(flow):
        predecessor_counts = [
            reentries[p] + (p not in member_ids and node in member_ids)
            for p in flow.pred[node]
            if p in reentries
        ]
        if predecessor_counts or node in member_ids:
            reentries[node] = max(predecessor_counts, default=0)
    boxes_by_reentries: dict[int, list[Box]] = defaultdict(list)
    for box in part.boxes:
        boxes_by_reentries[reentries.get(box.id, 0)].append(box)
    segment_count = len(boxes_by_reentries)
    return [
        _Part(tuple(boxes), part.scope, f"{k + 1} of {segment_count}" if segment_count > 1 else "")
        for k, (_, boxes) in enumerate(sorted(boxes_by_reentries.items()))
    ]


def _split_by_next_scope(
    scopes: dict[int, tuple[str, ...]], part: _Part, flow: nx.DiGraph
) -> list[_Part]:
    """Split a group by the next part of its boxes' names."""
    return list(_group_scopes(part.boxes, scopes, len(part.scope) + 1))


def _split_into_boxes(part: _Part, flow: nx.DiGraph) -> list[_Part]:
    """Split a group into single boxes."""
    return [_Part((box,)) for box in part.boxes]


def _topological_order(flow: nx.DiGraph) -> list[int]:
    """Return boxes in topological order, with the boxes of a cycle next to each other."""
    condensed_flow = nx.condensation(flow)
    return [
        n
        for k in nx.topological_sort(condensed_flow)
        for n in sorted(condensed_flow.nodes[k]["members"])
    ]


# --- parts ----------------------------------------------------------------------------------------


def _merge_neighbours(parts: list[_Part], flow: nx.DiGraph) -> Iterator[_Part]:
    """Yield the parts in topological order, and merge neighbours where no cycle arises."""
    part_of_box = {box.id: k for k, part in enumerate(parts) for box in part.boxes}
    part_flow = nx.DiGraph()
    part_flow.add_nodes_from(range(len(parts)))
    part_flow.add_edges_from(
        (part_of_box[a], part_of_box[b])
        for a, b in flow.edges
        if a in part_of_box and b in part_of_box
    )
    part_flow.remove_edges_from(list(nx.selfloop_edges(part_flow)))
    pending_boxes: list[Box] = []
    for k in _topological_order(part_flow):
        if parts[k].is_single and len(pending_boxes) < MAX_PART_SIZE:
            pending_boxes += parts[k].boxes
            continue
        if pending_boxes:
            yield _Part(tuple(pending_boxes))
        pending_boxes = [*parts[k].boxes] if parts[k].is_single else []
        if not parts[k].is_single:
            yield parts[k]
    if pending_boxes:
        yield _Part(tuple(pending_boxes))


# --- boxes of groups ------------------------------------------------------------------------------


def _replace_parts(scene: Scene, parts: list[_Part], numbers: Numbering) -> Scene:
    """Replace each part with several boxes by one group box."""
    part_of_end: dict[int, int] = {}
    port_names: dict[int, str] = {}
    for k, part in enumerate(parts):
        for box in part.boxes:
            port_names |= dict.fromkeys(box.ends, box.title)
            port_names |= {port.id: port.name for port in box.ports if port.name}
            part_of_end |= dict.fromkeys(box.ends, k) if not part.is_single else {}
    inner_wires: dict[int, list[Wire]] = defaultdict(list)
    ports: dict[tuple[int, str, int], Port] = {}
    outer_wires: dict[Wire, None] = {}

    def pin(k: int, side: str, end: int) -> int:
        key = (k, side, end)
        if key not in ports:
            ports[key] = Port(
                numbers.next(), shorten_name(port_names.get(end, ""), MAX_NAME_LENGTH), passes=True
            )
        return ports[key].id

    for wire in scene.wires:
        source_part, target_part = part_of_end.get(wire.source), part_of_end.get(wire.target)
        if source_part is not None and source_part == target_part:
            inner_wires[source_part].append(wire)
            continue
        wire_source, wire_target = wire.source, wire.target
        if source_part is not None:
            wire_source = pin(source_part, "right", wire.source)
            inner_wires[source_part].append(Wire(wire.source, wire_source))
        if target_part is not None:
            wire_target = pin(target_part, "left", wire.source)
            inner_wires[target_part].append(Wire(wire_target, wire.target, wire.kind))
        outer_wires[Wire(wire_source, wire_target, wire.kind, wire.label)] = None
    boxes = [
        part.boxes[0]
        if part.is_single
        else _build_group_box(part, k, ports, inner_wires[k], numbers)
        for k, part in enumerate(parts)
    ]
    return Scene(tuple(boxes), tuple(outer_wires))


def _build_group_box(
    part: _Part,
    k: int,
    ports: dict[tuple[int, str, int], Port],
    wires: list[Wire],
    numbers: Numbering,
) -> Box:
    """Build the box of a group from its ports and inner wires."""
    ports_by_side = {
        side: tuple(
            port for (owner, port_side, _), port in ports.items() if (owner, port_side) == (k, side)
        )
        for side in ("left", "right")
    }
    inner_scene = Scene(part.boxes, tuple(dict.fromkeys(wires)))
    titles = [box.title for box in part.boxes]
    title = "/".join(part.scope) or f"{titles[0]} … {titles[-1]}"
    return Box(
        id=numbers.next(),
        kind="group",
        title=shorten_name(title, MAX_NAME_LENGTH) + (f" ({part.remark})" if part.remark else ""),
        remark=f"{inner_scene.count} boxes",
        left=ports_by_side["left"],
        right=ports_by_side["right"],
        inner=group_boxes(inner_scene, numbers),
        details=(("id", title), ("", f"{inner_scene.count} boxes")),
    )
