"""Saved files are standard ONNX, which the checker accepts and other runtimes execute."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.demo import DEMOS


@pytest.mark.parametrize("demo", DEMOS, ids=lambda d: d.name)
def test_a_saved_file_is_standard_and_computes_equal_numbers(tmp_path, demo) -> None:
    compiled = mdf_loop.compile(demo.path, device="cpu")
    results = compiled.run(demo.inputs)
    compiled.save(tmp_path / "m.onnx", demo.inputs)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feeds = {name: np.asarray(value, np.float64) for name, value in demo.inputs.items()}
    arrays = session.run(None, feeds)
    names = [output.name for output in session.get_outputs()]
    assert names == list(results)
    for name, array in zip(names, arrays, strict=True):
        np.testing.assert_array_equal(array, results[name])


def test_no_body_of_a_saved_file_returns_an_input_itself(tmp_path) -> None:
    demo = DEMOS[1]
    model = mdf_loop.compile(demo.path).save(tmp_path / "m.onnx", demo.inputs)
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    body = loop.attribute[0].g
    assert {o.name for o in body.output}.isdisjoint({i.name for i in body.input})
    with pytest.raises(mdf_loop.LoopError, match=r"does not end in \.onnx"):
        mdf_loop.compile(demo.path).save(tmp_path / "m.txt")
    with pytest.raises(mdf_loop.LoopError, match="there is no folder"):
        mdf_loop.compile(demo.path).save(tmp_path / "none" / "m.onnx")


SCALED = {
    "g": {
        "nodes": {
            "A": {
                "functions": {
                    "f": {
                        "function": "onnx::Loop",
                        "args": {
                            "M": 3,
                            "v_initial": "(r0,)",
                            "body": {
                                "b": {
                                    "metadata": {"inputs": ["i", "c", "r"], "outputs": ["c", "y"]},
                                    "nodes": {
                                        "s": {
                                            "input_ports": {"r": {}, "w": {}},
                                            "output_ports": {
                                                "y": {"value": "0.1 * (r @ w) + (r / 0.3) @ w"}
                                            },
                                        }
                                    },
                                }
                            },
                        },
                    }
                },
                "parameters": {
                    "r0": {"value": [0.1, 0.2, 0.3]},
                    "w": {"value": [[0.1, 0.7, -0.2], [0.3, 0.1, 0.9], [-0.4, 0.6, 0.2]]},
                },
                "output_ports": {"y": {"value": "f"}},
            }
        },
        "edges": {},
    }
}


def test_a_float64_scale_next_to_a_matmul_stays_float64(tmp_path) -> None:
    w = np.array(SCALED["g"]["nodes"]["A"]["parameters"]["w"]["value"])
    r = np.array([0.1, 0.2, 0.3])
    for _ in range(3):
        r = 0.1 * (r @ w) + (r / 0.3) @ w
    compiled = mdf_loop.compile(SCALED, device="cpu")
    np.testing.assert_allclose(compiled.run()["y"], r, rtol=1e-14)
    model = compiled.save(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {})[0], r, rtol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "x"),
    [
        ("double", np.array([3.0, 7.0, 49.0])),
        ("float", np.array([3.0, 41.0, 49.0], np.float32)),
        ("int64", np.array([3, 1, 7])),
        ("int32", np.array([3, 1, 7], np.int32)),
    ],
)
def test_a_reciprocal_is_rounded_before_it_is_multiplied(dtype: str, x: np.ndarray) -> None:
    """Check a product with a reciprocal in the main graph and in the body of a loop."""
    one = "1" if dtype.startswith("int") else "1.0"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        f ({dtype}[3] x) => ({dtype}[3] y, {dtype}[3] last) {{
            one = Constant <value = {dtype} {{{one}}}> () q = Div (one, x) y = Mul (q, x)
            M = Constant <value = int64 {{1}}> () go = Constant <value = bool {{1}}> ()
            last = Loop (M, go, x) <body = b (int64 i, bool c, {dtype}[3] v) => (bool on, {dtype}[3] w) {{
                on = Identity (c) p = Div (one, v) w = Mul (x, p) }}> }}""")
    compiled = mdf_loop.compile(mdf_loop.from_onnx(model), native="off")
    session = onnxruntime.InferenceSession(compiled.to_onnx({"x": x}).SerializeToString())
    y, last = session.run(["y", "last"], {"x": x})
    one_array = np.ones((), x.dtype)
    quotient = one_array // x if dtype.startswith("int") else one_array / x
    np.testing.assert_array_equal(y, quotient * x)
    for ours, plain in zip(compiled.run({"x": x}).values(), (y, last), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_an_output_of_unknown_rank_has_the_shape_that_the_model_declares():
    """Check an exported model, because ONNX's checker requires a shape of every output."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, int64[m] shape) => (float[2, k] y) { y = Reshape(x, shape) }
    """
    model = onnx.parser.parse_model(text)
    proto = mdf_loop.compile(mdf_loop.from_onnx(model), device="cpu").to_onnx()
    onnx.checker.check_model(proto, full_check=True)
    (output,) = proto.graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [2, 0]
