"""A scene that a reader can take in: runs of operators joined, many boxes in groups."""

from __future__ import annotations

from mdf_loop.drawing.page.ends import Numbers
from mdf_loop.drawing.page.groups import grouped
from mdf_loop.drawing.page.runs import joined
from mdf_loop.drawing.page.scene import Scene


def fitted(scene: Scene, numbers: Numbers) -> Scene:
    """The scene, once all of its wires are there."""
    return grouped(joined(scene, numbers), numbers)
