"""Notes on constructs for which modeci_mdf's engine and this library compute different numbers.

Each function finds the differences of one row in the tables of docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.document.content import content_of
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.modeci import to_modeci
from mdf_loop.document.parts import DocumentValue, Edge, Node, Parameter
from mdf_loop.document.stated_types import stated_dtype
from mdf_loop.errors import Finding
from mdf_loop.importing.loop_conditions import ambiguous_loops
from mdf_loop.ir import Value
from mdf_loop.ir.types import is_tensor, numpy_dtype
from mdf_loop.lower.syntax import names_in
from mdf_loop.reading.inputs import is_imported, open_ports
from mdf_loop.reading.parameters import is_stateful, iterate_further_expressions
from mdf_loop.verification.expressions import growing_states, python_differences
from mdf_loop.verification.order import describe_random_order

ValueByPath = Mapping[str, Any]
"""Value of the program, or tuple of values, at each MDF path."""

_Notes = Iterator[tuple[str, str]]
"""Sentences about differences, each with its place in the model."""

_DifferenceCheck = Callable[[Document, ValueByPath], _Notes]
"""Function that yields the differences of one kind in a model."""


def differences(document: Document, value_by_path: ValueByPath) -> tuple[Finding, ...]:
    """Return notes on all parts of a model that modeci_mdf's engine may compute differently.

    The meaning of an imported file is that of its own system. For it, only ambiguities of the file are
    noted.
    """
    check_functions = (
        _IMPORTED_FILE_CHECKS
        if is_imported(document.graph)
        else _COMPENSATED_DIFFERENCE_CHECKS + _REMAINING_DIFFERENCE_CHECKS
    )
    return _collect_notes(check_functions, document, value_by_path)


def remaining_differences(document: Document, value_by_path: ValueByPath) -> tuple[Finding, ...]:
    """Return notes on the differences from modeci_mdf's engine that `verify` cannot avoid."""
    return (
        ()
        if is_imported(document.graph)
        else _collect_notes(_REMAINING_DIFFERENCE_CHECKS, document, value_by_path)
    )


def _collect_notes(
    check_functions: Sequence[_DifferenceCheck], document: Document, value_by_path: ValueByPath
) -> tuple[Finding, ...]:
    """Collect the notes of several check functions about a model, without duplicates."""
    findings = (
        Finding("Note", statement, finding_path)
        for find_differences in check_functions
        for statement, finding_path in find_differences(document, value_by_path)
    )
    return tuple(dict.fromkeys(findings))


