"""Pictures of models in Graphviz. Loops are frames with their inputs and outputs on two sides.

    drawing = draw("model.yaml")          # notebooks display the picture
    drawing.save("model.svg")             # or png, pdf, dot
    print(drawing.dot)

`scene` decides which boxes, ports and wires a picture has. `page` writes the interactive page. For Graphviz,
the functions of the table `BOX_DRAWERS` (`drawers`) draw the boxes:

- `frames` (loops) and `conditionals`, with their `terminal_tables` (inputs and outputs);
- `owners` (nodes with several loops, conditionals or formulas), `nodes`, `operators` and `small` boxes.

`graphs` draws a scene, `wires` its wires, and `legend` the legend.

`theme` has colours and signs, `canvas` collects DOT text, and `render` converts the text to an image.
"""

from mdf_loop.drawing.picture import Drawing, draw
from mdf_loop.drawing.render import renderer

__all__ = ["Drawing", "draw", "renderer"]
