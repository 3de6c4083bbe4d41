"""If -> `onnx::If`: a Parameter of a branch is the value that its port brings.

Source: OpenVINO, If-8.
"""

from __future__ import annotations

from mdf_loop.errors import ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.graph import owner, write_layers
from mdf_loop.importing.openvino.network import Layer, child, read_network
from mdf_loop.importing.openvino.place import Place
from mdf_loop.importing.openvino.ports import read_ties

_SHAPES = {"shapes": "dynamic"}
"""Branches of an OpenVINO If may have different shapes, as those of ONNX."""


@owner("If")
def write_if(layer: Layer, place: Place) -> None:
    """Write the node of a choice, with its branches in the args."""
    if not layer.inputs:
        raise ModelError("an If needs a condition", layer.where)
    condition = place.read(place.source(layer, 0))
    reads = [condition]
    args: Content = {"cond": condition}
    for key in ("then", "else"):
        args[f"{key}_branch"] = _branch(layer, place, key, reads)
    names = [place.names[layer.id, port.id] for port in layer.outputs]
    place.writer.node("onnx::If", names, args=args, reads=reads, node_id=layer.name)


def _branch(layer: Layer, outside: Place, key: str, reads: list[str]) -> Content:
    where = f"{layer.where}, {key}"
    network = read_network(child(layer.element, f"{key}_body", where), where)
    element = child(layer.element, f"{key}_port_map", where)
    writer = GraphWriter(f"{layer.name}_{key}", outside.writer)
    inside = Place(network, writer, outside.weights)
    tied: set[int] = set()
    for tie in read_ties(element, "input", layer, network):
        outer = outside.read(outside.names[outside.network.sources[layer.id, tie.port]])
        inside.names[tie.inner.id, tie.inner.outputs[0].id] = outer
        if outer in outside.known:
            inside.known[outer] = outside.known[outer]
        reads.append(outer)
        tied.add(tie.inner.id)
    for parameter in network.of_type("Parameter"):
        if parameter.id not in tied:
            raise ModelError(
                "no entry of port_map brings a value to this Parameter", parameter.where
            )
    inside.name_values()
    write_layers(inside)
    results = {tie.port: tie.inner for tie in read_ties(element, "output", layer, network)}
    for port in layer.outputs:
        if port.id not in results:
            raise ModelError(f"the output {port.id} is none of the {key}_body's", layer.where)
    outputs = [inside.read(inside.source(results[port.id], 0)) for port in layer.outputs]
    return writer.content(outputs=outputs, metadata=_SHAPES)
