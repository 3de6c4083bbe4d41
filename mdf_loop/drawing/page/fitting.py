"""Simplification of a page's boxes and wires: joining of operators, and grouping of boxes."""

from __future__ import annotations

from mdf_loop.drawing.page.ends import Numbering
from mdf_loop.drawing.page.groups import group_boxes
from mdf_loop.drawing.page.operator_chains import join_operators
from mdf_loop.drawing.page.scene import Scene


def simplify_scene(scene: Scene, numbering: Numbering) -> Scene:
    """Join chains of operators into single boxes, then group boxes if there are many."""
    return group_boxes(join_operators(scene, numbering), numbering)
