"""Input values of a model in one run: constants, or arrays with one row per step.

An open port is a port that no edge feeds. Its value has the port's own shape or, in a run over time, one
more axis in front with a row for each step. A single number may stand for all elements of a port.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
from msgspec import Struct, field

from mdf_loop.document.document import Document
from mdf_loop.document.parts import Graph, InputPort
from mdf_loop.document.stated_types import stated_dtype
from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array, Data, Shape
from mdf_loop.ir.types import dtype_name, is_optional, is_tensor
from mdf_loop.lower.builder import Options
from mdf_loop.memory_limit import check
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.port_values import convert_input, create_default, find_default


class OpenPort(Struct, frozen=True):
    """Input port that no edge feeds, so that a run can set its value.

    Attributes:
        name: Port id, or `node.port` if the id is ambiguous.
        node: Id of the node.
        port: Port of the document.
        where: Path in the document.
        is_imported: True for an input of an ONNX or OpenVINO file. Its shape is always exact.
        imported_names: Further names of the port in the imported file.
        is_required: True if the port has no default, so that a run must set it.
    """

    name: str
    node: str
    port: Any
    where: str
    is_imported: bool = False
    imported_names: tuple[str, ...] = ()
    is_required: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which a run can refer to this input port."""
        return (self.full_name, self.name, self.port.id, *self.imported_names)

    @property
    def full_name(self) -> str:
        """Name of the input port as `node.port`."""
        return f"{self.node}.{self.port.id}"

    def stated_shape(self) -> Shape:
        """Return the shape that the port states for all of its values (-1 is any extent), or None."""
        stated_extents = enumerate(self.port.shape or ())
        return tuple(f"?{k}" if extent < 0 else extent for k, extent in stated_extents) or None

    def name_among(self, names: Container[str]) -> str | None:
        """Return the first name of this port that `names` contains, or None."""
        return next((name for name in self.names if name in names), None)


def open_ports(document: Document) -> tuple[OpenPort, ...]:
    """Return the input ports of a model's graph that no edge feeds.

    A port is named by its id, or by `node.port` if the id is ambiguous.
    """
    graph = document.graph
    fed_ports = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    unconnected_ports = [
        (node, port)
        for node in graph.nodes
        for port in node.input_ports
        if (node.id, port.id) not in fed_ports
    ]
    name_counts = Counter(port.id for _, port in unconnected_ports)
    name_counts.update(f"{node.id}.{port.id}" for node in graph.nodes for port in node.output_ports)
    is_imported_graph = is_imported(graph)
    imported_names = {
        port.id: _read_imported_names(port) if is_imported_graph else ()
        for _, port in unconnected_ports
    }
    imported_name_counts = Counter(
        name for port_names in imported_names.values() for name in port_names
    )
    return tuple(
        OpenPort(
            name=port.id if name_counts[port.id] == 1 else f"{node.id}.{port.id}",
            node=node.id,
            port=port,
            where=f"{document.where}.nodes['{node.id}'].input_ports['{port.id}']",
            is_imported=is_imported_graph,
            imported_names=tuple(
                name
                for name in imported_names[port.id]
                if imported_name_counts[name] == 1 and not name_counts[name]
            ),
            is_required=_is_required(document, port),
        )
        for node, port in unconnected_ports
    )


def _is_required(document: Document, port: InputPort) -> bool:
    """Return True if an input port of an ONNX model has no default, so that a run must set it.

    In an MDF document, also in an imported one, a port without default_value has zeros in every engine. An
    optional value may be absent.
    """
    if PurePath(document.name).suffix.lower() != ".onnx" or port.default_value is not None:
        return False
    dtype = stated_dtype(port, "float64")
    is_optional_type = dtype is not None and is_optional(dtype)
    return "onnx" in (document.graph.metadata or {}) and not is_optional_type


def _read_imported_names(port: InputPort) -> tuple[str, ...]:
    """Return the names that an imported port has in its original file, without duplicates."""
    stated_names = (port.metadata or {}).get("names")
    return (
        tuple(dict.fromkeys(map(str, stated_names)))
        if isinstance(stated_names, list | tuple)
        else ()
    )


def is_imported(graph: Graph) -> bool:
    """Return True if a graph was imported from an ONNX or OpenVINO file."""
    return not {"onnx", "openvino"}.isdisjoint(graph.metadata or {})


class BoundInputs(Struct, frozen=True):
    """Values of all inputs of a model by name.

    Attributes:
        arrays: Values by input name. None for an open type.
        varying_names: Inputs that have one row per step.
        dtypes: Dtypes of the inputs that are not arrays (texts, sequences, optional values).
        open_types: Types of the inputs without a value whose shape is open.
    """

    arrays: Mapping[str, Data]
    varying_names: frozenset[str] = field(default_factory=frozenset)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    open_types: Mapping[str, tuple[str, Shape]] = field(default_factory=dict)

    def type(self, name: str) -> tuple[str, Shape]:
        """Return the dtype and the shape of an input in one step."""
        if name in self.open_types:
            return self.open_types[name]
        if name in self.dtypes:
            return self.dtypes[name], None
        shape = self.arrays[name].shape
        return dtype_name(self.arrays[name]), shape[1:] if name in self.varying_names else shape

    @property
    def types(self) -> dict[str, tuple[str, Shape]]:
        """Dtype and shape of every input in one step."""
        return {name: self.type(name) for name in self.arrays}

    def first_value(self, name: str) -> Data:
        """Return the value of an input in the first step."""
        return self.arrays[name][0] if name in self.varying_names else self.arrays[name]


