"""Pictures of models: images by Graphviz, and interactive pages.

    drawing = draw("model.yaml")          # notebooks display the picture
    drawing.save("model.svg")             # or png, pdf, dot, html
    print(drawing.dot)

- `scene` decides which boxes, ports and wires a picture has.
- `dot` writes a scene for Graphviz, and `page` writes the interactive page.
- `view` has the options of a picture, `theme` its colours, signs and levels of detail, and `texts` and
  `observed` have texts that all renderers show.
- `focus` and `flow` reduce a graph, and `picture` has the function `draw`.
"""

from mdf_loop.drawing.dot.render import renderer
from mdf_loop.drawing.picture import Drawing, draw

__all__ = ["Drawing", "draw", "renderer"]
