"""Functions that own graphs: which they are, which arguments are graphs, who reads them.

A new one is a line in `BODIES`, and a reader marked `@reads(name)` in a file of its own, which
`reading/__init__.py` imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from mdf_loop.build import Builder
from mdf_loop.lower import Scope, Term

if TYPE_CHECKING:
    from mdf_loop.reading.document import Document

BODIES: dict[str, tuple[str, ...]] = {
    "onnx::Loop": ("body",),
    "onnx::Scan": ("body",),
    "onnx::If": ("then_branch", "else_branch"),
    "onnx::SequenceMap": ("body",),
    "case_of": ("branches", "default"),
}
"""Function -> the arguments that hold its graphs; `branches` is a list of graphs."""

_BY_LOWER = {name.lower(): name for name in BODIES} | {"loop": "onnx::Loop"}


def control(function: Any) -> str | None:
    """The function's name as in `BODIES`, however it is spelled; None if it owns no graphs."""
    return _BY_LOWER.get(function.lower()) if isinstance(function, str) else None


def is_loop(function: Any) -> bool:
    """Whether a function runs its body again and again: `loop.iterations` can be asked for."""
    return control(function) in ("onnx::Loop", "onnx::Scan")


@dataclass(frozen=True, slots=True)
class Reading:
    """What such a function gives: its results, and what else can be asked for by `name.key`."""

    term: Term
    named: Mapping[str, Callable[[], Term]] = field(default_factory=dict)


Reader: TypeAlias = "Callable[[Builder, Any, Any, str, Scope, Document], Reading]"
"""(builder, function or parameter, its node, its path, names, document) -> results."""

_READERS: dict[str, Reader] = {}


def reads(function: str) -> Callable[[Reader], Reader]:
    """Register the reader of a function."""

    def register(reader: Reader) -> Reader:
        _READERS[function] = reader
        return reader

    return register


def read_control(
    b: Builder, item: Any, node: Any, where: str, scope: Scope, document: Document
) -> Reading:
    """The results of a function or parameter that owns graphs."""
    name = control(item.function)
    assert name is not None
    return _READERS[name](b, item, node, where, scope, document)
