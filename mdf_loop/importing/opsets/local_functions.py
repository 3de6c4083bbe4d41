"""Inlining of functions of the model file: the nodes of the function replace the call.

y = my.domain.Twice(x)  ->  y = Add(x, x), with names composed of the call's name and the function's.
A function may use another opset than the model. Such a function is converted separately, with the
types of the values of the call.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from mdf_loop.importing.opsets.facts import Facts, infer_types
from mdf_loop.importing.opsets.functions import inline_call
from mdf_loop.importing.opsets.names import NameGenerator
from mdf_loop.importing.opsets.weights import graphs_of

FunctionKey = tuple[str, str, str]
ModelTranslation = Callable[[onnx.ModelProto], onnx.ModelProto]
CallReplacement = Callable[
    [onnx.NodeProto, onnx.FunctionProto, Facts, NameGenerator], list[onnx.NodeProto]
]


def function_key(function: onnx.FunctionProto) -> FunctionKey:
    """Return the key of a function in the model file: domain, name and overload."""
    return (function.domain, function.name, function.overload)


def called_key(node: onnx.NodeProto) -> FunctionKey:
    """Return the key of the function that a node would call: domain, operator type and overload."""
    return (node.domain, node.op_type, node.overload)


def function_opset(function: onnx.FunctionProto, default: int) -> int:
    """Return the version of the standard ONNX operators in a function."""
    return next(
        (int(opset.version) for opset in function.opset_import if opset.domain == ""), default
    )


def inline_same_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """Inline all calls of functions whose opset is that of the model."""
    functions_by_key = {
        function_key(function): function
        for function in model.functions
        if function_opset(function, version) == version
    }
    while _has_call(model, functions_by_key):
        _inline_calls(
            model.graph,
            None,
            functions_by_key,
            NameGenerator(model.graph),
            version,
            _inline_unchanged,
        )
    return model


def inline_other_opsets(
    model: onnx.ModelProto, version: int, translate: ModelTranslation
) -> onnx.ModelProto:
    """Inline all calls of functions of other opsets, after converting the functions.

    The model is at the package's opset.
    """
    functions_by_key = {function_key(function): function for function in model.functions}
    if not _has_call(model, functions_by_key):
        return model
    model = infer_types(model)
    local_functions = list(model.functions)

    def inline_translated(
        node: onnx.NodeProto, function: onnx.FunctionProto, facts: Facts, names: NameGenerator
    ) -> list[onnx.NodeProto]:
        inlined_nodes = inline_call(function, node, names)
        function_graph = helper.make_graph(
            inlined_nodes, function.name, _input_types(node, facts), _output_names(node)
        )
        function_model = helper.make_model(
            function_graph, opset_imports=list(function.opset_import), functions=local_functions
        )
        translated_nodes = translate(function_model).graph.node
        return list(translated_nodes)

    _inline_calls(
        model.graph, None, functions_by_key, NameGenerator(model.graph), version, inline_translated
    )
    return model


def _inline_unchanged(
    node: onnx.NodeProto, function: onnx.FunctionProto, _: Facts, names: NameGenerator
) -> list[onnx.NodeProto]:
    return inline_call(function, node, names)


def _input_types(node: onnx.NodeProto, facts: Facts) -> list[onnx.ValueInfoProto]:
    input_infos = []
    for name in dict.fromkeys(name for name in node.input if name):
        input_info = onnx.ValueInfoProto(name=name)
        type_proto = facts.type(name)
        if type_proto is not None:
            input_info.type.CopyFrom(type_proto)
        input_infos.append(input_info)
    return input_infos


def _output_names(node: onnx.NodeProto) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in node.output if name]


def _has_call(model: onnx.ModelProto, functions: dict[FunctionKey, onnx.FunctionProto]) -> bool:
    all_nodes = (node for graph in graphs_of(model.graph) for node in graph.node)
    return bool(functions) and any(called_key(node) in functions for node in all_nodes)


def _inline_calls(
    graph: onnx.GraphProto,
    outer: Facts | None,
    functions: dict[FunctionKey, onnx.FunctionProto],
    names: NameGenerator,
    version: int,
    replace: CallReplacement,
) -> None:
    facts = Facts(graph, version, outer)
    inlined_nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _inline_calls(attribute.g, facts, functions, names, version, replace)
        function = functions.get(called_key(node))
        inlined_nodes.extend([node] if function is None else replace(node, function, facts, names))
    del graph.node[:]
    graph.node.extend(inlined_nodes)
