"""Parameters that a run sets, whose values in the document become inputs of the program.

    parameter a: {value: 0.7}, set to 0.8   ->   parameter a: {value: 'set N.a'}, an input 'set N.a'

For a parameter with a state, a run sets the initial value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field

from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.checked_cast import cast_checked
from mdf_loop.document.changes import replace_fields, with_graph
from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, InputPort, Node, Parameter
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, kind_of
from mdf_loop.lower.syntax import parse_number
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.parameters import is_stateful


class Settings(Struct, frozen=True):
    """Values of the parameters that a run sets, as arrays by `node.parameter`."""

    arrays: Mapping[str, Array] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Array]:
        """Values of the parameters that a run sets, by the names of program inputs."""
        return {input_name(name): array for name, array in self.arrays.items()}

    def is_plain(self, name: str) -> bool:
        """Return True if a parameter's value is a plain number, whose dtype adapts to other operands."""
        array = self.arrays[name]
        return array.ndim == 0 and array.dtype in (np.bool_, np.int64, np.float64)


def input_name(name: str) -> str:
    """Return the name of the program input for a parameter that a run sets.

    `name` is `node.parameter`.
    """
    return f"set {name}"


def bind_settings(document: Document, values: Mapping[str, Any], precision: str) -> Settings:
    """Convert the parameter values of a run to arrays, by `node.parameter`.

    Raises:
        InputError: If a parameter does not exist or cannot be set, or if a value is not numeric.
    """
    array_by_parameter: dict[str, Array] = {}
    for parameter_name, parameter_value in values.items():
        parameter, parameter_path = _find_parameter(document, parameter_name)
        attribute = _find_settable_attribute(parameter, parameter_name, parameter_path)
        array_by_parameter[parameter_name] = _convert_to_array(
            parameter_value, getattr(parameter, attribute), parameter_name, precision
        )
    return Settings(array_by_parameter)


def written_value(document: Document, name: str) -> Any:
    """Return the value (for a state, the initial value) of a parameter as written in the document.

    Raises:
        InputError: If the parameter does not exist, or has no value.
    """
    parameter, parameter_path = _find_parameter(document, name)
    return getattr(parameter, _find_settable_attribute(parameter, name, parameter_path))


def parameter_of(document: Document, name: str) -> tuple[Any, Any]:
    """Return the node and the parameter with the name `node.parameter`.

    Raises:
        InputError: If the parameter does not exist.
    """
    node_and_parameter_by_name = {
        f"{node.id}.{parameter.id}": (node, parameter)
        for node in document.graph.nodes
        for parameter in node.parameters
    }
    if name not in node_and_parameter_by_name:
        raise InputError(
            f"the model has no parameter '{name}'",
            document.where,
            _suggest_parameter(document, name, node_and_parameter_by_name),
        )
    return node_and_parameter_by_name[name]


def is_state(document: Document, name: str) -> bool:
    """Return True if a parameter is a state, of which a run sets the initial value."""
    return is_stateful(_find_parameter(document, name)[0])


def with_settings(document: Document, settings: Settings) -> Document:
    """Return a document in which each parameter that the run sets reads an input of the program."""
    return _replace_parameters(document, {name: input_name(name) for name in settings.arrays})


def with_values(document: Document, settings: Settings) -> Document:
    """Return a document with new values of parameters, by `node.parameter`."""
    return _replace_parameters(
        document, {name: array.tolist() for name, array in settings.arrays.items()}
    )


def with_defaults(document: Document, values: Mapping[str, DocumentValue]) -> Document:
    """Return a document with new default values of input ports.

    `values` may use any of the names of a port.
    """
    default_values = {
        (port.node, port.port.id): values[port_name]
        for port in open_ports(document)
        if (port_name := port.name_among(values)) is not None
    }
    if not default_values:
        return document

    def with_default(node: Node, port: InputPort) -> InputPort:
        port_key = (node.id, port.id)
        return (
            replace_fields(port, default_value=default_values[port_key])
            if port_key in default_values
            else port
        )

    new_nodes = [
        replace_fields(node, input_ports=[with_default(node, port) for port in node.input_ports])
        for node in document.graph.nodes
    ]
    return with_graph(document, replace_fields(document.graph, nodes=new_nodes))


