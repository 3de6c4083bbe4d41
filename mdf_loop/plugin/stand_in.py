"""Substitute for a node with loops that modeci_mdf's engine can evaluate.

    functions: {loop_1: {function: onnx::Loop, args: ...}}    ->   {loop_1: 0, loop_1__iterations: 0}
    output_ports: {n: loop_1.iterations * 2}                  ->   {n: loop_1__iterations * 2}

The substitute is a copy of the node. Constants stand for the loops and for references to their results.
Parameters that contain bodies are omitted. Each function follows the functions that it reads. The node itself
is never changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError as GraphCycleError
from graphlib import TopologicalSorter
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.changes import replace_fields
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.parts import Node, NodePart, Parameter
from mdf_loop.errors import CycleError
from mdf_loop.reading.names_read import find_names_read
from mdf_loop.reading.node import LOOP_RESULTS
from mdf_loop.reading.parameters import condition_fields


class Reference(Struct, frozen=True):
    """Reference in an expression to a result of a loop, such as `loop.iterations` or `loop[0]`."""

    loop_id: str
    result_key: str | int


class StandIn(Struct):
    """Substitute for a node with loops, in which plain names replace references to loop results."""

    node: Node
    references: dict[str, Reference] = field(default_factory=dict)


def build_stand_in(node: Node, loops: Iterable[Any], document: Document) -> StandIn:
    """Build a substitute for a node with loops that modeci_mdf's engine can evaluate.

    Raises:
        LoopError: If the form of a loop is wrong, or functions of the node need each other.
    """
    loops = list(loops)
    body_parameters = {name for loop in loops for name in parameters_with_bodies(loop, node)}
    reference_namer = _ReferenceNamer(node, loops)
    functions = [
        _rename_in_item(function, reference_namer) for function in sort_functions(node, document)
    ]
    parameters = [
        _rename_in_item(parameter, reference_namer)
        for parameter in node.parameters
        if parameter.id not in body_parameters
    ]
    substitute = replace_fields(
        node,
        output_ports=[_rename_in_item(port, reference_namer) for port in node.output_ports],
        functions=list(_replace_loops_by_constants(functions, loops, reference_namer.references)),
        parameters=list(_replace_loops_by_constants(parameters, loops, reference_namer.references)),
    )
    return StandIn(substitute, reference_namer.references)


def _replace_loops_by_constants(
    items: Iterable[Any], loops: list[Any], references: Mapping[str, Reference]
) -> Iterator[Any]:
    """Yield functions or parameters in which constants replace loops and their results."""
    for node_item in items:
        if all(node_item is not loop for loop in loops):
            yield node_item
            continue
        reference_names = (
            placeholder_name
            for placeholder_name, reference in references.items()
            if reference.loop_id == node_item.id
        )
        for placeholder_name in (node_item.id, *reference_names):
            yield type(node_item)(id=placeholder_name, value="0")


# --- names for references to results of loops -------------------------------------------------


class _ReferenceNamer(ast.NodeTransformer):
    """Transformer that replaces `loop.iterations` and `loop[0]` in expressions by names.

    Attributes:
        loop_ids: Ids of the loops of the node.
        used_names: Names that the node itself uses.
        references: References of the expressions so far, by their new names.
    """

    def __init__(self, node: Node, loops: Iterable[Any]) -> None:
        self.loop_ids = {loop.id for loop in loops}
        self.used_names = {
            node_part.id
            for node_part in (
                *node.input_ports,
                *node.functions,
                *node.parameters,
                *node.output_ports,
            )
        }
        self.references: dict[str, Reference] = {}

    def replace_references(self, text: str) -> str:
        """Return an expression in which names replace references to loop results."""
        if text in self.used_names:
            return text
        reference_match = _REFERENCE_PATTERN.fullmatch(text.strip())
        if reference_match and reference_match["loop"] in self.loop_ids:
            result_key = reference_match["key"] or int(reference_match["position"])
            if (
                result_key == 0
                or reference_match["key"]
                or not reference_match["loop"].isidentifier()
            ):
                return self._find_or_create_name(reference_match["loop"], result_key)
        try:
            syntax_tree = self.visit(ast.parse(text.strip(), mode="eval"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text
        expression_names = (
            syntax_node.id
            for syntax_node in ast.walk(syntax_tree)
            if isinstance(syntax_node, ast.Name)
        )
        refers_to_results = any(
            expression_name in self.references for expression_name in expression_names
        )
        return ast.unparse(syntax_tree) if refers_to_results else text

    def _find_or_create_name(self, loop: str, key: str | int) -> str:
        """Return the name that replaces a reference to a loop result.

        A reference that is not known yet gets a new name.
        """
        for reference_name, reference in self.references.items():
            if reference == Reference(loop, key):
                return reference_name
        reference_name = re.sub(r"\W", "_", f"_{loop}__{key}")
        while reference_name in self.used_names | self.references.keys():
            reference_name += "_"
        self.references[reference_name] = Reference(loop, key)
        return reference_name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a reference to a loop result such as `loop.iterations` by a name."""
        loop_node = node.value
        if (
            isinstance(loop_node, ast.Name)
            and loop_node.id in self.loop_ids
            and node.attr in LOOP_RESULTS
        ):
            return ast.Name(self._find_or_create_name(loop_node.id, node.attr), ast.Load())
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace a reference to a loop result such as `loop[0]` by a name.

        `loop[0]` may also refer to the only result of a loop if that result is a scalar.
        """
        loop_node, index_node = node.value, node.slice
        is_index_zero = (
            isinstance(index_node, ast.Constant)
            and type(index_node.value) is int
            and index_node.value == 0
        )
        if isinstance(loop_node, ast.Name) and loop_node.id in self.loop_ids and is_index_zero:
            return ast.Name(self._find_or_create_name(loop_node.id, 0), ast.Load())
        return self.generic_visit(node)


_REFERENCE_PATTERN = re.compile(
    rf"(?P<loop>.+?)(\.(?P<key>{'|'.join(LOOP_RESULTS)})|\[(?P<position>\d+)\])"
)
"""Expression that consists of one reference to a result of a loop."""


def _rename_in_item(item: NodePart, namer: _ReferenceNamer) -> Any:
    """Return a function, parameter or port in which names replace references such as `loop[0]`."""
    if graph_function(getattr(item, "function", None)):
        return item
    replaced_fields: dict[str, Any] = {}
    for field_name in ("value", "default_initial_value", "time_derivative"):
        expression = getattr(item, field_name, None)
        if isinstance(expression, str):
            replaced_fields[field_name] = namer.replace_references(expression)
    arguments = getattr(item, "args", None) or {}
    renamed_arguments = {
        argument_name: _rename_in_expression(argument_expression, namer)
        for argument_name, argument_expression in arguments.items()
    }
    if renamed_arguments != arguments:
        replaced_fields["args"] = renamed_arguments
    if isinstance(item, Parameter) and item.conditions:
        replaced_fields["conditions"] = [
            _rename_in_condition(condition, namer) for condition in item.conditions
        ]
    return replace_fields(item, **replaced_fields)


def _rename_in_condition(condition: Any, namer: _ReferenceNamer) -> Any:
    """Return a parameter's condition in which names replace references such as `loop[0]`."""
    test_expression, value_expression = (
        _rename_in_expression(condition_field, namer)
        for condition_field in condition_fields(condition)
    )
    if isinstance(condition, dict):
        return {**condition, "test": test_expression, "value": value_expression}
    return replace_fields(condition, test=test_expression, value=value_expression)


