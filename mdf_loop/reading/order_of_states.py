"""Notes to the user about states whose `time_derivative` reads another state's new value.

Parameters are updated in document order. Each parameter reads the new values of the parameters above it.
Functions run before all parameters and read old values. With `v` above `w`:

    v' = v + dt * f(v, w)
    w' = w + dt * g(v', w)     # simultaneous Euler steps have g(v, w)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, Node, Parameter
from mdf_loop.errors import Finding, LoopError
from mdf_loop.lower import names_in
from mdf_loop.reading.names_read import find_names_read
from mdf_loop.reading.parameters import is_stateful


def find_new_value_reads(document: Document) -> Iterator[Finding]:
    """Yield a note for each state whose derivative reads the new value of another state of the node."""
    for node in document.graph.nodes:
        for reader_name, state_name, intermediate_name in _find_reader_pairs(node, document):
            parameter_path = f"{document.where}.nodes['{node.id}'].parameters['{reader_name}']"
            yield Finding(
                "Note",
                _format_note(node.id, reader_name, state_name, intermediate_name),
                parameter_path,
            )


def _find_reader_pairs(node: Node, document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield pairs of states in which the first state reads the new value of the second state.

    The third text is the stateless parameter between both states, or an empty text.
    """
    states_by_reader: dict[str, Mapping[str, str]] = {}
    for parameter in node.parameters if any(map(_integrates, node.parameters)) else ():
        if not is_stateful(parameter):
            parameter_by_read_state = _find_states_read(
                _find_names_read(parameter, node, document), states_by_reader
            )
            states_by_reader[parameter.id] = dict.fromkeys(parameter_by_read_state, parameter.id)
            continue
        if _integrates(parameter):
            parameter_by_read_state = _find_states_read(
                names_in(parameter.time_derivative), states_by_reader
            )
            yield from (
                (parameter.id, state_name, parameter_name)
                for state_name, parameter_name in parameter_by_read_state.items()
            )
        states_by_reader[parameter.id] = {parameter.id: ""} if _is_variable(parameter) else {}


def _find_names_read(parameter: Parameter, node: Node, document: Document) -> set[str]:
    """Return the names that a parameter reads.

    A parameter whose graph is missing reads none.
    """
    try:
        return find_names_read(parameter, node, document)
    except LoopError:
        return set()


def _find_states_read(
    names: set[str], new_states: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Map each state whose new value an expression reads to the parameter in between, or "".

    `names` are the names in the expression.

    The parameter has no state.

    `new_states` has these states for each parameter above. Functions and parameters below are missing in it,
    because they have old values.
    """
    intermediate_by_state: dict[str, str] = {}
    for name in sorted(names & new_states.keys()):
        for state_name, intermediate_name in new_states[name].items():
            intermediate_by_state[state_name] = intermediate_name and intermediate_by_state.get(
                state_name, intermediate_name
            )
    return intermediate_by_state


def _integrates(parameter: Parameter) -> bool:
    """Return True if time steps update a parameter by its derivative.

    `value` and `function` take precedence over a derivative.
    """
    return (
        parameter.time_derivative is not None and parameter.value is None and not parameter.function
    )


def _is_variable(parameter: Parameter) -> bool:
    """Return False for a constant state, whose derivative is zero or whose value is its own name.

    A state with conditions is never treated as constant.
    """
    has_zero_derivative = _integrates(parameter) and _is_zero(parameter.time_derivative)
    has_own_value = isinstance(parameter.value, str) and parameter.value.strip() == parameter.id
    return bool(parameter.conditions) or not (has_zero_derivative or has_own_value)


def _is_zero(derivative: DocumentValue) -> bool:
    """Return True for a literal number or list that has zeros only."""
    try:
        derivative_value = (
            ast.literal_eval(derivative) if isinstance(derivative, str) else derivative
        )
        return not np.any(np.asarray(derivative_value, float))
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _format_note(node: str, reader: str, state: str, intermediate: str) -> str:
    """Return the text of the note about a state that reads the new value of another state."""
    via_text = f" through '{intermediate}'" if intermediate else ""
    computation_text = f"'{intermediate}' and the derivative" if intermediate else "the derivative"
    return (
        f"in node '{node}', {reader} reads the new {state}{via_text}: '{state}' is written above '{reader}', so it "
        f"has taken its step of dt already. Simultaneous Euler steps (Brian2's method='euler') read the old "
        f"{state}: for these compute {computation_text} of '{reader}' in a function, which reads old values, "
        f"and name that function in time_derivative"
    )
