"""Table of the functions that draw the boxes of a scene."""

from __future__ import annotations

from mdf_loop.drawing.dot.conditionals import draw_conditional
from mdf_loop.drawing.dot.frames import draw_frame
from mdf_loop.drawing.dot.nodes import draw_closed_node, draw_node
from mdf_loop.drawing.dot.operators import draw_chain
from mdf_loop.drawing.dot.owners import draw_owner
from mdf_loop.drawing.dot.small import draw_constant, draw_input, draw_output
from mdf_loop.drawing.dot.wires import BoxDrawer

BOX_DRAWERS: dict[str, BoxDrawer] = {
    "node": draw_node,
    "closed": draw_closed_node,
    "owner": draw_owner,
    "loop": draw_frame,
    "choice": draw_conditional,
    "chain": draw_chain,
    "constant": draw_constant,
    "input": draw_input,
    "output": draw_output,
}
"""Function that draws a box, by the kind of the box."""
