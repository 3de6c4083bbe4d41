"""An ONNX model -> the content of an MDF model."""

from __future__ import annotations

import onnx

from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.onnx_graph import OWN_DOMAINS, main_graph
from mdf_loop.importing.onnx_references import UNBOUND
from mdf_loop.importing.opsets import at_our_opset
from mdf_loop.importing.origin import origin_of


def content_of_onnx(proto: onnx.ModelProto, name: str) -> Content:
    """The model under the name of its graph, its nodes as our opset says them.

    What is known of the file (opset, producer, doc string) is kept in the graph's metadata. A file
    that was made of an MDF model gives that model.
    """
    origin = origin_of(proto)
    if origin is not None:
        return origin
    about: Content = {"opset": opset_of(proto), "ir_version": proto.ir_version}
    if proto.producer_name:
        about["producer"] = f"{proto.producer_name} {proto.producer_version}".strip()
    if proto.doc_string:
        about["doc_string"] = proto.doc_string
    for entry in proto.metadata_props:
        if entry.key == UNBOUND:
            about["unbound"] = entry.value.splitlines()
    graph_id = proto.graph.name or name
    graph = main_graph(at_our_opset(proto).graph, graph_id, {"onnx": about})
    return {name: {"format": "ModECI MDF v0.4", "graphs": graph}}


def opset_of(proto: onnx.ModelProto) -> int:
    """The version of ONNX's own operators that the file speaks."""
    return max((e.version for e in proto.opset_import if e.domain in OWN_DOMAINS), default=1)
