"""Grouping of many boxes on a page by common prefixes of the boxes' names.

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

from mdf_loop.drawing.page.box_graphs import build_box_graph, topological_order
from mdf_loop.drawing.page.scene import Box, Numbering, Port, Scene
from mdf_loop.drawing.scene.elements import Wire
from mdf_loop.outline.text import shorten_name

MAX_BOXES = 200
"""Maximum number of boxes side by side without groups."""
MAX_GROUPS = 60
"""Maximum number of groups, including single boxes. Above this number, neighbours are merged."""
MAX_GROUP_SIZE = 40
"""Maximum number of boxes in a merged group."""
MIN_GROUP_SIZE = 3
MAX_NAME_LENGTH = 40
_PILL_KINDS = ("input", "output")


class _Group(Struct, frozen=True):
    """Group of one or more boxes. `scope` is the common prefix of the boxes' names."""

    boxes: tuple[Box, ...]
    scope: tuple[str, ...] = ()
    remark: str = ""

    @property
    def is_single(self) -> bool:
        """True if the group consists of a single box."""
        return len(self.boxes) == 1


def group_boxes(scene: Scene, numbering: Numbering) -> Scene:
    """Group the boxes of a scene if there are more than `MAX_BOXES`, and return the scene."""
    if len(scene.boxes) <= MAX_BOXES:
        return scene
    pill_boxes = tuple(box for box in scene.boxes if box.kind in _PILL_KINDS)
    if len(pill_boxes) > MAX_GROUP_SIZE:
        pill_boxes = ()
    pill_box_ids = {box.id for box in pill_boxes}
    forward_wires = tuple(wire for wire in scene.wires if wire.line_style != "feedback")
    forward_graph = build_box_graph(Scene(scene.boxes, forward_wires))
    forward_graph.remove_nodes_from([wire_end for wire_end in forward_graph if wire_end < 0])
    groups = _group_by_scopes(
        tuple(box for box in scene.boxes if box.id not in pill_box_ids), forward_graph
    )
    if len(groups) > MAX_GROUPS:
        groups = list(_merge_neighbours(groups, forward_graph))
    return _replace_groups(scene, [_Group((box,)) for box in pill_boxes] + groups, numbering)


# --- scopes ---------------------------------------------------------------------------------------


def _group_by_scopes(boxes: tuple[Box, ...], box_graph: nx.DiGraph) -> list[_Group]:
    """Group boxes by the first differing part of their names, and split groups in cycles."""
    scopes = {box.id: _scope_of(box) for box in boxes}
    groups = list(
        _group_scopes(
            boxes, scopes, _common_depth([scope for scope in scopes.values() if scope]) + 1
        )
    )
    for split_method in (
        _split_by_reentry,
        partial(_split_by_next_scope, scopes),
        _split_into_boxes,
    ):
        cyclic_group_indices = _cyclic_groups(groups, box_graph)
        if not cyclic_group_indices:
            break
        groups = [
            split_group
            for k, group in enumerate(groups)
            for split_group in (
                split_method(group, box_graph) if k in cyclic_group_indices else (group,)
            )
        ]
    if _cyclic_groups(groups, box_graph):
        groups = [_Group((box,)) for group in groups for box in group.boxes]
    return groups


def _common_depth(scopes: list[tuple[str, ...]]) -> int:
    """Return the length of the common prefix of scopes, such as 1 for (encoder, a), (encoder, b)."""
    return sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, zip(*scopes, strict=False)))


def _scope_of(box: Box) -> tuple[str, ...]:
    """Return the scope of a box: the parts of the box's name without the last part.

    The scope of `/encoder/layer.0/Add` is (encoder, layer.0).
    """
    box_name = next((text for title, text in box.details if title == "id"), box.title)
    separator = "/" if "/" in box_name else "."
    return tuple(name_part for name_part in box_name.split(separator) if name_part)[:-1]