def bind(
    document: Document,
    inputs: Mapping[str, Any],
    options: Options,
    steps: int | None = None,
    ports: tuple[OpenPort, ...] | None = None,
) -> BoundInputs:
    """Bind values to all inputs of a model, with defaults for inputs without a value.

    Args:
        document: the model.
        inputs: values by port id or `node.port`.
        options: precision.
        steps: the number of steps of a run over time.
        ports: the document's open ports, if the caller has them.

    Raises:
        InputError: If a name is unknown, or a value does not fit the type or shape of its port.
    """
    ports = open_ports(document) if ports is None else ports
    known_names = {name for port in ports for name in port.names}
    unknown_names = [name for name in inputs if name not in known_names]
    if unknown_names:
        raise InputError(
            f"the model has no input '{unknown_names[0]}'",
            hint=_suggest_input(unknown_names[0], document, known_names),
        )
    raise_findings(
        _missing_input_finding(port)
        for port in ports
        if port.is_required and not port.name_among(inputs)
    )
    arrays_by_port: dict[str, Data] = {}
    varying_names: set[str] = set()
    for port in ports:
        _refuse_repeated_names(port, inputs)
        name_in_inputs = port.name_among(inputs)
        if name_in_inputs is None:
            arrays_by_port[port.name] = find_default(port.port, options.precision, port.where)
            continue
        input_data = convert_input(
            port.port, inputs[name_in_inputs], options.precision, name_in_inputs, port.where
        )
        time_rows = _split_into_rows(port, input_data, name_in_inputs, steps)
        if time_rows is not None:
            varying_names.add(port.name)
        arrays_by_port[port.name] = _broadcast_to_stated_shape(
            port,
            input_data if time_rows is None else time_rows,
            name_in_inputs,
            time_rows is not None,
        )
    stated_dtypes = {port.name: stated_dtype(port.port, options.precision) for port in ports}
    dtypes = {
        port_name: dtype
        for port_name, dtype in stated_dtypes.items()
        if dtype and not is_tensor(dtype)
    }
    return BoundInputs(arrays_by_port, frozenset(varying_names), dtypes)


def _missing_input_finding(port: OpenPort) -> Finding:
    """Return the error for a missing input of an ONNX model, with the input's type."""
    extent_list = ", ".join("?" if extent < 0 else str(extent) for extent in port.port.shape or ())
    return Finding(
        "InputError",
        f"the input '{port.name}' is missing: an input of an ONNX file has no value of its own",
        port.where,
        f"give it: inputs={{'{port.name}': ...}} (--input {port.name}=...); "
        f"it takes {port.port.type or 'numbers'}[{extent_list}]",
    )


def _refuse_repeated_names(port: OpenPort, given_names: Container[str]) -> None:
    """Raise InputError if an input is given under two of its names."""
    used_names = [name for name in (port.name, *port.imported_names) if name in given_names]
    if len(used_names) > 1:
        first_name, second_name, *_ = used_names
        raise InputError(
            f"'{first_name}' and '{second_name}' mean the same input", hint="give it once"
        )


def bind_members(
    inputs: BoundInputs, port: OpenPort, members: Array, options: Options, name: str
) -> Array:
    """Convert the values of one input port for all members of a sweep to an array.

    `inputs` has the values of the first member.

    Raises:
        InputError: If a value does not fit the type or shape of the port.
    """
    dtype = stated_dtype(port.port, options.precision)
    if dtype is not None and not is_tensor(dtype):
        raise InputError(f"the input '{name}' is {dtype}: only arrays can be swept", port.where)
    member_rows: Array = convert_input(port.port, members, options.precision, name, port.where)
    first_member_value = inputs.arrays[port.name]
    if member_rows[0].size == first_member_value.size:
        member_rows = member_rows.reshape(len(member_rows), *first_member_value.shape)
    member_values: Array = _broadcast_to_stated_shape(
        port, member_rows, name, 1 + (port.name in inputs.varying_names)
    )
    return member_values


