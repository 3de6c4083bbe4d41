"""Scene of a picture: the boxes, ports and wires that every renderer shows.

    scene = model_scene(outline("model.yaml"), View(DETAIL_LEVELS[3]))
    scene.boxes[0].left_ports, scene.wires

- `elements` are the data: scenes, boxes, ports and wires, with a number for each box and port.
- `graphs`, `owners` and `blocks` build them from an outline, with `terminals` for inputs and outputs of blocks.
- `constants` and `captures` reduce a graph first, and `formulas` collects the formulas beside blocks.

The scene decides what a picture contains and what is connected. Renderers decide the texts, the order and the
layout: `dot` for Graphviz and `page` for the interactive page.
"""
