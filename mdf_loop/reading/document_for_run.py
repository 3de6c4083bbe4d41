"""Document for one run, in which the run's input and parameter values replace the defaults.

cell.I: {default_value: 0}, run({"I": 800.0})   ->   cell.I: {default_value: 800.0}
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.document.changes import replace_fields, with_graph
from mdf_loop.document.document import Document
from mdf_loop.document.parts import InputPort, Node
from mdf_loop.lower.builder import Options
from mdf_loop.reading.binding import InputBinder
from mdf_loop.reading.inputs import BoundInputs, open_ports
from mdf_loop.reading.settings import with_defaults, with_values
from mdf_loop.specification import Values


def apply_run_values(document: Document, values: Values, steps: int | None) -> Document:
    """Return a document with the input and parameter values of a run, or of the first member of a sweep.

    An input over time gets the type of its rows and no default_value, since it has many values.
    """
    bound_values = InputBinder(document, Options()).bind(values, steps)
    bound_inputs, names_with_values = bound_values.inputs, {*values.inputs, *values.sweep}
    ports = [
        port for port in open_ports(document) if port.name_among(names_with_values) is not None
    ]
    varying_inputs = {
        (port.node, port.port.id): port.name
        for port in ports
        if port.name in bound_inputs.varying_names
    }
    constant_inputs = {port.name for port in ports if port.name not in bound_inputs.varying_names}
    arrays = {
        name: input_array.tolist()
        for name in constant_inputs
        if isinstance(input_array := bound_inputs.arrays[name], np.ndarray | np.generic)
    }
    return _drop_varying_defaults(
        with_defaults(with_values(document, bound_values.settings), arrays),
        varying_inputs,
        bound_inputs,
    )


def _drop_varying_defaults(
    document: Document, varying_inputs: Mapping[tuple[str, str], str], inputs: BoundInputs
) -> Document:
    """Remove the default values of those input ports whose values vary over time.

    `varying_inputs` maps (node, port) to the input's name.
    """
    if not varying_inputs:
        return document

    def typed(node: Node, port: InputPort) -> InputPort:
        if (node.id, port.id) not in varying_inputs:
            return port
        port_dtype, port_shape = inputs.type(varying_inputs[node.id, port.id])
        return replace_fields(port, default_value=None, type=port_dtype, shape=port_shape)

    nodes_without_defaults = [
        replace_fields(node, input_ports=[typed(node, port) for port in node.input_ports])
        for node in document.graph.nodes
    ]
    return with_graph(document, replace_fields(document.graph, nodes=nodes_without_defaults))