def _broadcast_to_stated_shape(port: OpenPort, data: Data, name: str, leading: int) -> Data:
    """Broadcast a value to its port's stated shape, except for its first `leading` axes.

    The leading axes are those of time and of the members of a sweep.

    A single number is repeated for all elements. It stays a number if the port has one element.
    """
    stated_shape = tuple(port.port.shape or ())
    if not stated_shape or not isinstance(data, np.ndarray):
        return data  # MDF does not distinguish a missing shape from the shape of a number
    value_shape = data.shape[leading:]
    if len(value_shape) == len(stated_shape) and all(
        stated_extent in (-1, extent)
        for stated_extent, extent in zip(stated_shape, value_shape, strict=True)
    ):
        return data
    if value_shape or -1 in stated_shape:
        raise InputError(
            f"the input '{name}' has the shape {list(stated_shape)}, but what is given has {list(value_shape)}",
            port.where,
            f"give an array of the shape {list(stated_shape)}"
            + ("" if -1 in stated_shape else ", or one number for all elements"),
        )
    if math.prod(stated_shape) == 1 and not port.is_imported:
        return data
    byte_count = data.nbytes * math.prod(stated_shape)
    check(byte_count, f"the input '{name}' of the shape {list(stated_shape)}", port.where)
    values_with_axes = data.reshape(data.shape + (1,) * len(stated_shape))
    return np.ascontiguousarray(np.broadcast_to(values_with_axes, (*data.shape, *stated_shape)))


def bind_types(document: Document, inputs: Mapping[str, Any], options: Options) -> BoundInputs:
    """Bind the inputs of a model that is converted but not run, with names for unknown extents.

    The names are those of the port's `metadata.dims`, or are formed from the port and the axis.
    """
    ports_without_values = {
        port.name: port for port in open_ports(document) if port.name_among(inputs) is None
    }
    types_by_port_name = {
        name: _name_open_extents(port.port, options)
        for name, port in ports_without_values.items()
        if -1 in (port.port.shape or ())
    }
    placeholder_ports = (
        port
        for name, port in ports_without_values.items()
        if port.is_required or name in types_by_port_name
    )
    placeholders = {
        port.name: _create_placeholder(port, options.precision) for port in placeholder_ports
    }
    bound_inputs = bind(document, {**inputs, **placeholders}, options)
    arrays = {
        name: None if name in types_by_port_name else input_data
        for name, input_data in bound_inputs.arrays.items()
    }
    return BoundInputs(arrays, bound_inputs.varying_names, bound_inputs.dtypes, types_by_port_name)


def create_placeholders(document: Document, precision: str) -> dict[str, Data]:
    """Return placeholder values for required inputs whose shapes are fully stated."""
    return {
        port.name: _create_placeholder(port, precision)
        for port in open_ports(document)
        if port.is_required and -1 not in (port.port.shape or ())
    }


def _create_placeholder(port: OpenPort, precision: str) -> Data:
    """Return an array of zeros of a port's type, with an extent of 1 for unknown extents."""
    placeholder_shape = tuple(1 if extent < 0 else extent for extent in port.port.shape or ())
    return create_default(
        port.port, stated_dtype(port.port, precision), placeholder_shape, port.where
    )


def _name_open_extents(port: InputPort, options: Options) -> tuple[str, Shape]:
    """Return the dtype and the shape of a port, with names for unknown extents."""
    axis_names, shape = (port.metadata or {}).get("dims"), port.shape or ()
    if not isinstance(axis_names, list | tuple) or len(axis_names) != len(shape):
        axis_names = [f"{port.id}_{axis}" for axis in range(len(shape))]
    extents_with_names = zip(shape, axis_names, strict=True)
    named_shape = tuple(str(name) if extent < 0 else extent for extent, name in extents_with_names)
    return stated_dtype(port, options.precision) or options.precision, named_shape


def _split_into_rows(port: OpenPort, array: Data, name: str, steps: int | None) -> Array | None:
    """Return the array as rows, one per step, or None if one value is used in all steps."""
    if steps is None or not isinstance(array, np.ndarray):
        return None
    value_shape = _find_value_shape(port.port)
    is_single_element = len(value_shape) > 0 and all(extent == 1 for extent in value_shape)
    if is_single_element and array.shape == (steps,) and array.shape != value_shape:
        return array.reshape(steps, *value_shape)
    if array.ndim <= len(value_shape):
        return None
    if len(array) != steps:
        raise InputError(
            f"the input '{name}' has {len(array)} rows over time, but the run has {steps} steps",
            port.where,
            "give one row for every step, or one value of the port's own shape for all "
            "(a port without 'shape' and default_value takes a number)",
        )
    return array


def _find_value_shape(port: InputPort) -> tuple[int, ...]:
    """Return the shape of one value of a port: the stated shape, or the shape of the default_value."""
    if port.shape or port.default_value is None:
        return tuple(port.shape or ())
    default_value: Any = port.default_value
    return tuple(np.shape(default_value))


def _suggest_input(name: str, document: Document, known_names: Iterable[str]) -> str:
    """Return a hint for an error about an unknown input name, such as a similar name."""
    for edge in document.graph.edges:
        if name in (edge.receiver_port, f"{edge.receiver}.{edge.receiver_port}"):
            return f"'{name}' is fed by the edge '{edge.id}', so it cannot be given from outside"
    return suggest(name, sorted(known_names)) or "the model takes no inputs"
