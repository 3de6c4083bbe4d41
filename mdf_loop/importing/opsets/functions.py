"""Operators that ONNX itself defines by older ones: their definition takes their place.

y = Gelu(x)  ->  the nodes of onnx's function body, with x and y for its formal names and a
fresh name for everything in between. Bodies of loops and branches inside are renamed too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from onnx import defs

from mdf_loop.importing.opsets.facts import Facts
from mdf_loop.importing.opsets.names import Names
from mdf_loop.importing.opsets.weights import bodies_of


def function_of(node: onnx.NodeProto, version: int, facts: Facts) -> onnx.FunctionProto | None:
    """ONNX's definition of the operator at an opset, None if it has none for these types."""
    schema: Any = defs.get_schema(node.op_type, version, node.domain)
    if schema.has_function:
        fits = [v for v in schema.function_opset_versions if v <= version]
        if fits:
            return _mended(parsed(schema.get_function_with_opset_version(max(fits))))
    if schema.has_context_dependent_function:
        own = node.domain != ""
        fits = [v for v in schema.context_dependent_function_opset_versions if own or v <= version]
        types = [_type_bytes(facts, name) for name in node.input]
        if fits and None not in types:
            body = schema.get_context_dependent_function_with_opset_version(
                max(fits), node.SerializeToString(), types
            )
            return parsed(body) if body else None
    return None


def _mended(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """Return the function without a fault of onnx's own: AffineGrid squeezes rows of single images.

    Its Squeeze of the rows of theta names no axes, so that a batch of one image loses its axis too.
    """
    if function.name == "AffineGrid":
        inner = (attribute.g for node in function.node for attribute in node.attribute)
        for node in (node for graph in inner for node in graph.node):
            if node.op_type == "Squeeze" and len(node.input) == 1:
                node.input.append("one_1d")
    return function


def parsed(body: bytes) -> onnx.FunctionProto:
    """A function from its bytes."""
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    return function


def _type_bytes(facts: Facts, name: str) -> bytes | None:
    if not name:
        return b""
    found = facts.type(name)
    return found.SerializeToString() if found is not None else None


def instance(body: onnx.FunctionProto, node: onnx.NodeProto, names: Names) -> list[onnx.NodeProto]:
    """The nodes of a function in the place of the node that calls it."""
    base = node.name or next((name for name in node.output if name), node.op_type)
    renamed = {"": ""}
    renamed.update(dict.fromkeys(body.input, ""))
    renamed.update(zip(body.input, node.input, strict=False))
    both = zip(body.output, node.output, strict=False)
    renamed.update({formal: actual for formal, actual in both if actual})
    given = {a.name: a for a in body.attribute_proto}
    given.update({a.name: a for a in _defaults(node)})
    given.update({a.name: a for a in node.attribute})
    copied = _Copy(given, names, base)
    return copied.nodes(body.node, renamed)


def _defaults(node: onnx.NodeProto) -> Iterable[onnx.AttributeProto]:
    try:
        attributes = defs.get_schema(node.op_type, node.domain).attributes
    except defs.SchemaError:
        return ()
    return (a.default_value for a in attributes.values() if a.default_value.name)


class _Copy:
    """Copies nodes with the values of attributes filled in and names of their own."""

    def __init__(self, given: dict[str, onnx.AttributeProto], names: Names, base: str) -> None:
        self.given, self.names, self.base = given, names, base

    def nodes(
        self, nodes: Iterable[onnx.NodeProto], renamed: dict[str, str]
    ) -> list[onnx.NodeProto]:
        """The copied nodes; `renamed` learns what they make."""
        made = []
        for node in nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = self.names.fresh(f"{self.base}_{node.name or node.op_type}")
            copy.input[:] = [renamed.get(name, name) for name in node.input]
            copy.output[:] = [self._own(name, renamed) for name in node.output]
            filled = [self._filled(attribute) for attribute in node.attribute]
            del copy.attribute[:]
            copy.attribute.extend(attribute for attribute in filled if attribute is not None)
            for inner in bodies_of(copy):
                self._inside(inner, dict(renamed))
            while copy.input and not copy.input[-1]:
                copy.input.pop()
            made.append(copy)
        return made

    def _own(self, name: str, renamed: dict[str, str]) -> str:
        if name and name not in renamed:
            renamed[name] = self.names.fresh(f"{self.base}_{name}")
        return renamed.get(name, name)

    def _filled(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto | None:
        if not attribute.ref_attr_name:
            return attribute
        if attribute.ref_attr_name not in self.given:
            return None
        filled = onnx.AttributeProto()
        filled.CopyFrom(self.given[attribute.ref_attr_name])
        filled.name = attribute.name
        return filled

    def _inside(self, graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
        own = dict.fromkeys([v.name for v in graph.input] + [t.name for t in graph.initializer])
        for name in own:
            renamed[name] = self.names.fresh(f"{self.base}_{name}")
        for value in graph.input:
            value.name = renamed[value.name]
        for tensor in graph.initializer:
            tensor.name = renamed[tensor.name]
        for node in graph.node:  # what is made in here shadows what is outside
            for name in node.output:
                renamed.pop(name, None)
        renamed[""] = ""
        inner = self.nodes(graph.node, renamed)
        del graph.node[:]
        graph.node.extend(inner)
        del graph.value_info[:]
        for value in graph.output:
            value.name = renamed.get(value.name, value.name)
