"""Replacement of operators by their ONNX definition as functions of older operators.

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
    """Return ONNX's definition of an operator as a function at this opset and for these types, or None."""
    schema: Any = defs.get_schema(node.op_type, version, node.domain)
    if schema.has_function:
        usable = [v for v in schema.function_opset_versions if v <= version]
        if usable:
            return _without_onnx_faults(
                parse_function(schema.get_function_with_opset_version(max(usable)))
            )
    if schema.has_context_dependent_function:
        is_other_domain = node.domain != ""
        usable = [
            v
            for v in schema.context_dependent_function_opset_versions
            if is_other_domain or v <= version
        ]
        types = [_type_bytes(facts, name) for name in node.input]
        if usable and None not in types:
            body = schema.get_context_dependent_function_with_opset_version(
                max(usable), node.SerializeToString(), types
            )
            return parse_function(body) if body else None
    return None


def _without_onnx_faults(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """Correct onnx's definition of AffineGrid, which is wrong for a batch of one image.

    The Squeeze of the rows of theta has no axes, so that it also removes the axis of a batch of one image.
    """
    if function.name == "AffineGrid":
        inner = (attribute.g for node in function.node for attribute in node.attribute)
        for node in (node for graph in inner for node in graph.node):
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
    body: onnx.FunctionProto, node: onnx.NodeProto, names: NameGenerator
) -> list[onnx.NodeProto]:
    """Return copies of a function's nodes with the input and output names of the calling node."""
    base = node.name or next((name for name in node.output if name), node.op_type)
    renamed = {"": ""}
    renamed.update(dict.fromkeys(body.input, ""))
    renamed.update(zip(body.input, node.input, strict=False))
    output_pairs = zip(body.output, node.output, strict=False)
    renamed.update({formal: actual for formal, actual in output_pairs if actual})
    attributes = {a.name: a for a in body.attribute_proto}
    attributes.update({a.name: a for a in _default_attributes(node)})
    attributes.update({a.name: a for a in node.attribute})
    copier = _NodeCopier(attributes, names, base)
    return copier.copy_nodes(body.node, renamed)


def _default_attributes(node: onnx.NodeProto) -> Iterable[onnx.AttributeProto]:
    try:
        attributes = defs.get_schema(node.op_type, node.domain).attributes
    except defs.SchemaError:
        return ()
    return (a.default_value for a in attributes.values() if a.default_value.name)


class _NodeCopier:
    """Copier of a function's nodes that fills in attributes and renames values."""

    def __init__(
        self, attributes: dict[str, onnx.AttributeProto], names: NameGenerator, base: str
    ) -> None:
        self.attributes, self.names, self.base = attributes, names, base

    def copy_nodes(
        self, nodes: Iterable[onnx.NodeProto], renamed: dict[str, str]
    ) -> list[onnx.NodeProto]:
        """Return copies of the nodes, and add the names of their outputs to `renamed`."""
        copies = []
        for node in nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = self.names.unique(f"{self.base}_{node.name or node.op_type}")
            copy.input[:] = [renamed.get(name, name) for name in node.input]
            copy.output[:] = [self._local_name(name, renamed) for name in node.output]
            attributes = [self._fill_attribute(attribute) for attribute in node.attribute]
            del copy.attribute[:]
            copy.attribute.extend(attribute for attribute in attributes if attribute is not None)
            for inner in bodies_of(copy):
                self._rename_body(inner, dict(renamed))
            while copy.input and not copy.input[-1]:
                copy.input.pop()
            copies.append(copy)
        return copies

    def _local_name(self, name: str, renamed: dict[str, str]) -> str:
        if name and name not in renamed:
            renamed[name] = self.names.unique(f"{self.base}_{name}")
        return renamed.get(name, name)

    def _fill_attribute(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto | None:
        if not attribute.ref_attr_name:
            return attribute
        if attribute.ref_attr_name not in self.attributes:
            return None
        filled = onnx.AttributeProto()
        filled.CopyFrom(self.attributes[attribute.ref_attr_name])
        filled.name = attribute.name
        return filled

    def _rename_body(self, graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
        local_names = dict.fromkeys(
            [v.name for v in graph.input] + [t.name for t in graph.initializer]
        )
        for name in local_names:
            renamed[name] = self.names.unique(f"{self.base}_{name}")
        for value in graph.input:
            value.name = renamed[value.name]
        for tensor in graph.initializer:
            tensor.name = renamed[tensor.name]
        for node in graph.node:  # values of the body shadow outer values
            for name in node.output:
                renamed.pop(name, None)
        renamed[""] = ""
        inner = self.copy_nodes(graph.node, renamed)
        del graph.node[:]
        graph.node.extend(inner)
        del graph.value_info[:]
        for value in graph.output:
            value.name = renamed.get(value.name, value.name)
