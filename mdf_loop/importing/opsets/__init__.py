"""An ONNX model of any opset -> the same model at our opset (`mdf_loop.ir.OPSET`).

Old forms are brought up and new forms down, one opset at a time, bodies at any depth included.
Operators that are new in ONNX but defined there by older ones are replaced by their definition;
functions of the file are written out. The meaning is kept exactly, or the node is refused by name.
"""

from __future__ import annotations

import onnx
from onnx import defs

from mdf_loop.errors import UnsupportedError
from mdf_loop.importing.onnx_places import node_place
from mdf_loop.importing.opsets.facts import Facts, infer
from mdf_loop.importing.opsets.functions import function_of, instance
from mdf_loop.importing.opsets.local_functions import (
    called,
    inline_other_opsets,
    inline_same_opset,
    key_of,
)
from mdf_loop.importing.opsets.names import Names
from mdf_loop.importing.opsets.steps import down, stamped, up, version_of
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import OPSET

ONNX_DOMAIN = "ai.onnx"
"""The other name of ONNX's own domain, "" """


def at_our_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every node at our opset; the given model is not changed.

    Raises:
        UnsupportedError: an operator of another domain, or one whose meaning our opset cannot
            say; the sentence names operator, opset and node.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _one_name_for_onnx(made)
    version = version_of(made)
    if version > defs.onnx_opset_version():
        raise UnsupportedError(
            f"the model speaks opset {version}; the onnx package installed here knows opsets up "
            f"to {defs.onnx_opset_version()}",
            "$.opset_import",
            "install a newer onnx, or export with an older opset",
        )
    made = inline_same_opset(made, version)
    made = _defined_elsewhere(made)
    _refuse_foreign(made)
    while version_of(made) < OPSET:
        made = up(made)
    while version_of(made) > OPSET:
        made = down(made)
    made = inline_other_opsets(made, OPSET, at_our_opset)
    del made.functions[:]
    del made.opset_import[:]
    made.opset_import.add(domain="", version=OPSET)
    return stamped(made, OPSET)


def _one_name_for_onnx(model: onnx.ModelProto) -> None:
    for owner in (model, *model.functions):
        for opset in owner.opset_import:
            if opset.domain == ONNX_DOMAIN:
                opset.domain = ""
    graphs = list(graphs_of(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    for function in model.functions:
        for top in function.node:
            nodes.extend(_with_inner(top))
    for node in nodes:
        if node.domain == ONNX_DOMAIN:
            node.domain = ""


def _with_inner(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    found = [node]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for graph in graphs_of(attribute.g):
                found.extend(graph.node)
    return found


def _defined_elsewhere(model: onnx.ModelProto) -> onnx.ModelProto:
    """Operators of ONNX's other domains that are defined by operators of its own."""
    if not any(node.domain for graph in graphs_of(model.graph) for node in graph.node):
        return model
    made = infer(model)
    names, version = Names(made.graph), version_of(made)
    versions = {o.domain: int(o.version) for o in made.opset_import}
    for graph in graphs_of(made.graph):
        facts = Facts(graph, version)
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            known = node.domain and defs.has(node.op_type, node.domain)
            body = function_of(node, versions.get(node.domain, 1), facts) if known else None
            nodes.extend([node] if body is None else instance(body, node, names))
        del graph.node[:]
        graph.node.extend(nodes)
    return made


def _refuse_foreign(model: onnx.ModelProto) -> None:
    own = {key_of(function) for function in model.functions}
    for graph in graphs_of(model.graph):
        for index, node in enumerate(graph.node):
            if node.domain and called(node) not in own:
                raise UnsupportedError(
                    f"operator '{node.op_type}' belongs to the domain '{node.domain}'; only "
                    "ONNX's own operators can be imported",
                    node_place("$.graph", node, index),
                    "export the model with plain ONNX operators",
                )
