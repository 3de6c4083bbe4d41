"""Tests of parameters: fixed, stateful, empty, text, or graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.document.parts import (
    DocumentValue,
    Graph,
    Node,
    NodePart,
    Parameter,
    ParameterCondition,
)
from mdf_loop.errors import ExpressionError
from mdf_loop.lower import draws_numbers, names_in


def find_fixed_parameters(node: Node) -> set[str]:
    """Return the ids of parameters whose values depend on no input, state, function or random number."""
    fixed_parameter_ids = {
        parameter.id
        for parameter in node.parameters
        if parameter.value is not None
        and not (parameter.conditions or is_stateful(parameter) or draws_numbers(parameter.value))
    }
    changing_names = {parameter.id for parameter in node.parameters} | {
        function.id for function in node.functions
    }
    changing_names = (changing_names | {port.id for port in node.input_ports}) - fixed_parameter_ids
    names_by_id = {parameter.id: names_in(parameter.value) for parameter in node.parameters}
    while newly_changing_ids := {
        name for name in fixed_parameter_ids if names_by_id[name] & changing_names
    }:
        fixed_parameter_ids -= newly_changing_ids
        changing_names |= newly_changing_ids
    return fixed_parameter_ids


def is_stateful(parameter: Parameter) -> bool:
    """Return True for a parameter with a derivative, an initial value, or its own name in its value.

    Such a parameter is a state.
    """
    return (
        parameter.time_derivative is not None
        or parameter.default_initial_value is not None
        or (isinstance(parameter.value, str) and parameter.id in names_in(parameter.value))
    )


def integrates(document: Document) -> bool:
    """Return True if a model has a time derivative, which a time step `dt` integrates."""
    nodes = document.graph.nodes
    return any(
        parameter.time_derivative is not None for node in nodes for parameter in node.parameters
    )


def iterate_further_expressions(item: NodePart) -> Iterator[DocumentValue]:
    """Yield the initial value, derivative and conditions of a parameter, but not its value."""
    if isinstance(item, Parameter):
        yield item.default_initial_value
        yield item.time_derivative
        for condition in item.conditions:
            yield from condition_fields(condition)


def condition_fields(
    condition: ParameterCondition | Mapping[str, DocumentValue],
) -> tuple[DocumentValue, DocumentValue]:
    """Return the test and the value of a parameter's condition, which is a part or a mapping."""
    if isinstance(condition, ParameterCondition):
        return condition.test, condition.value
    return condition.get("test"), condition.get("value")


def is_empty(parameter: Parameter) -> bool:
    """Return True if a parameter has no value, function, derivative, initial value or condition."""
    expressions = (parameter.value, parameter.time_derivative, parameter.default_initial_value)
    return not (parameter.function or parameter.conditions) and all(
        expression is None for expression in expressions
    )


def no_value_error(parameter: Parameter) -> ExpressionError:
    """Return the error for an empty parameter."""
    return ExpressionError(
        f"the parameter '{parameter.id}' has no value", hint="give it a value or a function"
    )


def is_text(parameter: Parameter) -> bool:
    """Return True for a parameter that is only a text, or a list of texts."""
    expression = parameter.value
    elements = expression if isinstance(expression, list | tuple) and expression else [expression]
    is_only_value = not (parameter.function or parameter.conditions or is_stateful(parameter))
    return is_only_value and all(isinstance(element, str) for element in elements)


def is_document_part(value: DocumentValue) -> bool:
    """Return True if the value of a parameter is a graph (a loop body) rather than a number."""
    return isinstance(value, dict | Graph) or (
        isinstance(value, np.ndarray) and value.dtype == object
    )
