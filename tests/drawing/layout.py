"""Where Graphviz has put things: what a picture measures, checked against what a reader needs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pygraphviz


@dataclass(frozen=True)
class Layout:
    """Width and height in points; nodes and edges as Graphviz's JSON has them."""

    width: float
    height: float
    sideways: bool
    nodes: dict[str, dict[str, Any]]
    edges: list[dict[str, Any]]
    names: dict[int, str]


def layout_of(dot: str) -> Layout:
    """The layout of a DOT text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = json.loads(pygraphviz.AGraph(string=dot).draw(format="json", prog="dot"))
    objects = made.get("objects", [])
    box = [float(part) for part in made["bb"].split(",")]
    return Layout(
        box[2] - box[0],
        box[3] - box[1],
        made["rankdir"] == "LR",
        {each["name"]: each for each in objects if "pos" in each},
        made.get("edges", []),
        {each["_gvid"]: each["name"] for each in objects},
    )


def ribbon(layout: Layout) -> str:
    """What is wrong with the shape of a picture; empty where nothing is."""
    if layout.width > 4000:
        return f"{layout.width:.0f} points wide"
    if layout.width > 1500 and layout.width > 2.5 * layout.height:
        return f"{layout.width:.0f} x {layout.height:.0f} points"
    return ""


def crooked_rails(layout: Layout) -> Iterator[str]:
    """Rails of a frame that do not begin at the same height; top to bottom, at the same left end."""
    for name, left in layout.nodes.items():
        right = layout.nodes.get(f"{name.removesuffix('in')}out")
        if left.get("class") != "terminals" or not name.endswith("__in") or right is None:
            continue
        away = abs(_begin(left, layout.sideways) - _begin(right, layout.sideways))
        if away > 1:
            yield f"{name}: {away:.1f} points"


def _begin(node: dict[str, Any], sideways: bool) -> float:
    x, y = map(float, node["pos"].split(","))
    size = 72 * float(node["height" if sideways else "width"])
    return (-y if sideways else x) - size / 2


def back_edges_at_borders(layout: Layout) -> Iterator[str]:
    """Back edges that end within two points of the border of a row."""
    for edge in layout.edges:
        if edge.get("class") != "back":
            continue
        points = _ends(edge["pos"])
        for key, point in zip(("tail", "head"), points, strict=True):
            node = layout.nodes[layout.names[edge[key]]]
            at = point[1] if layout.sideways else point[0]
            near = min(abs(at - border) for border in _borders(node, layout.sideways))
            if near < 2:
                yield f"{node['name']}: {near:.1f} points"


def _ends(spline: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Where a spline begins and where its arrow ends."""
    parts = spline.split()
    end = next((p[2:] for p in parts if p.startswith("e,")), parts[-1])
    start = next(p for p in parts if p[:2] not in ("e,", "s,"))
    return tuple(map(float, start.split(","))), tuple(map(float, end.split(",")))


def _borders(node: dict[str, Any], sideways: bool) -> Iterator[float]:
    """The upper and lower borders of the rows of a rail; top to bottom, the left and right ones."""
    for part in node["_ldraw_"]:
        if part["op"] in "pP":
            along = [point[1 if sideways else 0] for point in part["points"]]
            yield from (min(along), max(along))
