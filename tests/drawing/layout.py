"""Positions that Graphviz assigns, checked against the needs of a reader."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pygraphviz


@dataclass(frozen=True)
class Layout:
    """Width and height in points, with nodes and edges as in Graphviz's JSON."""

    width: float
    height: float
    sideways: bool
    nodes: dict[str, dict[str, Any]]
    edges: list[dict[str, Any]]
    names: dict[int, str]


def layout_of(dot: str) -> Layout:
    """Return the layout of a DOT text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = json.loads(pygraphviz.AGraph(string=dot).draw(format="json", prog="dot"))
    objects = content.get("objects", [])
    box = [float(part) for part in content["bb"].split(",")]
    return Layout(
        box[2] - box[0],
        box[3] - box[1],
        content["rankdir"] == "LR",
        {entry["name"]: entry for entry in objects if "pos" in entry},
        content.get("edges", []),
        {entry["_gvid"]: entry["name"] for entry in objects},
    )


def shape_problem(layout: Layout) -> str:
    """Return the problem with the shape of a picture, or an empty text."""
    if layout.width > 4000:
        return f"{layout.width:.0f} points wide"
    if layout.width > 1500 and layout.width > 2.5 * layout.height:
        return f"{layout.width:.0f} x {layout.height:.0f} points"
    return ""


def crooked_rails(layout: Layout) -> Iterator[str]:
    """Yield rails of a frame that begin at different heights, or at different left ends for top to bottom."""
    for name, left in layout.nodes.items():
        right = layout.nodes.get(f"{name.removesuffix('in')}out")
        if left.get("class") != "terminals" or not name.endswith("__in") or right is None:
            continue
        distance = abs(
            _upper_or_left_side(left, layout.sideways) - _upper_or_left_side(right, layout.sideways)
        )
        if distance > 1:
            yield f"{name}: {distance:.1f} points"


def _upper_or_left_side(node: dict[str, Any], sideways: bool) -> float:
    x, y = map(float, node["pos"].split(","))
    size = 72 * float(node["height" if sideways else "width"])
    return (-y if sideways else x) - size / 2


def back_edges_at_borders(layout: Layout) -> Iterator[str]:
    """Yield back edges that end within two points of the border of a row."""
    for edge in layout.edges:
        if edge.get("class") != "back":
            continue
        points = _ends(edge["pos"])
        for key, point in zip(("tail", "head"), points, strict=True):
            node = layout.nodes[layout.names[edge[key]]]
            coordinate = point[1] if layout.sideways else point[0]
            distance = min(abs(coordinate - border) for border in _borders(node, layout.sideways))
            if distance < 2:
                yield f"{node['name']}: {distance:.1f} points"


def _ends(spline: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the start of a spline and the end of its arrow."""
    parts = spline.split()
    end = next((p[2:] for p in parts if p.startswith("e,")), parts[-1])
    start = next(p for p in parts if p[:2] not in ("e,", "s,"))
    return tuple(map(float, start.split(","))), tuple(map(float, end.split(",")))


def _borders(node: dict[str, Any], sideways: bool) -> Iterator[float]:
    """Yield the upper and lower borders of the rows of a rail, or the left and right ones for top to bottom."""
    for part in node["_ldraw_"]:
        if part["op"] in "pP":
            coordinates = [point[1 if sideways else 0] for point in part["points"]]
            yield from (min(coordinates), max(coordinates))
