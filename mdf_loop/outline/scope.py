"""Scopes of names around a loop body, and the values that the body captures from a scope.

Precedence of a name in a body: declared input > port, parameter or function of the enclosing node (then of
the scope around that node) > default of the port.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Graph, InputPort, Node
from mdf_loop.lower import names_in
from mdf_loop.outline.parts import Block, InputOutline
from mdf_loop.outline.values import CaptureOutline
from mdf_loop.reading.parameters import condition_fields


class OutlineScope(Struct, frozen=True):
    """Names that a node or a body's signature defines, with the enclosing scope."""

    captures_by_name: Mapping[str, CaptureOutline] = field(default_factory=dict)
    outer_scope: OutlineScope | None = None

    def find(self, name: str) -> CaptureOutline | None:
        """Return the capture of a name in this scope or an enclosing scope, or None."""
        if name in self.captures_by_name:
            return self.captures_by_name[name]
        return self.outer_scope.find(name) if self.outer_scope else None


def known_value(node: Node, expression: DocumentValue) -> Any | None:
    """Return the constant value of a node's expression, or None if the value is not constant."""
    for _ in range(8):
        if not isinstance(expression, str):
            return expression
        named_parameter = next(
            (parameter for parameter in node.parameters if parameter.id == expression.strip()), None
        )
        if named_parameter is None or named_parameter.conditions:
            return literal_value(expression)
        if isinstance(named_parameter.value, str) and named_parameter.value == expression:
            return literal_value(expression)
        expression = named_parameter.value
    return None


def literal_value(text: str) -> Any | None:
    """Return the value of a text that is a number, boolean or list literal, or None."""
    try:
        literal = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return None if isinstance(literal, str) else literal


def node_scope(
    node: Node, where: str, bindings: Iterable[str], outer_scope: OutlineScope | None
) -> OutlineScope:
    """Return the scope of names that a node's loops and conditionals can capture."""
    captures_by_name: dict[str, CaptureOutline] = {}
    for kind_text, definitions in (
        ("input port", node.input_ports),
        ("parameter", node.parameters),
        ("function", node.functions),
    ):
        field_name = kind_text.replace(" ", "_") + "s"
        for definition in definitions:
            definition_path = f"{where}.{field_name}['{definition.id}']"
            constant_value = known_value(node, definition.id) if kind_text == "parameter" else None
            captures_by_name[definition.id] = CaptureOutline(
                definition.id, kind_text, node.id, definition_path, constant_value
            )
    for argument_name in bindings:
        captures_by_name[argument_name] = CaptureOutline(argument_name, "argument", node.id, where)
    return OutlineScope(captures_by_name, outer_scope)


def local_names(node: Node) -> frozenset[str]:
    """Return the names of a node's own input ports, parameters and functions."""
    named_elements = (*node.input_ports, *node.parameters, *node.functions)
    return frozenset(definition.id for definition in named_elements)


def free_names(node: Node, blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the names that a node's expressions and bodies read but the node does not define."""
    names_of_node = local_names(node)
    read_names = dict.fromkeys(
        name for text in _expressions(node) for name in sorted(names_in(text))
    )
    read_names.update(dict.fromkeys(capture.name for block in blocks for capture in block.captures))
    yield from (
        name
        for name in read_names
        if name not in names_of_node and name.split(".")[0] not in names_of_node
    )


def _expressions(node: Node) -> Iterator[DocumentValue]:
    """Yield the text expressions of a node's functions, parameters and output ports."""
    for definition in node.functions_and_parameters:
        for field_name in ("value", "default_initial_value", "time_derivative"):
            yield from _texts(getattr(definition, field_name, None))
        for value in _arguments(definition):
            yield from _texts(value)
        for condition in getattr(definition, "conditions", None) or ():
            for text in condition_fields(condition):
                yield from _texts(text)
    for port in node.output_ports:
        yield from _texts(port.value)


def _arguments(definition: FunctionOrParameter) -> Iterator[DocumentValue]:
    """Yield the argument expressions of a function, also those inside dicts such as `slices`."""
    function_name = graph_function(definition.function)
    body_arguments = GRAPH_ARGUMENTS[function_name] if function_name else ()
    for key, value in (definition.args or {}).items():
        if function_name and isinstance(value, Mapping) and key not in body_arguments:
            for nested_argument in value.values():
                yield from (
                    nested_argument.values()
                    if isinstance(nested_argument, Mapping)
                    else [nested_argument]
                )
        elif key not in body_arguments or (key == "default" and isinstance(value, list | tuple)):
            yield value


def _texts(value: DocumentValue) -> Iterator[DocumentValue]:
    """Yield a value that is a text, or each text in a value that is a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for element in value:
            if isinstance(element, str):
                yield element


def body_inputs(
    graph: Graph,
    where: str,
    blocks: Mapping[str, tuple[Block, ...]],
    declared: Mapping[str, str],
    outer_scope: OutlineScope,
) -> tuple[InputOutline, ...]:
    """Return the inputs of a loop body or branch: declared inputs and captured values.

    `declared` has the role of each input of the signature: iteration, condition, carried, ...
    """
    connected_ports = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    input_outlines: list[InputOutline] = []
    for node in graph.nodes:
        node_path = f"{where}.nodes['{node.id}']"
        for port in node.input_ports:
            if (node.id, port.id) not in connected_ports:
                role = _input_role(port, declared, outer_scope)
                port_path = f"{node_path}.input_ports['{port.id}']"
                input_outlines.append(
                    InputOutline(
                        port.id, node.id, port.id, role, port_path, default=port.default_value
                    )
                )
        for name in free_names(node, blocks.get(node.id, ())):
            if name in declared or outer_scope.find(name) is not None:
                role = declared.get(name, "captured")
                input_outlines.append(InputOutline(name, node.id, None, role, node_path))
    return tuple(input_outlines)


def _input_role(port: InputPort, declared: Mapping[str, str], outer_scope: OutlineScope) -> str:
    """Return the role of an unconnected input port, such as "carried" or "captured"."""
    if port.id in declared:
        return declared[port.id]
    if outer_scope.find(port.id) is not None:
        return "captured"
    return "unbound" if port.default_value is None else "default"


def find_captures(
    inputs: Iterable[InputOutline], outer_scope: OutlineScope
) -> tuple[CaptureOutline, ...]:
    """Return the distinct values that a loop body or branch captures, in the order of first use."""
    captured_names = dict.fromkeys(
        body_input.name for body_input in inputs if body_input.role == "captured"
    )
    named_captures = ((name, outer_scope.find(name)) for name in captured_names)
    return tuple(capture for _, capture in named_captures if capture is not None)
