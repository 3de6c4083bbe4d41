"""Interactive page of a model: one HTML file, laid out in the browser by elkjs.

    Page(outline("model.yaml")).html()

- `boxes` adds the texts to a scene of `drawing/scene`, with `nodes` for the texts of nodes.
- `operator_chains` and `groups` reduce many boxes.
- `scene` is the result as data for JSON, and `replay` the data of a run.
- `html` assembles the file from `app/` (our JavaScript) and `elkjs/` (third-party, by `make vendor`).
"""

from mdf_loop.drawing.page.page import Page

__all__ = ["Page"]
