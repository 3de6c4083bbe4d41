"""Resolution of ONNX attribute references (`ref_attr_name`) at nodes outside of functions.

    y = Softmax <axis = @axis> (x)      in a function: the `axis` of its caller
                                  ->    elsewhere: y = Softmax <axis = 0> (x)

ONNX does not define such a reference. Exporters produce such references if they write the body of a function
as a model. ONNX Runtime treats the attribute as an attribute without a value: a number is 0, even if the
operator has another default. Lists and strings are omitted.

Source: ONNX IR, AttributeProto.ref_attr_name; onnxruntime 1.31.
"""

from __future__ import annotations

import onnx

from mdf_loop.errors import ModelError
from mdf_loop.importing.onnx_library import Library
from mdf_loop.importing.onnx_paths import path_of_node
from mdf_loop.importing.opsets.weights import graphs_of

_NUMBER_KINDS = (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT)


UNBOUND_KEY = "mdf_loop.unbound"
"""Metadata key of the attributes that were references, with one attribute per line."""


def resolve_references(model: onnx.ModelProto, library: Library) -> None:
    """Resolve attribute references outside of functions like ONNX Runtime: numbers become 0.

    Lists and strings are omitted.

    Raises:
        ModelError: A node requires the attribute.
    """
    resolved_attributes = []
    for graph in graphs_of(model.graph):
        for node_index, node in enumerate(graph.node):
            node_path = path_of_node("$.graph", node, node_index)
            for attribute in [attribute for attribute in node.attribute if attribute.ref_attr_name]:
                if attribute.type in _NUMBER_KINDS:
                    resolved_attributes.append(
                        f"the attribute '{attribute.name}' of {node.op_type} ({node_path})"
                    )
                    attribute.ClearField("ref_attr_name")
                    continue
                _check_not_required(node, attribute, library, node_path)
                node.attribute.remove(attribute)
    if resolved_attributes:
        model.metadata_props.add(key=UNBOUND_KEY, value="\n".join(resolved_attributes))


def _check_not_required(
    node: onnx.NodeProto, attribute: onnx.AttributeProto, library: Library, where: str
) -> None:
    if library.function(node) is not None:
        return
    formal_attribute = library.schema(node, where).attributes.get(attribute.name)
    if node.op_type == "Constant" or (formal_attribute is not None and formal_attribute.required):
        raise ModelError(
            f"attribute '{attribute.name}' of {node.op_type} is that of a function, "
            f"'{attribute.ref_attr_name}', but the node stands in none",
            where,
            "write the value there, or call the function from the graph",
        )
