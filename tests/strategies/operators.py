"""Random nodes with ONNX operators on ports of arbitrary types, most of which must be refused."""

from __future__ import annotations

from typing import Any

import onnx
from hypothesis import strategies as st

from mdf_loop.ops import onnx_schema

PORTS = st.sampled_from(
    [
        {"default_value": 0.5},
        {"default_value": 2},
        {"default_value": [1.0, 2.0]},
        {"default_value": [1, 2]},
        {"default_value": [[1.0, 2.0], [3.0, 4.0]], "type": "float32"},
        {"default_value": [[1, 2], [3, 4]], "type": "int8"},
        {"default_value": [[[[1.0, 2.0], [3.0, 4.0]]]], "type": "float64"},
        {"default_value": [True, False]},
        {"shape": [2, -1], "type": "float64"},
        {"shape": [2], "type": "float16"},
    ]
)


@st.composite
def operators(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a node that calls any operator on any ports, with or without an output that reads the call."""
    schema = onnx_schema.schema(draw(st.sampled_from(onnx_schema.operator_names())))
    required = onnx.defs.OpSchema.FormalParameterOption.Optional
    formals = [formal.name for formal in schema.inputs if formal.option != required]
    ports = {f"p{k}": draw(PORTS) for k in range(max(1, len(formals)))}
    function = {"function": f"onnx::{schema.name}", "args": dict(zip(formals, ports, strict=False))}
    output = draw(st.sampled_from(["f", "p0"]))
    parts = {
        "input_ports": ports,
        "functions": {"f": function},
        "output_ports": {"y": {"value": output}},
    }
    return {"g": {"nodes": {"A": parts}}}
