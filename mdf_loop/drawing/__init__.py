"""Pictures of models in Graphviz. Loops are frames with their inputs and outputs on two sides.

    drawing = draw("model.yaml")          # notebooks display the picture
    drawing.save("model.svg")             # or png, pdf, dot
    print(drawing.dot)

`scene` decides which boxes, ports and wires a picture has. `page` writes the interactive page. For Graphviz,
each element of a picture has a module:

- `frames` (loops) and `conditionals`, with their `terminal_tables` (inputs and outputs);
- `owners` (nodes that own loops and conditionals, by the table `BLOCK_DRAWERS`), `nodes` and `small` nodes;
- `graphs` (edges, cycles, inputs and outputs) and `legend`.

`theme` has colours and signs, `canvas` collects DOT text, and `render` converts the text to an image.
"""

from mdf_loop.drawing.picture import Drawing, draw
from mdf_loop.drawing.render import renderer

__all__ = ["Drawing", "draw", "renderer"]
