"""A file omits optional outputs without readers, because a kernel computes each named output."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import onnx
import onnxruntime
import pytest
from msgspec.structs import replace
from onnx import defs

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.emit import to_onnx
from mdf_loop.ir import Input, Output, Program
from mdf_loop.ops.opset import schemas_by_opset
from mdf_loop.run.onnxruntime.session import Session

RNG = np.random.default_rng(3)


def _random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


SAMPLES = {
    "Dropout": (2, (_random(2, 3),), {}),
    "GRU": (2, (_random(4, 2, 3), _random(1, 15, 3), _random(1, 15, 5)), {"hidden_size": 5}),
    "LSTM": (3, (_random(4, 2, 3), _random(1, 20, 3), _random(1, 20, 5)), {"hidden_size": 5}),
    "LayerNormalization": (3, (_random(2, 3), _random(3)), {}),
    "MaxPool": (2, (_random(1, 2, 6, 6),), {"kernel_shape": (2, 2)}),
    "RNN": (2, (_random(4, 2, 3), _random(1, 5, 3), _random(1, 5, 5)), {"hidden_size": 5}),
    "Unique": (4, (np.array([3.0, 1.0, 3.0, 2.0], np.float32),), {}),
}
"""Number of outputs, operands and attributes of operators with optional outputs."""

OTHERS = {"BatchNormalization", "SoftmaxCrossEntropyLoss"}
"""Operators that are decomposed where they have several outputs."""


def _program(op_type: str) -> Program:
    count, arrays, attributes = SAMPLES[op_type]
    b = Builder()
    operands = [b.new(str(a.dtype), a.shape, f"x{k}") for k, a in enumerate(arrays)]
    with b.at("$.here", "op"):
        values = b.multi(op_type, *operands, output_count=count, **attributes)
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(values))
    return Program("p", tuple(map(Input, operands)), tuple(b.ops), outputs)


def _subsets(count: int):
    return chain.from_iterable(combinations(range(count), n) for n in range(1, count + 1))


def _is_optional(op_type: str, k: int) -> bool:
    (schema, *_) = schemas_by_opset(op_type).values()
    return schema.outputs[k].option == defs.OpSchema.FormalParameterOption.Optional


def test_all_operators_with_optional_outputs_have_a_sample() -> None:
    names = {schema.name for schema in defs.get_all_schemas() if not schema.domain}
    with_optional = {n for n in names if any(_is_optional(n, k) for k in range(_outputs(n)))}
    assert with_optional == SAMPLES.keys() | OTHERS


def _outputs(op_type: str) -> int:
    return (
        len(next(iter(schemas_by_opset(op_type).values())).outputs)
        if schemas_by_opset(op_type)
        else 0
    )


@pytest.mark.parametrize("op_type", SAMPLES)
def test_a_file_names_only_the_outputs_that_are_read_and_computes_the_same(op_type: str) -> None:
    whole = _program(op_type)
    feeds = {f"x{k}": array for k, array in enumerate(SAMPLES[op_type][1])}
    expected = _by_file(to_onnx(whole), feeds)
    for places in _subsets(len(whole.outputs)):
        program = replace(whole, outputs=tuple(whole.outputs[k] for k in places))
        proto = to_onnx(program)
        (node,) = (n for n in proto.graph.node if n.op_type == op_type)
        named_outputs = {k for k, name in enumerate(node.output) if name}
        required = {k for k in range(len(whole.outputs)) if not _is_optional(op_type, k)}
        assert named_outputs == required | set(places)
        assert node.output[-1]
        for arrays in (_by_file(proto, feeds), Session(program).run(feeds)):
            for k in places:
                # the last bits of ONNX Runtime's LSTM depend on the addresses of its arrays
                np.testing.assert_allclose(arrays[f"y{k}"], expected[f"y{k}"], 1e-5, 1e-6)


def _by_file(proto: onnx.ModelProto, feeds: dict) -> dict:
    onnx.checker.check_model(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


POOLS_IN_A_LOOP = """<ir_version: 8, opset_import: ["" : 17]>
f (int64 n, float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {
  t = Constant <value = bool {1}> ()
  y = Loop (n, t, x) <body = b (int64 i, bool c, float[1, 2, 6, 6] v)
      => (bool g, float[1, 2, 6, 6] w) {
    g = Identity (c)
    a = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (v)
    w = Tanh (a)
  }>
}"""


def test_a_file_names_no_unread_output_inside_of_a_loop() -> None:
    source = onnx.parser.parse_model(POOLS_IN_A_LOOP)
    model = mdf_loop.compile(mdf_loop.from_onnx(source), native="off")
    feeds = {"n": np.array(3), "x": _random(1, 2, 6, 6)}
    proto = model.to_onnx(feeds)
    assert [len(node.output) for node in _nodes(proto.graph) if node.op_type == "MaxPool"] == [1]
    (name,) = (output.name for output in proto.graph.output)
    assert _by_file(proto, feeds)[name].tobytes() == model.run(feeds)["y"].tobytes()


def _nodes(graph: onnx.GraphProto):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
