"""Pictures of scenes in Graphviz. Loops are frames with their inputs and outputs on two sides.

    draw_scene(Picture(canvas, BOX_DRAWERS), model_scene(graph, view), view)

- `graphs` draws a scene, and `wires` its wires. The functions of the table `drawers` draw the boxes:
- `frames` (loops) and `conditionals`, with their `terminal_tables` (inputs and outputs);
- `owners` (nodes with several loops, conditionals or formulas), `nodes`, `operators` and `small` boxes.
- `auto` chooses a layout that fits, by the `extent` of a picture, with `bands` for large graphs.
- `canvas` collects DOT text with `labels` and a `legend`, and `render` converts the text to an image.
"""