def _group_scopes(
    boxes: Iterable[Box], scopes: dict[int, tuple[str, ...]], depth: int
) -> Iterator[_Group]:
    """Yield a group for each set of boxes whose names share the first `depth` parts.

    The boxes of a small group are yielded as single boxes.
    """
    boxes_by_scope: dict[tuple[str, ...], list[Box]] = defaultdict(list)
    for box in boxes:
        scope = scopes[box.id][:depth]
        boxes_by_scope[scope if len(scope) == depth else (str(box.id), *scope)].append(box)
    for scope, scope_boxes in boxes_by_scope.items():
        if len(scope_boxes) < MIN_GROUP_SIZE:
            yield from (_Group((box,)) for box in scope_boxes)
        else:
            yield _Group(tuple(scope_boxes), scope)


def _cyclic_groups(groups: list[_Group], box_graph: nx.DiGraph) -> set[int]:
    """Return the indices of groups that feed themselves through other groups."""
    group_index_by_box = {box.id: k for k, group in enumerate(groups) for box in group.boxes}
    group_graph = nx.DiGraph()
    group_graph.add_nodes_from(range(len(groups)))
    for source_box_id, target_box_id in box_graph.edges:
        if (
            source_box_id in group_index_by_box
            and target_box_id in group_index_by_box
            and group_index_by_box[source_box_id] != group_index_by_box[target_box_id]
        ):
            group_graph.add_edge(
                group_index_by_box[source_box_id], group_index_by_box[target_box_id]
            )
    cycles = (cycle for cycle in nx.strongly_connected_components(group_graph) if len(cycle) > 1)
    return {k for cycle in cycles for k in cycle if not groups[k].is_single}


def _split_by_reentry(group: _Group, box_graph: nx.DiGraph) -> list[_Group]:
    """Split a group that feeds itself through other boxes into parts that do not."""
    group_box_ids = {box.id for box in group.boxes}
    group_entry_counts: dict[int, int] = {}
    for box_id in topological_order(box_graph):
        predecessor_counts = [
            group_entry_counts[predecessor]
            + (predecessor not in group_box_ids and box_id in group_box_ids)
            for predecessor in box_graph.pred[box_id]
            if predecessor in group_entry_counts
        ]
        if predecessor_counts or box_id in group_box_ids:
            group_entry_counts[box_id] = max(predecessor_counts, default=0)
    boxes_by_entry_count: dict[int, list[Box]] = defaultdict(list)
    for box in group.boxes:
        boxes_by_entry_count[group_entry_counts.get(box.id, 0)].append(box)
    segment_count = len(boxes_by_entry_count)
    return [
        _Group(
            tuple(boxes), group.scope, f"{k + 1} of {segment_count}" if segment_count > 1 else ""
        )
        for k, (_, boxes) in enumerate(sorted(boxes_by_entry_count.items()))
    ]


def _split_by_next_scope(
    scopes: dict[int, tuple[str, ...]], group: _Group, box_graph: nx.DiGraph
) -> list[_Group]:
    """Split a group by the next part of its boxes' names, such as `layers.0`."""
    return list(_group_scopes(group.boxes, scopes, len(group.scope) + 1))


def _split_into_boxes(group: _Group, box_graph: nx.DiGraph) -> list[_Group]:
    """Split a group into groups of one box each."""
    return [_Group((box,)) for box in group.boxes]


# --- merging --------------------------------------------------------------------------------------


