"""Graphs that functions of a document own as bodies.

A document has a body in the arguments of its function, in a parameter of the node, or as another graph of
the model.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function
from mdf_loop.document.loading import graph_of
from mdf_loop.document.structure import SIGNATURE_KEYS
from mdf_loop.errors import LoopError


def owned_graph_ids(graph: Any) -> set[str]:
    """Return the ids of other graphs that functions of a graph, or of its inline bodies, own."""
    nodes = [node for node in graph.nodes if hasattr(node, "functions")]  # importers nest graphs
    return {graph_id for node in nodes for graph_id in owned_graph_ids_of_node(node)}


def owned_graph_ids_of_node(node: Any) -> set[str]:
    """Return the ids of other graphs that functions of a node, or of its inline bodies, own."""
    graph_ids: set[str] = set()
    for item in (*node.functions, *node.parameters):
        for body in written_bodies(item, node).values():
            if isinstance(body.value, str):
                graph_ids.add(body.value)
            elif body.value is not None:
                with contextlib.suppress(LoopError):  # reading the owner reports the error
                    graph_ids |= owned_graph_ids(graph_of(body.value, ""))
    return graph_ids


class WrittenBody(Struct, frozen=True):
    """Body of a function as written in the document, before the graph is looked up or read.

    `value` is a graph, the dict of a graph, the id of another graph, or None. `parameters` are the
    parameters of the node that lead to the body, in order. `beside` is the mapping with the graph and its
    signature.
    """

    value: Any
    parameters: tuple[str, ...] = ()
    beside: Mapping[str, Any] | None = None


def written_bodies(item: Any, node: Any) -> dict[str, WrittenBody]:
    """Return every graph that a function owns, by its path in the arguments: `body`, `branches[1]`."""
    bodies: dict[str, WrittenBody] = {}
    for argument in GRAPH_ARGUMENTS.get(graph_function(item.function) or "", ()):
        body = written_body(item, node, argument)
        if isinstance(body.value, list | tuple):
            for k, part in enumerate(body.value if argument == "branches" else ()):
                bodies[f"{argument}[{k}]"] = _follow_parameters(part, node, item)
        elif argument != "default" or not is_value(body.value, node):
            bodies[argument] = body
    return bodies


def parameters_with_bodies(item: Any, node: Any) -> set[str]:
    """Return the ids of a node's parameters that are graphs of a function, or lists of graphs."""
    arguments = GRAPH_ARGUMENTS.get(graph_function(item.function) or "", ())
    bodies = [written_body(item, node, argument) for argument in arguments]
    bodies += written_bodies(item, node).values()
    return {name for each in bodies for name in each.parameters}


def is_value(text: Any, node: Any) -> bool:
    """Return True if an argument in place of a graph is a number, a name of the node, or a formula."""
    if not isinstance(text, str):
        return isinstance(text, bool | int | float)
    names = {x.id for x in (*node.input_ports, *node.functions)}
    names |= {p.id for p in node.parameters if not _contains_graph(p.value)}
    return text.strip() in names or not re.fullmatch(r"[\w-]*", _without_quotes(text))


def _contains_graph(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "nodes")


def written_body(item: Any, node: Any, argument: str = "body") -> WrittenBody:
    """Return a body from an argument, the parameter that the argument names, or the parameter `argument`."""
    value = (item.args or {}).get(argument)
    if value is None or (isinstance(value, str) and not value.strip()):
        value = argument if any(p.id == argument for p in node.parameters) else None
    if argument == "default" and is_value(value, node):
        return WrittenBody(value)
    return _follow_parameters(value, node, item)


def _follow_parameters(value: Any, node: Any, item: Any) -> WrittenBody:
    parameters = {p.id: p for p in node.parameters if p is not item}
    names: list[str] = []
    while isinstance(value, str) and _without_quotes(value) in parameters.keys() - set(names):
        names.append(_without_quotes(value))
        value = parameters[names[-1]].value
    beside = None
    if isinstance(value, Mapping) and "graph" in value and set(value) <= SIGNATURE_KEYS:
        beside, value = value, value["graph"]
    if isinstance(value, str):
        value = _without_quotes(value) or None
    return WrittenBody(value, tuple(names), beside)


def _without_quotes(text: str) -> str:
    return text.strip().strip("'\"")
