"""An ONNX model of any opset -> the same model at our opset (`mdf_loop.ir.OPSET`).

Old forms are brought up and new forms down, one opset at a time, bodies at any depth included.
Operators that are new in ONNX but defined there by older ones are replaced by their definition;
functions of the file are written out. The meaning is kept exactly, or the node is refused by name.

onnx has a converter of its own (`onnx.version_converter`), which knows few ways down: that of onnx
1.23.2 ends with an assertion at a Gelu of opset 21 ("No Previous Version of Gelu exists"), which
older operators define, and at a Split of opset 18 ("No Adapter From Version $18 for Split"), of
which only the form is new. So opsets are converted here.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from mdf_loop.importing.opsets.machine_learning import DOMAIN as MACHINE_LEARNING
from mdf_loop.importing.opsets.machine_learning import STEPS
from mdf_loop.importing.opsets.names import Names
from mdf_loop.importing.opsets.rewrite import Rewrite
from mdf_loop.importing.opsets.steps import down, stamped, up, version_of
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import OPSET

ONNX_DOMAIN = "ai.onnx"
"""The other name of ONNX's own domain, "" """


def at_our_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every node at our opset, or in a newer form that no older one equals.

    The given model is not changed.

    Raises:
        UnsupportedError: an operator of another domain, or one whose meaning cannot be said; the
            sentence names operator, opset and node.
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
    """Operators of ONNX's other domains that operators of its own can say."""
    if not any(node.domain for graph in graphs_of(model.graph) for node in graph.node):
        return model
    made = infer(model)
    names, version = Names(made.graph), version_of(made)
    versions = {o.domain: int(o.version) for o in made.opset_import}
    for graph in graphs_of(made.graph):
        facts = Facts(graph, version)
        nodes: list[onnx.NodeProto] = []
        for index, node in enumerate(graph.node):
            if node.domain == MACHINE_LEARNING and node.op_type in STEPS:
                rewrite = Rewrite(node, facts, names, version, node_place("$.graph", node, index))
                STEPS[node.op_type](rewrite)
                nodes.extend(rewrite.made)
                continue
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
                    f"operator '{node.op_type}' of the domain '{node.domain}' cannot be imported",
                    node_place("$.graph", node, index),
                    "export the model with operators of ONNX's own domain; of others those are read "
                    f"that ONNX defines by its own, and {_listed(STEPS)} of {MACHINE_LEARNING}",
                )


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}"
