"""Functions that the model file itself defines: the call becomes the nodes of the function.

y = my.domain.Twice(x)  ->  y = Add(x, x), with names made of the call's name and the function's.
A function may speak another opset than the model: it is brought to ours on its own, with the
types of the values of the call.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from mdf_loop.importing.opsets.facts import Facts, infer
from mdf_loop.importing.opsets.functions import instance
from mdf_loop.importing.opsets.names import Names
from mdf_loop.importing.opsets.weights import graphs_of

Key = tuple[str, str, str]
Translate = Callable[[onnx.ModelProto], onnx.ModelProto]
Replace = Callable[[onnx.NodeProto, onnx.FunctionProto, Facts, Names], list[onnx.NodeProto]]


def key_of(function: onnx.FunctionProto) -> Key:
    """What a node must say to mean this function."""
    return (function.domain, function.name, function.overload)


def called(node: onnx.NodeProto) -> Key:
    """The function that a node means, if there is one."""
    return (node.domain, node.op_type, node.overload)


def own_version(function: onnx.FunctionProto, default: int) -> int:
    """The opset of ONNX's own operators in a function."""
    return next((int(o.version) for o in function.opset_import if o.domain == ""), default)


def inline_same_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """The model without calls of functions that speak its own opset."""
    functions = {key_of(f): f for f in model.functions if own_version(f, version) == version}
    while _any_call(model, functions):
        _inline(model.graph, None, functions, Names(model.graph), version, _plain)
    return model


def inline_other_opsets(
    model: onnx.ModelProto, version: int, translate: Translate
) -> onnx.ModelProto:
    """The model, by now at our opset, without calls of functions."""
    functions = {key_of(f): f for f in model.functions}
    if not _any_call(model, functions):
        return model
    model = infer(model)
    library = list(model.functions)

    def translated(
        node: onnx.NodeProto, function: onnx.FunctionProto, facts: Facts, names: Names
    ) -> list[onnx.NodeProto]:
        nodes = instance(function, node, names)
        graph = helper.make_graph(nodes, function.name, _given(node, facts), _wanted(node))
        alone = helper.make_model(
            graph, opset_imports=list(function.opset_import), functions=library
        )
        found = translate(alone).graph.node
        return list(found)

    _inline(model.graph, None, functions, Names(model.graph), version, translated)
    return model


def _plain(
    node: onnx.NodeProto, function: onnx.FunctionProto, _: Facts, names: Names
) -> list[onnx.NodeProto]:
    return instance(function, node, names)


def _given(node: onnx.NodeProto, facts: Facts) -> list[onnx.ValueInfoProto]:
    values = []
    for name in dict.fromkeys(name for name in node.input if name):
        value = onnx.ValueInfoProto(name=name)
        found = facts.type(name)
        if found is not None:
            value.type.CopyFrom(found)
        values.append(value)
    return values


def _wanted(node: onnx.NodeProto) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in node.output if name]


def _any_call(model: onnx.ModelProto, functions: dict[Key, onnx.FunctionProto]) -> bool:
    nodes = (node for graph in graphs_of(model.graph) for node in graph.node)
    return bool(functions) and any(called(node) in functions for node in nodes)


def _inline(
    graph: onnx.GraphProto,
    outer: Facts | None,
    functions: dict[Key, onnx.FunctionProto],
    names: Names,
    version: int,
    replace: Replace,
) -> None:
    facts = Facts(graph, version, outer)
    made: list[onnx.NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _inline(attribute.g, facts, functions, names, version, replace)
        function = functions.get(called(node))
        made.extend([node] if function is None else replace(node, function, facts, names))
    del graph.node[:]
    graph.node.extend(made)
