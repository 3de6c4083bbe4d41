"""Import of an ONNX model as the content of an MDF model."""

from __future__ import annotations

import onnx
from msgspec import Struct

from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.loop_conditions import DOCUMENT, ambiguous_loops, mark_ambiguous_loops
from mdf_loop.importing.onnx_graph import STANDARD_DOMAINS, convert_main_graph
from mdf_loop.importing.onnx_references import UNBOUND_KEY
from mdf_loop.importing.opsets import convert_to_package_opset
from mdf_loop.importing.origin import origin_of


class ImportedModel(Struct, frozen=True):
    """Imported MDF model: its content, and the warnings of the import."""

    mdf_content: Content
    import_warnings: tuple[str, ...] = ()


def content_of_onnx(proto: onnx.ModelProto, name: str) -> Content:
    """Convert an ONNX model to the content of an MDF model, with the default options.

    Ambiguous loops are read as the ONNX specification says.
    """
    return import_onnx(proto, name, DOCUMENT).mdf_content


def import_onnx(proto: onnx.ModelProto, name: str, loop_condition: str) -> ImportedModel:
    """Convert an ONNX model to an MDF model whose operators have the package's opset.

    The metadata of the graph contain the opset, the producer and the doc string of the file. For a
    file that was exported from an MDF model, the result is the exported MDF model.

    Args:
        proto: A checked model.
        name: The name of the model, if its graph has none.
        loop_condition: How to read ambiguous loops.
    """
    original_content = origin_of(proto)
    if original_content is not None:
        return ImportedModel(original_content)
    onnx_metadata: Content = {"opset": opset_of(proto), "ir_version": proto.ir_version}
    if proto.producer_name:
        onnx_metadata["producer"] = f"{proto.producer_name} {proto.producer_version}".strip()
    if proto.doc_string:
        onnx_metadata["doc_string"] = proto.doc_string
    for metadata_entry in proto.metadata_props:
        if metadata_entry.key == UNBOUND_KEY:
            onnx_metadata["unbound"] = metadata_entry.value.splitlines()
    graph_id = proto.graph.name or name
    converted_model = convert_to_package_opset(proto)
    mark_ambiguous_loops(converted_model, loop_condition)
    main_graph = convert_main_graph(converted_model.graph, graph_id, {"onnx": onnx_metadata})
    mdf_content: Content = {name: {"format": "ModECI MDF v0.4", "graphs": main_graph}}
    imported_ambiguous_loops = ambiguous_loops(mdf_content) if loop_condition == DOCUMENT else ()
    return ImportedModel(
        mdf_content, tuple(ambiguous_loop.warning for ambiguous_loop in imported_ambiguous_loops)
    )


def opset_of(proto: onnx.ModelProto) -> int:
    """Return the version of the standard ONNX operators that a model uses."""
    return max(
        (
            opset_import.version
            for opset_import in proto.opset_import
            if opset_import.domain in STANDARD_DOMAINS
        ),
        default=1,
    )
