"""Conversion of an ONNX model of any opset to the opset of this package (`mdf_loop.ir.OPSET`).

Nodes of older opsets are upgraded and nodes of newer opsets are downgraded, one opset at a time, with
bodies at any depth. A new operator that ONNX defines by older operators is replaced by its definition,
and functions of the file are inlined. If an exact conversion is not possible, an error names the node.

The converter of onnx (`onnx.version_converter`) has few downgrades. In onnx 1.23.2 it fails at a Gelu
of opset 21 ("No Previous Version of Gelu exists"), which older operators define. It also fails at a
Split of opset 18 ("No Adapter From Version $18 for Split"), which has only a new form. This package
therefore has its own converter.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import defs

from mdf_loop.errors import UnsupportedError
from mdf_loop.importing.onnx_paths import path_of_node
from mdf_loop.importing.opsets.facts import Facts, infer_types
from mdf_loop.importing.opsets.functions import definition_of, inline_call
from mdf_loop.importing.opsets.local_functions import (
    called_key,
    function_key,
    inline_other_opsets,
    inline_same_opset,
)
from mdf_loop.importing.opsets.machine_learning import ML_CONVERSIONS, ML_DOMAIN
from mdf_loop.importing.opsets.names import NameGenerator
from mdf_loop.importing.opsets.rewrite import Rewrite
from mdf_loop.importing.opsets.steps import downgrade, opset_of, set_opset, upgrade
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import OPSET

ONNX_DOMAIN = "ai.onnx"
"""Second name of ONNX's own domain, whose first name is the empty string."""


def convert_to_package_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of an ONNX model at the package's opset.

    A node in a newer form without an equivalent in older opsets keeps its form.

    Raises:
        UnsupportedError: An operator belongs to another domain, or has no equivalent. The message
            names the operator, the opset and the node.
    """
    converted_model = onnx.ModelProto()
    converted_model.CopyFrom(model)
    _normalize_domains(converted_model)
    opset_version = opset_of(converted_model)
    if opset_version > defs.onnx_opset_version():
        raise UnsupportedError(
            f"the model speaks opset {opset_version}; the onnx package installed here knows opsets up "
            f"to {defs.onnx_opset_version()}",
            "$.opset_import",
            "install a newer onnx, or export with an older opset",
        )
    converted_model = inline_same_opset(converted_model, opset_version)
    converted_model = _expand_other_domains(converted_model)
    _check_domains(converted_model)
    while opset_of(converted_model) < OPSET:
        converted_model = upgrade(converted_model)
    while opset_of(converted_model) > OPSET:
        converted_model = downgrade(converted_model)
    converted_model = inline_other_opsets(converted_model, OPSET, convert_to_package_opset)
    del converted_model.functions[:]
    del converted_model.opset_import[:]
    converted_model.opset_import.add(domain="", version=OPSET)
    return set_opset(converted_model, OPSET)


def _normalize_domains(model: onnx.ModelProto) -> None:
    for model_or_function in (model, *model.functions):
        for opset_import in model_or_function.opset_import:
            if opset_import.domain == ONNX_DOMAIN:
                opset_import.domain = ""
    graphs = list(graphs_of(model.graph))
    graph_nodes = [node for graph in graphs for node in graph.node]
    for function in model.functions:
        for function_node in function.node:
            graph_nodes.extend(_nested_nodes(function_node))
    for node in graph_nodes:
        if node.domain == ONNX_DOMAIN:
            node.domain = ""


def _nested_nodes(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    nested_nodes = [node]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for graph in graphs_of(attribute.g):
                nested_nodes.extend(graph.node)
    return nested_nodes


def _expand_other_domains(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace operators of other ONNX domains by standard operators where possible."""
    if not any(node.domain for graph in graphs_of(model.graph) for node in graph.node):
        return model
    typed_model = infer_types(model)
    name_generator, opset_version = NameGenerator(typed_model.graph), opset_of(typed_model)
    opset_versions = {
        opset_import.domain: int(opset_import.version) for opset_import in typed_model.opset_import
    }
    for graph in graphs_of(typed_model.graph):
        facts = Facts(graph, opset_version)
        expanded_nodes: list[onnx.NodeProto] = []
        for node_index, node in enumerate(graph.node):
            if node.domain == ML_DOMAIN and node.op_type in ML_CONVERSIONS:
                rewrite = Rewrite(
                    node,
                    facts,
                    name_generator,
                    opset_version,
                    path_of_node("$.graph", node, node_index),
                )
                ML_CONVERSIONS[node.op_type](rewrite)
                expanded_nodes.extend(rewrite.replacement)
                continue
            has_schema = node.domain and defs.has(node.op_type, node.domain)
            function_definition = (
                definition_of(node, opset_versions.get(node.domain, 1), facts)
                if has_schema
                else None
            )
            expanded_nodes.extend(
                [node]
                if function_definition is None
                else inline_call(function_definition, node, name_generator)
            )
        del graph.node[:]
        graph.node.extend(expanded_nodes)
    return typed_model


def _check_domains(model: onnx.ModelProto) -> None:
    local_function_keys = {function_key(function) for function in model.functions}
    for graph in graphs_of(model.graph):
        for node_index, node in enumerate(graph.node):
            if node.domain and called_key(node) not in local_function_keys:
                raise UnsupportedError(
                    f"operator '{node.op_type}' of the domain '{node.domain}' cannot be imported",
                    path_of_node("$.graph", node, node_index),
                    "export the model with operators of ONNX's own domain; of others those are read "
                    f"that ONNX defines by its own, and {_list_names(ML_CONVERSIONS)} of {ML_DOMAIN}",
                )


def _list_names(names: Iterable[str]) -> str:
    *leading_names, last_name = names
    return f"{', '.join(leading_names)} and {last_name}"
