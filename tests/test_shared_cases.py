"""Stored loop cases with known results, read as MDF graphs, compiled and run.

They lie beside the checkout of developers and CI; elsewhere these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.reading.onnx_graph import graph_of_proto

CASES = Path(__file__).parents[2] / "shared" / "cases"
GROUPS = ("onnx_loop", "nnc", "survey")


def stored() -> list[Path]:
    found = [path for group in GROUPS for path in sorted((CASES / group).glob("*.json"))]
    return [path for path in found if "model" in json.loads(path.read_text())]


def array(tensor: dict[str, object]) -> np.ndarray:
    return np.array(tensor["data"], dtype=tensor["dtype"]).reshape(tensor["shape"])


@pytest.mark.skipif(not CASES.exists(), reason="the stored cases are not here")
@pytest.mark.parametrize("path", stored(), ids=lambda p: p.stem)
def test_a_stored_case_gives_the_expected_result(path: Path) -> None:
    case = json.loads(path.read_text())
    model = onnx.load(path.with_name(case["model"]))
    if any(n.op_type == "If" for g in _graphs(model.graph) for n in g.node):
        with pytest.raises(mdf_loop.LoopError, match="onnx::If in a body cannot be read yet"):
            graph_of_proto(model.graph)
        return
    graph = graph_of_proto(model.graph)
    ports = {port.id for node in graph.nodes for port in node.input_ports}
    for run in case["runs"]:
        inputs = {k: array(v) for k, v in run["inputs"].items() if k in ports}
        compiled = mdf_loop.compile(graph, device="cpu", shapes="dynamic")
        if isinstance(run["expected"], dict):
            with pytest.raises(mdf_loop.LoopError):
                compiled.run(inputs)
            continue
        results = compiled.run(inputs)
        for name, tensor in zip(case["outputs"], run["expected"], strict=True):
            expected = array(tensor)
            assert (results[name].dtype, results[name].shape) == (expected.dtype, expected.shape)
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-7)
            else:
                np.testing.assert_array_equal(results[name], expected)


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [graph, *(g for body in inner for g in _graphs(body))]
