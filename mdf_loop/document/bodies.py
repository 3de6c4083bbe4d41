"""The graphs that functions of a document own: where they are written, and by which id.

A body stands in the function's arguments, in a parameter of its node, or is another graph of the
model.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mdf_loop.document.graph_functions import BODIES, graph_function
from mdf_loop.document.loading import graph_of
from mdf_loop.document.structure import BESIDE
from mdf_loop.errors import LoopError


def named_bodies(graph: Any) -> set[str]:
    """Ids of other graphs that functions of a graph, or of bodies written inside it, own."""
    nodes = [node for node in graph.nodes if hasattr(node, "functions")]  # importers nest graphs
    return {graph_id for node in nodes for graph_id in named_by_node(node)}


def named_by_node(node: Any) -> set[str]:
    """Ids of other graphs that functions of a node, or of bodies written inside it, own."""
    named: set[str] = set()
    for item in (*node.functions, *node.parameters):
        for written in written_bodies(item, node).values():
            if isinstance(written.value, str):
                named.add(written.value)
            elif written.value is not None:
                with contextlib.suppress(LoopError):  # reading the owner says what is wrong
                    named |= named_bodies(graph_of(written.value, ""))
    return named


class WrittenBody(Struct, frozen=True):
    """How a body is written, before it is looked up or read.

    `value` is a graph, its dict, the id of another graph, or None; `parameters` are those of the
    node that were followed to it; `beside` is the mapping that holds a signature next to it.
    """

    value: Any
    parameters: tuple[str, ...] = ()
    beside: Mapping[str, Any] | None = None


def written_bodies(item: Any, node: Any) -> dict[str, WrittenBody]:
    """Every graph that a function owns, by its place in the args: `body`, `branches[1]`."""
    found: dict[str, WrittenBody] = {}
    for argument in BODIES.get(graph_function(item.function) or "", ()):
        written = written_body(item, node, argument)
        if isinstance(written.value, list | tuple):
            for k, part in enumerate(written.value if argument == "branches" else ()):
                found[f"{argument}[{k}]"] = _followed(part, node, item)
        elif argument != "default" or not is_value(written.value, node):
            found[argument] = written
    return found


def parameters_with_bodies(item: Any, node: Any) -> set[str]:
    """The parameters of a node that hold graphs of a function, or lists of them."""
    arguments = BODIES.get(graph_function(item.function) or "", ())
    written = [written_body(item, node, argument) for argument in arguments]
    written += written_bodies(item, node).values()
    return {name for each in written for name in each.parameters}


def is_value(written: Any, node: Any) -> bool:
    """Whether what stands for a graph is a value of the node: a name of its own, or a formula."""
    if not isinstance(written, str):
        return isinstance(written, bool | int | float)
    own = {x.id for x in (*node.input_ports, *node.functions)}
    own |= {p.id for p in node.parameters if not _holds_graph(p.value)}
    return written.strip() in own or not re.fullmatch(r"[\w-]*", _unquoted(written))


def _holds_graph(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "nodes")


def written_body(item: Any, node: Any, argument: str = "body") -> WrittenBody:
    """A body: in the args, or in a parameter (named there, or called as the argument is)."""
    value = (item.args or {}).get(argument)
    if value is None or (isinstance(value, str) and not value.strip()):
        value = argument if any(p.id == argument for p in node.parameters) else None
    if argument == "default" and is_value(value, node):
        return WrittenBody(value)
    return _followed(value, node, item)


def _followed(value: Any, node: Any, item: Any) -> WrittenBody:
    parameters = {p.id: p for p in node.parameters if p is not item}
    followed: list[str] = []
    while isinstance(value, str) and _unquoted(value) in parameters.keys() - set(followed):
        followed.append(_unquoted(value))
        value = parameters[followed[-1]].value
    beside = None
    if isinstance(value, Mapping) and "graph" in value and set(value) <= BESIDE:
        beside, value = value, value["graph"]
    if isinstance(value, str):
        value = _unquoted(value) or None
    return WrittenBody(value, tuple(followed), beside)


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")