def _rename_in_expression(expression: Any, namer: _ReferenceNamer) -> Any:
    """Return an expression in which names replace references such as `loop[0]`.

    Numbers and arrays are returned unchanged.
    """
    return namer.replace_references(expression) if isinstance(expression, str) else expression


# --- order ------------------------------------------------------------------------------------


def sort_functions(node: Node, document: Document) -> list[Any]:
    """Return the functions of a node in an order in which each function follows the functions it reads.

    A loop reads the values that its body captures.

    Raises:
        CycleError: If functions need each other.
    """
    functions_by_id = {function.id: function for function in node.functions}
    functions_read: dict[str, set[str]] = {}
    for function in functions_by_id.values():
        names_read = find_names_read(function, node, document)
        functions_of_names = {
            _find_owner(name, functions_by_id) for name in names_read
        } & functions_by_id.keys()
        functions_read[function.id] = functions_of_names - {function.id}
    try:
        sorted_ids = TopologicalSorter(functions_read).static_order()
        return [functions_by_id[function_id] for function_id in sorted_ids]
    except GraphCycleError as error:
        cycle_text = " -> ".join(error.args[1])
        raise CycleError(
            f"the values of node '{node.id}' need each other: {cycle_text}",
            f"$.graphs[0].nodes['{node.id}']",
            "give a parameter a default_initial_value to make it a state",
        ) from None


def _find_owner(name: str, functions: Mapping[str, Any]) -> str:
    """Return the id of the function that a name refers to, such as `loop` for `loop.iterations`."""
    reference_match = None if name in functions else _REFERENCE_PATTERN.fullmatch(name)
    return reference_match["loop"] if reference_match else name
