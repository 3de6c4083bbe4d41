"""Outline -> a page to look around in: one HTML file, laid out in the browser by elkjs.

    Page(outline("model.yaml")).html()

`scene` is what a page shows, by number; `graphs`, `nodes`, `frames`, `terminals` and `owners` make it of an
outline, `ends` is where values arrive; `fitting` joins `runs` of operators and makes `groups`; `html` puts the
file together from `app/`, which is JavaScript, and `elkjs/`, which is not ours (`make vendor`).
"""

from mdf_loop.drawing.page.page import Page

__all__ = ["Page"]
