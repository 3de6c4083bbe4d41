"""Table of the functions that own graphs, with the names of their graph arguments.

A new function needs an entry in `GRAPH_ARGUMENTS`, a reader (`mdf_loop.reading.readers`) and an outline (`BLOCK_OUTLINERS` in
`mdf_loop.outline.graphs`). If no existing outline describes the function, the function also needs a subclass
of `Block` (`mdf_loop.outline.parts`) and an element that draws this block (`mdf_loop.drawing.dot.drawers`).
"""

from __future__ import annotations

GRAPH_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "onnx::Loop": ("body",),
    "onnx::Scan": ("body",),
    "onnx::If": ("then_branch", "else_branch"),
    "onnx::SequenceMap": ("body",),
    "case_of": ("branches", "default"),
}
"""Names of the graph arguments of each function; `branches` is a list of graphs."""

_NAMES_BY_LOWER_CASE = {name.lower(): name for name in GRAPH_ARGUMENTS} | {"loop": "onnx::Loop"}


def graph_function(function: object) -> str | None:
    """Return the canonical name of a function that owns graphs, or None for another function."""
    return _NAMES_BY_LOWER_CASE.get(function.lower()) if isinstance(function, str) else None


def is_loop(function: object) -> bool:
    """Return True if a function is a Loop or Scan, so that `loop.iterations` is defined."""
    return graph_function(function) in ("onnx::Loop", "onnx::Scan")
