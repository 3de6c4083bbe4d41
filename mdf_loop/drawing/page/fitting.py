"""Simplification of a page's scene: chains of operators are joined, many boxes are grouped."""

from __future__ import annotations

from mdf_loop.drawing.page.ends import Numbering
from mdf_loop.drawing.page.groups import group_boxes
from mdf_loop.drawing.page.operator_chains import join_operators
from mdf_loop.drawing.page.scene import Scene


def simplify_scene(scene: Scene, numbering: Numbering) -> Scene:
    """Join operators and group boxes of a scene that has all its wires."""
    return group_boxes(join_operators(scene, numbering), numbering)
