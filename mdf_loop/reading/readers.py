"""Registry of the functions that convert loops, branches and other functions with graphs.

A reader is marked `@reads(name)` in its own module, which `reading/__init__.py` imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.parts import FunctionOrParameter, Node
from mdf_loop.lower import Scope, Term
from mdf_loop.lower.builder import ModelBuilder


class FunctionResults(Struct, frozen=True):
    """Results of a function with graphs, such as a loop or `onnx::If`.

    Attributes:
        term: Result, or tuple of results.
        named_results: Functions that compute further results, by the key after the dot in `name.key`.
    """

    term: Term
    named_results: Mapping[str, Callable[[], Term]] = field(default_factory=dict)


Reader: TypeAlias = Callable[[ModelBuilder, Any, Any, str, Scope, Document], FunctionResults]
"""Function (builder, function or parameter, its node, its path, names, document) -> results."""

READER_BY_FUNCTION: dict[str, Reader] = {}
"""Name of a function -> its reader. `register_reader` adds the entries."""


def register_reader(function: str) -> Callable[[Reader], Reader]:
    """Return a decorator that registers the converter of an MDF function with graphs."""

    def add_reader(reader: Reader) -> Reader:
        READER_BY_FUNCTION[function] = reader
        return reader

    return add_reader


def read_graph_function(
    b: ModelBuilder,
    item: FunctionOrParameter,
    node: Node,
    where: str,
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of a function with graphs, such as a loop, and return its results."""
    function_name = graph_function(item.function)
    assert function_name is not None
    return READER_BY_FUNCTION[function_name](b, item, node, where, scope, document)
