"""Functions that own graphs: which they are, and which arguments are graphs.

A new one is a line in `BODIES`, a reader (`mdf_loop.reading.readers`) and an outline (`BLOCKS` in
`mdf_loop.outline.graphs`). If the outlines that there are do not say what it does, it has a class of
its own (`Block` in `mdf_loop.outline.parts`), which an element draws (`mdf_loop.drawing.owners`).
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
"""Function -> the arguments that hold its graphs; `branches` is a list of graphs."""

_BY_LOWER = {name.lower(): name for name in BODIES} | {"loop": "onnx::Loop"}


def graph_function(function: Any) -> str | None:
    """The function's name as in `BODIES`, however it is spelled; None if it owns no graphs."""
    return _BY_LOWER.get(function.lower()) if isinstance(function, str) else None


def is_loop(function: Any) -> bool:
    """Whether a function runs its body again and again: `loop.iterations` can be asked for."""
    return graph_function(function) in ("onnx::Loop", "onnx::Scan")