def _note_random_order(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note the ports and edges where modeci_mdf's order of execution is random."""
    for location_text in describe_random_order(document):
        yield (
            f"the order of modeci_mdf's engine is random at {location_text}; here it is the document's",
            document.where,
        )


def _note_in_place_sums(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note ports whose incoming arrays modeci_mdf's engine combines in the first one's memory."""
    graph = document.graph
    for node in graph.nodes:
        for port in node.input_ports:
            incoming_edges = [
                edge
                for edge in graph.edges
                if (edge.receiver, edge.receiver_port) == (node.id, port.id)
            ]
            combines_edges = port.reduce in ("add", "multiply") and len(incoming_edges) > 1
            if combines_edges and any(
                _is_array(document, value_by_path, edge) for edge in incoming_edges
            ):
                yield (
                    f"modeci_mdf's engine combines what arrives at '{port.id}' in the array of the "
                    f"first sender, '{incoming_edges[0].sender}', whose output is then wrong there",
                    f"{document.where}.nodes['{node.id}'].input_ports['{port.id}']",
                )


def _is_array(document: Document, value_by_path: ValueByPath, edge: Edge) -> bool:
    """Return True if an edge carries a numpy array instead of a Python number."""
    sender_node = document.graph.find_node(edge.sender)
    has_conditions = any(parameter.conditions for parameter in sender_node.parameters)
    return has_conditions or not _is_number(_sent_value(document, value_by_path, edge))


def _sent_value(document: Document, value_by_path: ValueByPath, edge: Edge) -> Any:
    """Return the program value of the output port from which an edge starts, or None."""
    return value_by_path.get(
        f"{document.where}.nodes['{edge.sender}'].output_ports['{edge.sender_port}']"
    )


def _is_number(term: DocumentValue) -> bool:
    """Return True if a value of the program is a scalar."""
    return isinstance(term, Value) and term.shape == ()


def _note_list_weights(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note edges with a list as weight, since a list times an integer is a repetition in Python."""
    for edge in document.graph.edges:
        weight = (edge.parameters or {}).get("weight")
        if isinstance(weight, list) and _is_number(_sent_value(document, value_by_path, edge)):
            yield (
                "in modeci_mdf's engine a whole number times a weight that is a list is the list so "
                "many times; here it is the product",
                f"{document.where}.edges['{edge.id}'].parameters.weight",
            )


def _note_emptied_ports(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note self-edges at which modeci_mdf's engine clears a port before its node has run."""
    graph_edges = document.graph.edges
    for edge_index, edge in enumerate(graph_edges):
        earlier_edges = [
            earlier_edge
            for earlier_edge in graph_edges[:edge_index]
            if earlier_edge.receiver_port == edge.receiver_port
        ]
        is_self_edge = (
            edge.sender == edge.receiver and (edge.parameters or {}).get("weight", 1) == 1
        )
        if is_self_edge and any(
            earlier_edge.receiver == edge.receiver for earlier_edge in earlier_edges
        ):
            yield (
                f"in modeci_mdf's engine this edge empties the port '{edge.receiver_port}' before "
                f"'{edge.sender}' has run; here it brings nothing then",
                f"{document.where}.edges['{edge.id}']",
            )


def _note_python_expressions(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note expressions that Python evaluates differently from this library."""
    for node in document.graph.nodes:
        node_path = f"{document.where}.nodes['{node.id}']"
        names_of_list_ports = {
            port.id for port in node.input_ports if isinstance(port.default_value, list)
        }
        value_by_name = {
            part.id: value_by_path.get(f"{node_path}.{field_name}['{part.id}']")
            for field_name in ("input_ports", "functions", "parameters")
            for part in getattr(node, field_name)
        }
        for expression_path, expression in _expressions_of_node(node):
            for statement in python_differences(expression, value_by_name, names_of_list_ports):
                yield statement, f"{node_path}.{expression_path}"


def _expressions_of_node(node: Node) -> Iterator[tuple[str, str]]:
    """Yield each expression of a node with its MDF path inside the node."""
    for field_name in ("functions", "parameters", "output_ports"):
        for part in getattr(node, field_name):
            expression_texts = (part.value, *iterate_further_expressions(part))
            yield from (
                (f"{field_name}['{part.id}']", expression)
                for expression in expression_texts
                if isinstance(expression, str)
            )


def _note_float32_functions(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note that modeci_mdf's engine computes `onnx::` functions in float32."""
    if has_onnx_functions(document):
        yield (
            "modeci_mdf's engine computes onnx:: functions in float32; here they have the dtype of "
            "what they are given",
            document.where,
        )


def has_onnx_functions(document: Document) -> bool:
    """Return True if the model calls an `onnx::` operator, which the engine computes in float32."""
    function_names = [
        function_or_parameter.function
        for node in document.graph.nodes
        for function_or_parameter in node.functions_and_parameters
    ]
    return any(
        function_name
        and function_name.startswith("onnx::")
        and graph_function(function_name) is None
        for function_name in function_names
    )


def _note_narrow_ports(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note ports of dtypes under 64 bits, to which modeci_mdf's engine does not cast the inputs."""
    for open_port in open_ports(document):
        dtype = stated_dtype(open_port.port, "float64")
        if dtype is None or not is_tensor(dtype) or dtype in ("string", "bool"):
            continue
        if np.dtype(numpy_dtype(dtype)).itemsize < 8:
            yield (
                f"what '{open_port.name}' is given, and its default, becomes {dtype}; modeci_mdf's "
                "engine leaves it as it is",
                open_port.where,
            )


def _note_unbounded_integers(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note integer states that may exceed 64 bits, which modeci_mdf's engine does not limit."""
    for node in document.graph.nodes:
        expressions_by_name = {
            parameter.id: parameter.value
            for parameter in node.parameters
            if isinstance(parameter.value, str)
        }
        for state_name in growing_states(expressions_by_name):
            state_path = f"{document.where}.nodes['{node.id}'].parameters['{state_name}']"
            state_value = value_by_path.get(state_path)
            if (
                isinstance(state_value, Value)
                and state_value.shape == ()
                and state_value.dtype == "int64"
            ):
                yield (
                    f"'{state_name}' is a whole number that may grow beyond 64 bits, where it wraps "
                    "around; in modeci_mdf's engine it may have any size",
                    state_path,
                )


def _note_overlooked_states(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note stateful parameters that modeci_mdf's engine does not recognize as stateful."""
    for node in document.graph.nodes:
        for parameter in node.parameters:
            if is_stateful(parameter) and not _may_be_stateful_in_engine(parameter):
                yield (
                    f"modeci_mdf's engine does not see '{parameter.id}' behind the last [...] of its "
                    "value: it evaluates that twice in the first evaluation; with a "
                    "default_initial_value it sees it",
                    f"{document.where}.nodes['{node.id}'].parameters['{parameter.id}']",
                )


def _may_be_stateful_in_engine(parameter: Parameter) -> bool:
    """Return True if modeci_mdf's engine may keep a parameter as a state, or cannot parse it."""
    try:
        return bool(to_modeci(parameter).is_stateful())
    except SyntaxError:
        return True


def _note_early_readers(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note parameters that read a state listed below them, which modeci_mdf cannot evaluate."""
    for node in document.graph.nodes:
        states_from_here_on = {
            parameter.id for parameter in node.parameters if is_stateful(parameter)
        }
        for parameter in node.parameters:
            states_from_here_on.discard(parameter.id)
            if is_stateful(parameter):
                continue
            for state in sorted(states_from_here_on & names_in(parameter.value)):
                yield (
                    f"modeci_mdf's engine cannot run this: the parameter '{parameter.id}' stands above "
                    f"the state '{state}', which it reads; write '{parameter.id}' below '{state}'",
                    f"{document.where}.nodes['{node.id}'].parameters['{parameter.id}']",
                )


def _note_unbound_names(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note names in an imported ONNX file to which nothing assigns a value."""
    onnx_metadata = (document.graph.metadata or {}).get("onnx")
    unbound_names = onnx_metadata.get("unbound") if isinstance(onnx_metadata, Mapping) else None
    for name in unbound_names if isinstance(unbound_names, list) else ():
        yield f"nothing gives {name} a value: it is 0, as in ONNX Runtime", document.where


def _note_ambiguous_loops(document: Document, value_by_path: ValueByPath) -> _Notes:
    """Note imported loops whose condition ONNX Runtime reads differently from the ONNX standard."""
    for ambiguous_loop in ambiguous_loops(content_of(document)):
        yield ambiguous_loop.note, ambiguous_loop.mdf_path


_IMPORTED_FILE_CHECKS: tuple[_DifferenceCheck, ...] = (_note_unbound_names, _note_ambiguous_loops)
"""Ambiguities of imported files."""

_COMPENSATED_DIFFERENCE_CHECKS: tuple[_DifferenceCheck, ...] = (
    _note_random_order,
    _note_in_place_sums,
    _note_float32_functions,
)
"""Differences that `verify` removes or reports itself."""

_REMAINING_DIFFERENCE_CHECKS: tuple[_DifferenceCheck, ...] = (
    _note_list_weights,
    _note_emptied_ports,
    _note_python_expressions,
    _note_narrow_ports,
    _note_unbounded_integers,
    _note_overlooked_states,
    _note_early_readers,
)
