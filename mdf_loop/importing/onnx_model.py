"""An ONNX model -> the content of an MDF model."""

from __future__ import annotations

import onnx
from msgspec import Struct

from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.loop_conditions import DOCUMENT, ambiguous_loops, mark_ambiguous_loops
from mdf_loop.importing.onnx_graph import OWN_DOMAINS, main_graph
from mdf_loop.importing.onnx_references import UNBOUND
from mdf_loop.importing.opsets import at_our_opset
from mdf_loop.importing.origin import origin_of


class ImportedModel(Struct, frozen=True):
    """The content of an MDF model, and the sentences of which an import warns."""

    content: Content
    warnings: tuple[str, ...] = ()


def content_of_onnx(proto: onnx.ModelProto, name: str) -> Content:
    """Return the content of `import_onnx`, its loops read as the ONNX document says."""
    return import_onnx(proto, name, DOCUMENT).content


def import_onnx(proto: onnx.ModelProto, name: str, loop_condition: str) -> ImportedModel:
    """Return the model under the name of its graph, its nodes as our opset says them.

    What is known of the file (opset, producer, doc string) is kept in the graph's metadata. A file
    that was made of an MDF model gives that model.

    Args:
        proto: a sound model.
        name: of the model, if its graph has none.
        loop_condition: how ambiguous loops are read.
    """
    origin = origin_of(proto)
    if origin is not None:
        return ImportedModel(origin)
    about: Content = {"opset": opset_of(proto), "ir_version": proto.ir_version}
    if proto.producer_name:
        about["producer"] = f"{proto.producer_name} {proto.producer_version}".strip()
    if proto.doc_string:
        about["doc_string"] = proto.doc_string
    for entry in proto.metadata_props:
        if entry.key == UNBOUND:
            about["unbound"] = entry.value.splitlines()
    graph_id = proto.graph.name or name
    model = at_our_opset(proto)
    mark_ambiguous_loops(model, loop_condition)
    graph = main_graph(model.graph, graph_id, {"onnx": about})
    content: Content = {name: {"format": "ModECI MDF v0.4", "graphs": graph}}
    loops = ambiguous_loops(content) if loop_condition == DOCUMENT else ()
    return ImportedModel(content, tuple(loop.warning for loop in loops))


def opset_of(proto: onnx.ModelProto) -> int:
    """The version of ONNX's own operators that the file speaks."""
    return max((e.version for e in proto.opset_import if e.domain in OWN_DOMAINS), default=1)