def _merge_neighbours(groups: list[_Group], box_graph: nx.DiGraph) -> Iterator[_Group]:
    """Merge single boxes that are adjacent in topological order into groups."""
    group_index_by_box = {box.id: k for k, group in enumerate(groups) for box in group.boxes}
    group_graph = nx.DiGraph()
    group_graph.add_nodes_from(range(len(groups)))
    group_graph.add_edges_from(
        (group_index_by_box[source_box_id], group_index_by_box[target_box_id])
        for source_box_id, target_box_id in box_graph.edges
        if source_box_id in group_index_by_box and target_box_id in group_index_by_box
    )
    group_graph.remove_edges_from(list(nx.selfloop_edges(group_graph)))
    pending_boxes: list[Box] = []
    for k in topological_order(group_graph):
        if groups[k].is_single and len(pending_boxes) < MAX_GROUP_SIZE:
            pending_boxes += groups[k].boxes
            continue
        if pending_boxes:
            yield _Group(tuple(pending_boxes))
        pending_boxes = [*groups[k].boxes] if groups[k].is_single else []
        if not groups[k].is_single:
            yield groups[k]
    if pending_boxes:
        yield _Group(tuple(pending_boxes))


# --- boxes of groups ------------------------------------------------------------------------------


def _replace_groups(scene: Scene, groups: list[_Group], numbering: Numbering) -> Scene:
    """Return a scene in which one box replaces each group of several boxes."""
    group_by_wire_end: dict[int, int] = {}
    port_names: dict[int, str] = {}
    for k, group in enumerate(groups):
        for box in group.boxes:
            port_names |= dict.fromkeys(box.ends, box.title)
            port_names |= {port.id: port.name for port in box.ports if port.name}
            group_by_wire_end |= dict.fromkeys(box.ends, k) if not group.is_single else {}
    inner_wires: dict[int, list[Wire]] = defaultdict(list)
    group_ports: dict[tuple[int, str, int], Port] = {}
    outer_wires: dict[Wire, None] = {}

    def pin(group_index: int, side: str, wire_end: int) -> int:
        port_key = (group_index, side, wire_end)
        if port_key not in group_ports:
            group_ports[port_key] = Port(
                numbering.next(),
                shorten_name(port_names.get(wire_end, ""), MAX_NAME_LENGTH),
                passes_value=True,
            )
        return group_ports[port_key].id

    for wire in scene.wires:
        source_index, target_index = (
            group_by_wire_end.get(wire.source),
            group_by_wire_end.get(wire.target),
        )
        if source_index is not None and source_index == target_index:
            inner_wires[source_index].append(wire)
            continue
        wire_source, wire_target = wire.source, wire.target
        if source_index is not None:
            wire_source = pin(source_index, "right", wire.source)
            inner_wires[source_index].append(Wire(wire.source, wire_source))
        if target_index is not None:
            wire_target = pin(target_index, "left", wire.source)
            inner_wires[target_index].append(Wire(wire_target, wire.target, wire.line_style))
        outer_wires[Wire(wire_source, wire_target, wire.line_style, wire.label)] = None
    boxes = [
        group.boxes[0]
        if group.is_single
        else _build_group_box(group, k, group_ports, inner_wires[k], numbering)
        for k, group in enumerate(groups)
    ]
    return Scene(tuple(boxes), tuple(outer_wires))


def _build_group_box(
    group: _Group,
    group_index: int,
    group_ports: dict[tuple[int, str, int], Port],
    wires: list[Wire],
    numbering: Numbering,
) -> Box:
    """Build the box of a group, with ports, inner boxes and inner wires."""
    ports_by_side = {
        side: tuple(
            port
            for (port_group, port_side, _), port in group_ports.items()
            if (port_group, port_side) == (group_index, side)
        )
        for side in ("left", "right")
    }
    inner_scene = Scene(group.boxes, tuple(dict.fromkeys(wires)))
    box_titles = [box.title for box in group.boxes]
    group_title = "/".join(group.scope) or f"{box_titles[0]} … {box_titles[-1]}"
    return Box(
        id=numbering.next(),
        kind="group",
        title=shorten_name(group_title, MAX_NAME_LENGTH)
        + (f" ({group.remark})" if group.remark else ""),
        remark=f"{inner_scene.count} boxes",
        left_ports=ports_by_side["left"],
        right_ports=ports_by_side["right"],
        inner_scene=group_boxes(inner_scene, numbering),
        details=(("id", group_title), ("", f"{inner_scene.count} boxes")),
    )
