"""A Transpose is fused with a MatMul behind it, except for products with vectors."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.emit.transposed_products import separate_transposed_products

SHAPES = [(3,), (3, 3), (2, 3, 3), (2, 2, 3, 3)]
CASES = [
    (left, right, side)
    for left, right in itertools.product(SHAPES, SHAPES)
    for side in ("left", "right")
    if len(left if side == "left" else right) > 1
]


def model(left: tuple[int, ...], right: tuple[int, ...], side: str, dtype: str) -> onnx.ModelProto:
    """Return a model of the product of two arrays, one of them transposed, with inferred shapes."""
    rank = len(left if side == "left" else right)
    axes = [*range(rank - 2), rank - 1, rank - 2]
    product = "MatMul (t, b)" if side == "left" else "MatMul (a, t)"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    f ({dtype}{list(left)} a, {dtype}{list(right)} b) => ({dtype} y) {{
      t = Transpose <perm = {axes}> ({"a" if side == "left" else "b"}) y = {product} }}"""
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize(("left", "right", "side"), CASES)
def test_products_of_all_ranks_equal_those_of_numpy(left, right, side, dtype) -> None:
    kind = np.float64 if dtype == "double" else np.float32
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, size=shape).astype(kind) for shape in (left, right))
    expected = np.swapaxes(a, -1, -2) @ b if side == "left" else a @ np.swapaxes(b, -1, -2)
    source = mdf_loop.from_onnx(model(left, right, side, dtype))
    compiled = mdf_loop.compile(source, device="cpu")
    feeds = {"a": a, "b": b}
    np.testing.assert_array_equal(compiled.run(feeds)["y"], expected)
    session = onnxruntime.InferenceSession(compiled.to_onnx(feeds).SerializeToString())
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


def test_only_products_with_vectors_or_unknown_operands_are_separated() -> None:
    def nodes(proto: onnx.ModelProto) -> list[str]:
        separate_transposed_products(proto, "Identity")
        return [node.op_type for node in proto.graph.node]

    matrices = model((2, 3), (2, 3), "left", "float")
    assert nodes(matrices) == ["Transpose", "MatMul"]
    assert nodes(model((3, 3), (3,), "left", "float")) == ["Transpose", "Identity", "MatMul"]
    matrices.graph.input[1].type.tensor_type.ClearField("shape")
    assert nodes(matrices) == ["Transpose", "Identity", "MatMul"]


def test_products_with_vectors_in_a_graph_and_in_its_body_are_separated() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    f (float[3, 3] a, float[3] v, int64 n, bool go) => (float[3] y, float[3] z) {
      t = Transpose <perm = [1, 0]> (a) y = MatMul (t, v)
      z = Loop (n, go, v) <body = b (int64 i, bool c, float[3] x) => (bool d, float[3] w) {
        d = Identity (c) s = Transpose <perm = [1, 0]> (a) w = MatMul (s, x) }> }"""
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    compiled = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu", native="off")
    a, v = np.array([[1, 2, 0], [3, 1, 0], [0, 1, 1]], np.float32), np.ones(3, np.float32)
    feeds = {"a": a, "v": v, "n": np.array(2), "go": np.array(True)}
    separate_transposed_products(proto, "Sum")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    runtime_outputs = dict(zip(("y", "z"), session.run(None, feeds), strict=True))
    for results in (runtime_outputs, compiled.run(feeds)):
        np.testing.assert_array_equal(results["y"], a.T @ v)
        np.testing.assert_array_equal(results["z"], a.T @ a.T @ v)
