"""Table of the functions that own graphs, and of their arguments that are graphs.

A new function needs a line in `BODIES`, a reader (`mdf_loop.reading.readers`) and an outline (`BLOCKS` in
`mdf_loop.outline.graphs`). If no existing outline describes it, it also needs a class of its own (`Block`
in `mdf_loop.outline.parts`) and an element that draws it (`mdf_loop.drawing.owners`).
"""

from __future__ import annotations

from typing import Any

BODIES: dict[str, tuple[str, ...]] = {
    "onnx::Loop": ("body",),
    "onnx::Scan": ("body",),
    "onnx::If": ("then_branch", "else_branch"),
    "onnx::SequenceMap": ("body",),
    "case_of": ("branches", "default"),
}
"""Names of the graph arguments of each function; `branches` is a list of graphs."""

_BY_LOWER = {name.lower(): name for name in BODIES} | {"loop": "onnx::Loop"}


def graph_function(function: Any) -> str | None:
    """Return the function's name as in `BODIES`, in any spelling; None if it owns no graphs."""
    return _BY_LOWER.get(function.lower()) if isinstance(function, str) else None


def is_loop(function: Any) -> bool:
    """Return True if a function runs its body repeatedly, so that it has `loop.iterations`."""
    return graph_function(function) in ("onnx::Loop", "onnx::Scan")
