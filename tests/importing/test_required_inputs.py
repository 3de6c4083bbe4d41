"""Inputs of an ONNX file are required and have no default, in the file and in ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.verification.acceptance import accept

CELL = """<ir_version: 8, opset_import: ["" : 17]>
cell (float[1, 2] x, float[1, 2] h, float[N] z) => (float[1, 2] after, float[N] big)
<float[1, 2] b = {0.5, 0.25}> {
  s = Add(x, h)  t = Add(s, b)  after = Tanh(t)  big = Relu(z)
}"""
X, Z = np.ones((1, 2), np.float32), np.ones(3, np.float32)


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    path = tmp_path / "cell.onnx"
    onnx.save(onnx.parser.parse_model(CELL), path)
    return path


def test_all_missing_inputs_are_named(cell: Path) -> None:
    with pytest.raises(InputError) as error:
        mdf_loop.compile(cell).run({"x": X})
    h, z = error.value.findings
    assert h.what == "the input 'h' is missing: an input of an ONNX file has no value of its own"
    assert h.hint.endswith("(--input h=...); it takes float32[1, 2]")
    assert "'z' is missing" in z.what
    assert z.hint.endswith("float32[?]")


def test_inputs_by_each_of_their_names(cell: Path) -> None:
    compiled = mdf_loop.compile(cell)
    for name in ("h", "h.h"):  # by both names of the input, and again with the cached binding
        for _ in range(2):
            results = compiled.run({"x": X, name: X, "z": Z})
            np.testing.assert_allclose(results["after"], np.tanh(X + X + [[0.5, 0.25]]), 1e-6)
    with pytest.raises(InputError, match="the input 'h' is missing"):
        compiled.run({"x": X, "z": Z})


def test_reading_requires_no_inputs(cell: Path) -> None:
    program = mdf_loop.read(cell)
    shapes = {entry.value.name: entry.value.shape for entry in program.inputs}
    assert shapes == {"x": (1, 2), "h": (1, 2), "z": ("N",)}
    reading = accept(open_document(cell), {"x": X}, Options())
    assert len(reading.program.outputs) == 2


def test_programs_are_compiled_without_inputs(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(CELL.replace("float[N]", "float[3]")), tmp_path / "c.onnx")
    compiled = mdf_loop.compile(tmp_path / "c.onnx")
    assert len(compiled.program.inputs) == 3
    with pytest.raises(InputError, match="is missing"):
        compiled.run()


def test_ports_with_an_edge_are_not_missing(cell: Path) -> None:
    model = mdf_loop.from_onnx(cell)
    graph = model.graphs[0]
    port = next(node for node in graph.nodes if node.id == "h").input_ports[0]
    port.default_value = [[0.0, 0.0]]
    maker = next(node for node in graph.nodes if node.output_ports[0].id == "after")
    from modeci_mdf.mdf import Edge

    graph.edges.append(
        Edge(id="back", sender=maker.id, receiver="h", sender_port="after", receiver_port=port.id)
    )
    results = mdf_loop.compile(model).run({"x": X, "z": Z}, steps=2)
    assert results["after"].shape == (2, 1, 2)


def test_omitted_inputs_of_an_imported_document_are_zeros(cell: Path) -> None:
    """Check that the port holds zeros, as in modeci_mdf's engine."""
    model = mdf_loop.from_onnx(cell)
    results = mdf_loop.compile(model).run({"x": X, "z": Z})
    np.testing.assert_allclose(results["after"], np.tanh(X + np.array([[0.5, 0.25]])), 1e-6)


def test_in_mdf_a_port_without_default_holds_zeros() -> None:
    graph = {
        "nodes": {
            "n": {
                "input_ports": {"x": {"type": "float32", "shape": [2]}},
                "output_ports": {"y": {"value": "x + 1"}},
            }
        }
    }
    results = mdf_loop.compile({"id": "g", **graph}).run()
    assert results["y"].tolist() == [1, 1]


def test_an_optional_input_may_be_absent() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (optional(float[1]) o) => (bool there) { there = OptionalHasElement(o) }"""
    compiled = mdf_loop.compile(mdf_loop.from_onnx(onnx.parser.parse_model(text)))
    assert not compiled.run()["there"]
