"""Replacement of an ONNX operator by the function of older operators that defines it.

    y = Gelu(x)  ->  the nodes of onnx's function body, with x and y as the names of its input and output

Each intermediate value gets a unique name, also in bodies of loops and branches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from onnx import defs

from mdf_loop.importing.opsets.facts import Facts
from mdf_loop.importing.opsets.names import NameGenerator
from mdf_loop.importing.opsets.weights import bodies_of


def definition_of(node: onnx.NodeProto, version: int, facts: Facts) -> onnx.FunctionProto | None:
    """Return ONNX's definition of a node's operator as a function of other operators, or None.

    The definition may depend on the opset `version` and on the types of the node's inputs.
    """
    operator_schema: Any = defs.get_schema(node.op_type, version, node.domain)
    if operator_schema.has_function:
        usable_versions = [
            opset_version
            for opset_version in operator_schema.function_opset_versions
            if opset_version <= version
        ]
        if usable_versions:
            return _correct_onnx_faults(
                parse_function(
                    operator_schema.get_function_with_opset_version(max(usable_versions))
                )
            )
    if operator_schema.has_context_dependent_function:
        has_other_domain = node.domain != ""
        usable_versions = [
            opset_version
            for opset_version in operator_schema.context_dependent_function_opset_versions
            if has_other_domain or opset_version <= version
        ]
        serialized_input_types = [_type_bytes(facts, name) for name in node.input]
        if usable_versions and None not in serialized_input_types:
            function_definition = operator_schema.get_context_dependent_function_with_opset_version(
                max(usable_versions), node.SerializeToString(), serialized_input_types
            )
            return parse_function(function_definition) if function_definition else None
    return None


def _correct_onnx_faults(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """Correct onnx's definition of AffineGrid, which is wrong for a batch of one image.

    The Squeeze of the rows of theta has no axes, so that it also removes the axis of a batch of one image.
    """
    if function.name == "AffineGrid":
        body_graphs = (attribute.g for node in function.node for attribute in node.attribute)
        for node in (node for graph in body_graphs for node in graph.node):
            if node.op_type == "Squeeze" and len(node.input) == 1:
                node.input.append("one_1d")
    return function


def parse_function(body: bytes) -> onnx.FunctionProto:
    """Parse an ONNX function from its serialized bytes."""
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    return function


def _type_bytes(facts: Facts, name: str) -> bytes | None:
    if not name:
        return b""
    type_proto = facts.type(name)
    return type_proto.SerializeToString() if type_proto is not None else None


def inline_call(
    body: onnx.FunctionProto, node: onnx.NodeProto, name_generator: NameGenerator
) -> list[onnx.NodeProto]:
    """Return copies of a function's nodes with the input and output names of the calling node."""
    name_prefix = node.name or next((name for name in node.output if name), node.op_type)
    new_name_by_old = {"": ""}
    new_name_by_old.update(dict.fromkeys(body.input, ""))
    new_name_by_old.update(zip(body.input, node.input, strict=False))
    output_name_pairs = zip(body.output, node.output, strict=False)
    new_name_by_old.update(
        {formal_name: actual_name for formal_name, actual_name in output_name_pairs if actual_name}
    )
    attribute_by_name = {attribute.name: attribute for attribute in body.attribute_proto}
    attribute_by_name.update({attribute.name: attribute for attribute in _default_attributes(node)})
    attribute_by_name.update({attribute.name: attribute for attribute in node.attribute})
    copier = _NodeCopier(attribute_by_name, name_generator, name_prefix)
    return copier.copy_nodes(body.node, new_name_by_old)


def _default_attributes(node: onnx.NodeProto) -> Iterable[onnx.AttributeProto]:
    try:
        formal_attributes = defs.get_schema(node.op_type, node.domain).attributes
    except defs.SchemaError:
        return ()
    return (
        attribute.default_value
        for attribute in formal_attributes.values()
        if attribute.default_value.name
    )


class _NodeCopier:
    """Copier of a function's nodes that fills in attributes and renames values."""

    def __init__(
        self, attributes: dict[str, onnx.AttributeProto], names: NameGenerator, base: str
    ) -> None:
        self.attributes, self.names, self.base = attributes, names, base

    def copy_nodes(
        self, nodes: Iterable[onnx.NodeProto], new_names: dict[str, str]
    ) -> list[onnx.NodeProto]:
        """Return copies of the nodes, and add the names of their outputs to `new_names`."""
        node_copies = []
        for node in nodes:
            node_copy = onnx.NodeProto()
            node_copy.CopyFrom(node)
            node_copy.name = self.names.unique_name(f"{self.base}_{node.name or node.op_type}")
            node_copy.input[:] = [new_names.get(name, name) for name in node.input]
            node_copy.output[:] = [self._local_name(name, new_names) for name in node.output]
            filled_attributes = [self._fill_attribute(attribute) for attribute in node.attribute]
            del node_copy.attribute[:]
            node_copy.attribute.extend(
                attribute for attribute in filled_attributes if attribute is not None
            )
            for body in bodies_of(node_copy):
                self._rename_body(body, dict(new_names))
            while node_copy.input and not node_copy.input[-1]:
                node_copy.input.pop()
            node_copies.append(node_copy)
        return node_copies

    def _local_name(self, name: str, new_names: dict[str, str]) -> str:
        if name and name not in new_names:
            new_names[name] = self.names.unique_name(f"{self.base}_{name}")
        return new_names.get(name, name)

    def _fill_attribute(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto | None:
        if not attribute.ref_attr_name:
            return attribute
        if attribute.ref_attr_name not in self.attributes:
            return None
        filled_attribute = onnx.AttributeProto()
        filled_attribute.CopyFrom(self.attributes[attribute.ref_attr_name])
        filled_attribute.name = attribute.name
        return filled_attribute

    def _rename_body(self, graph: onnx.GraphProto, new_names: dict[str, str]) -> None:
        local_names = dict.fromkeys(
            [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
        )
        for name in local_names:
            new_names[name] = self.names.unique_name(f"{self.base}_{name}")
        for value in graph.input:
            value.name = new_names[value.name]
        for tensor in graph.initializer:
            tensor.name = new_names[tensor.name]
        for node in graph.node:  # values of the body shadow outer values
            for name in node.output:
                new_names.pop(name, None)
        new_names[""] = ""
        body_nodes = self.copy_nodes(graph.node, new_names)
        del graph.node[:]
        graph.node.extend(body_nodes)
        del graph.value_info[:]
        for value in graph.output:
            value.name = new_names.get(value.name, value.name)
