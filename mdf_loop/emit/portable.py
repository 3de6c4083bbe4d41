"""Files for other runtimes: a body returns none of its inputs as they are.

ONNX Runtime is fastest with an input returned directly, OpenVINO refuses it; so what is run here
does, and what is written to a file goes through an Identity.
"""

from __future__ import annotations

import onnx
from onnx import helper


def portable(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model whose loop bodies copy what they pass through."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    _copy_passed(copied.graph)
    return copied


def _copy_passed(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = attribute.g
                _copy_passed(body)
                _return_copies(body)


def _return_copies(body: onnx.GraphProto) -> None:
    inputs = {value.name for value in body.input}
    for position, output in enumerate(body.output):
        if output.name in inputs:
            copy = f"{output.name}#out{position}"
            body.node.append(helper.make_node("Identity", [output.name], [copy], name=copy))
            output.name = copy
