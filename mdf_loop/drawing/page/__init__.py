"""Interactive page of a model: one HTML file, laid out in the browser by elkjs.

    Page(outline("model.yaml")).html()

- `scene` is the content of a page, with a number for each box and port.
- `graphs`, `nodes`, `frames`, `terminals` and `owners` build the scene from an outline.
- `ends` records the sources and targets of wires.
- `fitting` joins `operator_chains` and forms `groups`.
- `html` assembles the file from `app/` (our JavaScript) and `elkjs/` (third-party, by `make vendor`).
"""

from mdf_loop.drawing.page.page import Page

__all__ = ["Page"]
