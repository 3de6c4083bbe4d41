"""An exported file gives the MDF model back that it was made of, and the same file again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.importing.origin import ARRAYS, MODEL, origin_of
from mdf_loop.reading.content import content_of
from mdf_loop.reading.document import open_document

ROOT = Path(__file__).parents[2]
MODELS = sorted((ROOT / "examples").glob("*/*.yaml")) + sorted(
    (ROOT / "mdf_loop/demo").glob("*.y*ml")
)


def exported(source: Any) -> onnx.ModelProto:
    proto = mdf_loop.compile(source, device="cpu", max_iterations=5).to_onnx()
    return onnx.ModelProto.FromString(proto.SerializeToString())


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_out_and_in_and_out_is_a_fixed_point(path: Path) -> None:
    proto = exported(path)
    model = mdf_loop.from_onnx(proto)
    written = content_of(open_document(path))
    assert str(content_of(open_document(model))) == str(written)
    assert exported(model).SerializeToString(deterministic=True) == proto.SerializeToString(
        deterministic=True
    )


def large(n: int) -> dict[str, Any]:
    weights = np.arange(n, dtype=np.float32)
    return {"m": {"graphs": {"g": {"nodes": {"A": {
        "parameters": {"w": {"value": weights, "metadata": {"dtype": "float32"}}},
        "output_ports": {"y": {"value": "w * 2"}}}}}}}}  # fmt: skip


def test_large_arrays_are_packed() -> None:
    proto = exported(large(5000))
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    assert len(entries[MODEL]) < 1000
    assert len(entries[ARRAYS]) < 20_000
    given = mdf_loop.from_onnx(proto).graphs[0].nodes[0].parameters[0].value
    np.testing.assert_array_equal(given, np.arange(5000, dtype=np.float32), strict=True)


def test_a_file_that_was_changed_is_read_from_its_graph() -> None:
    proto = exported(large(3))
    assert origin_of(proto) is not None
    proto.graph.node.add(op_type="Neg", input=[proto.graph.output[0].name], output=["minus"])
    proto.graph.output.add(name="minus").type.CopyFrom(proto.graph.output[0].type)
    assert origin_of(proto) is None
    results = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run()
    np.testing.assert_array_equal(results["minus"], np.array([0, -2, -4], np.float32), strict=True)


def with_model(text: str) -> onnx.ModelProto:
    proto = exported(large(3))
    for entry in proto.metadata_props:
        if entry.key == MODEL:
            entry.value = text
    return proto


@pytest.mark.parametrize("text", ["no json", ""])
def test_metadata_that_are_no_document_are_ignored(text: str) -> None:
    results = mdf_loop.compile(mdf_loop.from_onnx(with_model(text)), device="cpu").run()
    np.testing.assert_array_equal(results["A.y"], np.array([0, 2, 4], np.float32), strict=True)


@pytest.mark.parametrize("text", ["[1, 2]", '{"m": 3}', '{"m": {"graphs": 3}}', '{"m": {}}'])
def test_a_document_that_is_none_is_one_clear_error(text: str) -> None:
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.compile(mdf_loop.from_onnx(with_model(text)), device="cpu")


def test_other_metadata_mean_nothing() -> None:
    proto = exported(large(3))
    del proto.metadata_props[:]
    proto.metadata_props.add(key="author", value="me")
    assert origin_of(proto) is None


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_damaged_arrays_are_read_from_the_graph(keep: float) -> None:
    proto = exported(large(5000))
    for entry in proto.metadata_props:
        if entry.key == ARRAYS:
            text = entry.value
            entry.value = text[: int(len(text) * keep) // 4 * 4] + "AAAA"
    assert origin_of(proto) is None
    (values,) = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run().values()
    np.testing.assert_array_equal(values, np.arange(5000, dtype=np.float32) * 2, strict=True)


def test_a_file_that_computes_in_float32_is_read_from_its_graph() -> None:
    """The model that it was made of computes in float64: other numbers than the file's."""
    node = {"input_ports": {"x": {"shape": [2]}}, "output_ports": {"y": {"value": "x / 3"}}}
    graph = {"g": {"nodes": {"A": node}}}
    proto = mdf_loop.compile(graph, device="cpu", precision="float32").to_onnx({"x": [1.0, 2.0]})
    assert origin_of(proto) is None
    (given,) = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run({"x": [1, 2]}).values()
    np.testing.assert_array_equal(given, np.array([1, 2], np.float32) / np.float32(3), strict=True)
