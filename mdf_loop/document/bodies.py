"""Bodies of functions in a document: graphs that a loop, an If or another function owns.

A document has a body in the arguments of its function, in a parameter of the node, or as another graph of
the model.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from msgspec import Struct

from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function
from mdf_loop.document.loading import graph_of
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Graph, Node
from mdf_loop.document.structure import SIGNATURE_KEYS
from mdf_loop.errors import LoopError


def owned_graph_ids(graph: Graph) -> set[str]:
    """Return the ids of the model's graphs that functions of a graph use as bodies.

    The ids include the bodies of functions in inline bodies of the graph.
    """
    nodes = [node for node in graph.nodes if isinstance(node, Node)]  # importers nest graphs
    return {graph_id for node in nodes for graph_id in owned_graph_ids_of_node(node)}


def owned_graph_ids_of_node(node: Node) -> set[str]:
    """Return the ids of the model's graphs that functions of a node use as bodies.

    The ids include the bodies of functions in inline bodies of the node.
    """
    graph_ids: set[str] = set()
    for function_or_parameter in node.functions_and_parameters:
        for body in written_bodies(function_or_parameter, node).values():
            if isinstance(body.graph_or_id, str):
                graph_ids.add(body.graph_or_id)
            elif body.graph_or_id is not None:
                with contextlib.suppress(LoopError):  # reading the owner reports the error
                    graph_ids |= owned_graph_ids(graph_of(body.graph_or_id, ""))
    return graph_ids


class WrittenBody(Struct, frozen=True):
    """Body of a function as written in the document, before the graph is looked up or read.

    `graph_or_id` is a graph, the dict of a graph, the id of another graph, or None. `parameter_ids` are
    the parameters of the node that lead to the body, in order. `signature` is the mapping with the graph and its
    signature.
    """

    graph_or_id: DocumentValue  # graph, dict of a graph, or id of a graph
    parameter_ids: tuple[str, ...] = ()
    signature: Mapping[str, DocumentValue] | None = None


def written_bodies(owner: FunctionOrParameter, node: Node) -> dict[str, WrittenBody]:
    """Return each body of a function by its path in the arguments, such as `branches[1]`."""
    body_by_path: dict[str, WrittenBody] = {}
    for argument_name in GRAPH_ARGUMENTS.get(graph_function(owner.function) or "", ()):
        body = written_body(owner, node, argument_name)
        if isinstance(body.graph_or_id, list | tuple):
            for k, branch_graph_or_id in enumerate(
                body.graph_or_id if argument_name == "branches" else ()
            ):
                body_by_path[f"{argument_name}[{k}]"] = _follow_parameters(
                    branch_graph_or_id, node, owner
                )
        elif argument_name != "default" or not is_value(body.graph_or_id, node):
            body_by_path[argument_name] = body
    return body_by_path


def parameters_with_bodies(owner: FunctionOrParameter, node: Node) -> set[str]:
    """Return the ids of a node's parameters that specify body or branch graphs of a function."""
    argument_names = GRAPH_ARGUMENTS.get(graph_function(owner.function) or "", ())
    bodies = [written_body(owner, node, argument_name) for argument_name in argument_names]
    bodies += written_bodies(owner, node).values()
    return {parameter_id for body in bodies for parameter_id in body.parameter_ids}


def is_value(argument: DocumentValue, node: Node) -> bool:
    """Return True if an argument is a number, a name or a formula, and not a graph."""
    if not isinstance(argument, str):
        return isinstance(argument, bool | int | float)
    names_of_values = {
        port_or_function.id for port_or_function in (*node.input_ports, *node.functions)
    }
    names_of_values |= {
        parameter.id for parameter in node.parameters if not _contains_graph(parameter.value)
    }
    return argument.strip() in names_of_values or not re.fullmatch(
        r"[\w-]*", _strip_quotes(argument)
    )


def _contains_graph(value: DocumentValue) -> bool:
    return isinstance(value, Mapping | Graph)


def written_body(
    owner: FunctionOrParameter, node: Node, argument_name: str = "body"
) -> WrittenBody:
    """Return the body that the argument `argument_name` of a function specifies.

    The argument contains the body, or has the id of the parameter that contains the body.

    Without the argument, the body is the parameter with the argument's name.
    """
    argument = (owner.args or {}).get(argument_name)
    if argument is None or (isinstance(argument, str) and not argument.strip()):
        argument = (
            argument_name
            if any(parameter.id == argument_name for parameter in node.parameters)
            else None
        )
    if argument_name == "default" and is_value(argument, node):
        return WrittenBody(argument)
    return _follow_parameters(argument, node, owner)


def _follow_parameters(
    graph_or_id: DocumentValue, node: Node, owner: FunctionOrParameter
) -> WrittenBody:
    parameter_by_id = {
        parameter.id: parameter for parameter in node.parameters if parameter is not owner
    }
    parameter_ids: list[str] = []
    while isinstance(graph_or_id, str) and _strip_quotes(
        graph_or_id
    ) in parameter_by_id.keys() - set(parameter_ids):
        parameter_ids.append(_strip_quotes(graph_or_id))
        graph_or_id = parameter_by_id[parameter_ids[-1]].value
    graph_with_signature = None
    if (
        isinstance(graph_or_id, Mapping)
        and "graph" in graph_or_id
        and set(graph_or_id) <= SIGNATURE_KEYS
    ):
        graph_with_signature, graph_or_id = graph_or_id, graph_or_id["graph"]
    if isinstance(graph_or_id, str):
        graph_or_id = _strip_quotes(graph_or_id) or None
    return WrittenBody(graph_or_id, tuple(parameter_ids), graph_with_signature)


def _strip_quotes(text: str) -> str:
    return text.strip().strip("'\"")
