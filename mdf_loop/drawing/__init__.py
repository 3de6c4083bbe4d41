"""Outline -> picture: loops as frames with paired terminals, in Graphviz.

    drawing = draw("model.yaml")          # in a notebook this shows the picture
    drawing.save("model.svg")             # or png, pdf, dot
    print(drawing.dot)

One file per element: `frames` (loops) and `choices`, with their `rails`; `owners` (nodes that own
these, by the table `ELEMENTS`), `nodes` (all others) and `small` ones; `graphs` (edges, cycles, inputs and
outputs), `legend`. `theme` has colours and signs, `canvas` collects DOT text, `render` makes pixels of it.
"""

from mdf_loop.drawing.picture import Drawing, draw
from mdf_loop.drawing.render import renderer

__all__ = ["Drawing", "draw", "renderer"]
