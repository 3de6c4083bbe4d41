"""Search for the names that functions and parameters of a model read, also in loop bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, ValuesView
from typing import Any

from mdf_loop.document.bodies import written_bodies
from mdf_loop.document.document import Document, graph_by_id
from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function, is_loop
from mdf_loop.document.loading import graph_of
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Graph, Node
from mdf_loop.errors import Finding, LoopError, raise_findings
from mdf_loop.lower import names_in
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.parameters import iterate_further_expressions
from mdf_loop.reading.signature import find_free_ports


def item_path(item: FunctionOrParameter, node: Node) -> str:
    """Return the path of a Function or Parameter of a node in its document."""
    field_name = (
        "functions" if any(function is item for function in node.functions) else "parameters"
    )
    return f"$.graphs[0].nodes['{node.id}'].{field_name}['{item.id}']"


def _find_names(expressions: DocumentValue) -> set[str]:
    """Return the names in an expression, or in a list or dict of expressions."""
    if isinstance(expressions, str):
        return {expressions.strip()} | names_in(expressions)
    if isinstance(expressions, Mapping):
        expressions = expressions.values()
    if isinstance(expressions, list | tuple | ValuesView):
        return {name for expression in expressions for name in _find_names(expression)}
    return set()


def find_names_read(item: FunctionOrParameter, node: Node, document: Document) -> set[str]:
    """Return the names that a function or parameter of a node reads, also in loop bodies and branches."""
    if graph_function(item.function):
        return _find_names_in_graph_function(item, node, document)
    return _find_names_in_expressions(item)


def _find_names_in_expressions(item: FunctionOrParameter) -> set[str]:
    """Return the names that the expressions of a function or parameter without graphs read.

    Arguments hide outer names.
    """
    names_read: set[str] = set()
    hidden_names: set[str] = set()
    for argument, expression in (item.args or {}).items():
        names_read |= _find_names(expression) - hidden_names
        hidden_names.add(argument)
    return (
        names_read
        | (_find_names(item.value) - hidden_names)
        | _find_names(list(iterate_further_expressions(item)))
    )


def _find_names_in_graph_function(
    item: FunctionOrParameter, node: Node, document: Document
) -> set[str]:
    """Return the names that a loop or another function with graphs reads."""
    graph_arguments = GRAPH_ARGUMENTS[str(graph_function(item.function))]
    expression_by_argument = {
        argument: expression
        for argument, expression in (item.args or {}).items()
        if argument not in graph_arguments
    }
    names_in_arguments = {
        name for expression in expression_by_argument.values() for name in _find_names(expression)
    }
    hidden_names = {
        *expression_by_argument,
        *(
            nested_name
            for argument_value in expression_by_argument.values()
            if isinstance(argument_value, dict)
            for nested_name in argument_value
        ),
    }
    return names_in_arguments | (_find_outer_names(item, node, document) - hidden_names)


def _find_outer_names(item: FunctionOrParameter, node: Node, document: Document) -> set[str]:
    """Return the names that the graphs of a function capture from the enclosing node."""
    outer_names: set[str] = set()
    for argument, written_body in written_bodies(item, node).items():
        body, body_path = written_body.graph_or_id, f"{item_path(item, node)}.args.{argument}"
        if isinstance(body, str):
            role_words = ("loop", "body") if is_loop(item.function) else ("choice", "branch")
            body = graph_by_id(body, body_path, document, *role_words)
        with contextlib.suppress(LoopError):  # lowering the function reports the error
            outer_names |= _find_outer_names_of_body(
                graph_of(body, body_path), written_body.signature, document
            )
    return outer_names


def _find_outer_names_of_body(
    body: Graph, outer_metadata: Mapping[str, Any] | None, document: Document
) -> set[str]:
    """Return the names that a graph captures from outside.

    `outer_metadata` is the metadata next to the graph's name.
    """
    metadata = {**(body.metadata or {}), **(outer_metadata or {})}
    outer_names = {*find_free_ports(body), *(metadata.get("outputs") or ())}
    for node in body.nodes:
        names_read: set[str] = set()
        for function_or_parameter in node.functions_and_parameters:
            names_read |= find_names_read(function_or_parameter, node, document)
        for port in node.output_ports:
            names_read |= _find_names(port.value)
        outer_names |= names_read - {
            node_part.id for node_part in (*node.input_ports, *node.functions, *node.parameters)
        }
    return outer_names - set(metadata.get("inputs") or ())


def refuse_unread(
    item: FunctionOrParameter,
    node: Node,
    where: str,
    own: Collection[str],
    document: Document,
    location: tuple[str, str],
) -> None:
    """Raise an error for arguments that neither the function itself nor any of its graphs reads.

    `own` are the names of its own arguments.

    Args:
        item: Function or parameter with the arguments.
        node: Node of the item.
        where: Path of the item.
        own: Names of the function's own arguments.
        document: Document of the node.
        location: Words for the error: the function, its graphs (`the loop 'f'`, `its body does`).

    Raises:
        ModelError: If an argument is unknown.
    """
    further_arguments = [argument for argument in item.args or {} if argument not in own]
    names_read: set[str] = set(further_arguments)
    with contextlib.suppress(LoopError):  # the lookup of the graphs reports the error
        names_read = _find_outer_names(item, node, document) if further_arguments else set()
    raise_findings(
        Finding(
            "ModelError",
            f"{location[0]} has no argument '{argument}', and {location[1]} not read it",
            f"{where}.args.{argument}",
            suggest(argument, own),
        )
        for argument in further_arguments
        if argument not in names_read
    )