def _replace_parameters(document: Document, values: Mapping[str, Any]) -> Document:
    """Return a document with new values of parameters, by `node.parameter`."""
    if not values:
        return document
    new_nodes = [_replace_in_node(node, values) for node in document.graph.nodes]
    return with_graph(document, replace_fields(document.graph, nodes=new_nodes))


def _replace_in_node(node: Node, values: Mapping[str, Any]) -> Any:
    """Return a copy of a node with new values of its parameters."""
    new_parameters = [_replace_value(node, parameter, values) for parameter in node.parameters]
    return replace_fields(node, parameters=new_parameters)


def _replace_value(node: Node, parameter: Parameter, values: Mapping[str, Any]) -> Any:
    """Return a copy of a parameter with its new value, or the parameter itself without a new value."""
    parameter_name = f"{node.id}.{parameter.id}"
    if parameter_name not in values:
        return parameter
    return replace_fields(
        parameter,
        **{_find_settable_attribute(parameter, parameter_name, ""): values[parameter_name]},
    )


def _find_parameter(document: Document, name: str) -> tuple[Any, str]:
    """Return the parameter with the name `node.parameter`, and its path in the document."""
    node, parameter = parameter_of(document, name)
    return parameter, f"{document.where}.nodes['{node.id}'].parameters['{parameter.id}']"


def _suggest_parameter(document: Document, name: str, parameter_names: Collection[str]) -> str:
    """Return a hint for an error about an unknown parameter name."""
    named_ports = [port for port in open_ports(document) if name in port.names]
    if named_ports:
        port_name = named_ports[0].name
        return f"'{name}' is an input: give it as inputs={{'{port_name}': ...}} (--input {port_name}=...)"
    port_names = {
        f"{node.id}.{port.id}" for node in document.graph.nodes for port in node.input_ports
    }
    if name in port_names:
        return f"'{name}' is an input port that an edge feeds: set what feeds it"
    matching_names = [
        parameter_name
        for parameter_name in parameter_names
        if parameter_name.rpartition(".")[2] == name
    ]
    if matching_names:
        return (
            "did you mean "
            + " or ".join(f"'{matching_name}'" for matching_name in matching_names[:3])
            + "?"
        )
    return suggest(name, parameter_names) or "name it as node.parameter"


def _find_settable_attribute(parameter: Parameter, name: str, where: str) -> str:
    """Return the name of the parameter attribute that a run sets, such as `value`.

    For a state, this is the initial value.
    """
    if is_stateful(parameter):
        return "default_initial_value"
    if parameter.value is None:
        raise InputError(
            f"'{name}' has no value of its own that could be set",
            where,
            "only parameters with a value or a state can be set",
        )
    return "value"


def _convert_to_array(value: Any, document_value: Any, name: str, precision: str) -> Array:
    """Convert a user-supplied value of a parameter to an array.

    An integer becomes a float if the document has a float.

    Floats without a dtype of their own (Python floats, float64) get the float dtype of the document.
    """
    try:
        array = as_supported_array(value, f"the value of '{name}'")
    except Ragged:
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise InputError(f"'{name}' must be set to a number or a list of numbers, not {value!r}")
    if array.dtype == np.float64 or (array.dtype.kind in "iu" and _is_float(document_value)):
        array = cast_checked(
            array, _find_stated_float(document_value) or precision, f"the value of '{name}'"
        )
    return array


def _find_stated_float(document_value: Any) -> str | None:
    """Return the float dtype of an array in the document, or None if it is float64 or no float."""
    stated_dtype = dtype_name(document_value) if isinstance(document_value, np.ndarray) else None
    return stated_dtype if stated_dtype in ("float32", "float16", "bfloat16") else None


def _is_float(document_value: Any) -> bool:
    """Return True if the value in the document is a float."""
    if isinstance(document_value, str):
        return isinstance(parse_number(document_value), float)
    try:
        return kind_of(dtype_name(np.asarray(document_value))) == "f"
    except ValueError:
        return False
