"""The weights of a body in a branch of an If are constants of the branch, which the runtime packs once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.emit import SessionModel
from mdf_loop.emit.weights import LARGE_CONSTANT_BYTES
from mdf_loop.pipeline import ONNXRUNTIME, prepare


def recurrence(
    units: int, dtype: str = "float"
) -> tuple[mdf_loop.CompiledModel, dict[str, np.ndarray]]:
    """Return the loop y[t+1] = tanh(y[t] @ W), which records all rows, and its inputs."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    f (int64 n, {dtype}[1, {units}] x) => ({dtype}[k, 1, {units}] y) {{
      yes = Constant <value = bool {{1}}> ()
      last, y = Loop (n, yes, x) <body = b (int64 i, bool c, {dtype}[1, {units}] h)
        => (bool g, {dtype}[1, {units}] u, {dtype}[1, {units}] r) {{
          g = Identity (c) a = MatMul (h, W) u = Tanh (a) r = Identity (u) }}> }}"""
    model = onnx.parser.parse_model(text)
    kind = np.float64 if dtype == "double" else np.float32
    weight = np.random.default_rng(1).normal(size=(units, units)) / np.sqrt(units)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight.astype(kind), "W"))
    compiled = mdf_loop.compile(mdf_loop.from_onnx(model), device="cpu", native="off")
    return compiled, {"n": np.array(5), "x": np.ones((1, units), kind)}


def branch(compiled: mdf_loop.CompiledModel) -> onnx.GraphProto | None:
    """Return the branch of the session's model that holds a Scan, if it has one."""
    proto = SessionModel(prepare(compiled.program, ONNXRUNTIME)).for_cpu
    for node in proto.graph.node:
        for attribute in node.attribute:
            if attribute.name == "then_branch":
                return attribute.g
    return None


@pytest.mark.parametrize(("dtype", "copies"), [("float", 1), ("double", 0)])
def test_a_branch_has_copies_of_the_packed_weights(dtype: str, copies: int) -> None:
    compiled, inputs = recurrence(8, dtype)
    results = compiled.run(inputs)
    graph = branch(compiled)
    assert graph is not None
    assert len(graph.initializer) == copies
    names = {tensor.name for tensor in graph.initializer}
    (scan,) = [node for node in graph.node if node.op_type == "Scan"]
    body = next(attribute.g for attribute in scan.attribute if attribute.name == "body")
    (product,) = [node for node in body.node if node.op_type == "MatMul"]
    assert (product.input[1] in names) == bool(copies)
    expected = compiled.run(inputs, engine="interpreter")
    np.testing.assert_allclose(results["y"], expected["y"], rtol=1e-5)


def test_a_loop_with_a_large_weight_is_no_scan() -> None:
    """Check a weight outside of the model, which only the main graph can have."""
    units = 512
    assert units * units * 4 >= LARGE_CONSTANT_BYTES
    compiled, inputs = recurrence(units)
    results = compiled.run(inputs)
    assert branch(compiled) is None
    expected = compiled.run(inputs, engine="interpreter")
    np.testing.assert_allclose(results["y"], expected["y"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n", [0, 3])
def test_no_iterations_use_the_loop_of_the_other_branch(n: int) -> None:
    compiled, inputs = recurrence(8)
    assert compiled.run({**inputs, "n": np.array(n)})["y"].shape == (n, 1, 8)
