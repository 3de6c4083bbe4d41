"""ONNX Runtime loses a cast back to the dtype of a graph's input if a body reads it."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import mdf_loop

node, info = helper.make_node, helper.make_tensor_value_info
FEEDS = {"M": np.array(2), "p": np.array([1, 2, 3], np.float32)}


def graph_of(nodes, inputs, outputs):
    return helper.make_graph(
        nodes, "g", [info(*value) for value in inputs], [info(*value) for value in outputs]
    )


def model(carrier: str, between: list[onnx.NodeProto]) -> onnx.ModelProto:
    """Return a model that casts the input `p` to float64 and back, for the body of a loop or for a branch."""
    vector = (TensorProto.FLOAT, [3])
    to_double = node("Cast", ["p"], ["d"], to=TensorProto.DOUBLE)
    back = node("Cast", ["e"], ["f"], to=TensorProto.FLOAT)
    casts = [to_double, *between, back, node("Identity", ["f"], ["q"])]
    numbers = [("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, [])]
    step = [node("Add", ["x", "q"], ["y"]), node("Identity", ["c"], ["go"])]
    outputs = [("go", TensorProto.BOOL, []), ("y", *vector)]
    loop = graph_of(step, [*numbers, ("x", *vector)], outputs)
    consumers = [node("Loop", ["M", "", "p"], ["z"], body=loop)]
    if carrier == "choice":
        then = graph_of([node("Add", ["p", "q"], ["y"])], [], [("y", *vector)])
        otherwise = graph_of([node("Neg", ["q"], ["w"])], [], [("w", *vector)])
        test = [node("Cast", ["M"], ["m"], to=TensorProto.BOOL)]
        consumers = [*test, node("If", ["m"], ["z"], then_branch=then, else_branch=otherwise)]
    inputs = [("M", TensorProto.INT64, []), ("p", *vector)]
    graph = graph_of([*casts, *consumers], inputs, [("z", *vector)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


BETWEEN = {
    "casts alone": [node("Identity", ["d"], ["e"])],
    "an operation that changes nothing": [
        node("Constant", [], ["one"], value_int=1),
        node("Expand", ["d", "one"], ["e"]),
    ],
}


@pytest.mark.parametrize("carrier", ["loop", "choice"])
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_a_cast_back_that_a_body_reads(carrier: str, between: list[onnx.NodeProto]) -> None:
    proto = model(carrier, between)
    expected = FEEDS["p"] * (3 if carrier == "loop" else 2)
    for native in ("off", "auto"):
        compiled = mdf_loop.compile(mdf_loop.from_onnx(proto), native=native)
        np.testing.assert_array_equal(compiled.run(FEEDS)["z"], expected)
        exported = onnxruntime.InferenceSession(compiled.to_onnx(FEEDS).SerializeToString())
        (z,) = exported.run(None, FEEDS)
        np.testing.assert_array_equal(z, expected)


def test_the_trap_still_exists() -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    proto = model("loop", BETWEEN["casts alone"])
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    with pytest.raises(Exception, match="Missing Input"):
        session.run(None, FEEDS, onnxruntime.RunOptions())
