"""Attributes that refer to an attribute of a function, in functions and outside of functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import AttributeProto, helper, parser

import mdf_loop
from mdf_loop.cli import cli
from mdf_loop.errors import ModelError

X = np.array([[1.0, 2.0], [4.0, 0.0]], np.float32)
OPSET = 17


def softmax(axis: int) -> Any:
    e = np.exp(X - X.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def node_with_reference(
    op: str, attribute: str, kind: int, inputs: str = "x", to: str = "p"
) -> Any:
    node = helper.make_node(op, inputs.split(), ["y"])
    node.attribute.append(AttributeProto(name=attribute, ref_attr_name=to, type=kind))
    return node


def model(*nodes: Any, functions: Any = (), opset: int = OPSET) -> onnx.ModelProto:
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]> '
        "g (float[n, m] x) => (float y) { c = Constant <value = bool {1}> () y = Neg (x) }"
    )
    del proto.graph.node[1:]
    proto.graph.node.extend(nodes)
    proto.functions.extend(functions)
    return proto


def computed_y(proto: onnx.ModelProto) -> Any:
    return mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run({"x": X})["y"]


INT = AttributeProto.INT
AXIS = node_with_reference("Softmax", "axis", INT)


FLOAT = AttributeProto.FLOAT


@pytest.mark.parametrize(
    "node",
    [
        AXIS,
        node_with_reference("LeakyRelu", "alpha", FLOAT),
        node_with_reference("Elu", "alpha", FLOAT),
        node_with_reference("Concat", "axis", INT, "x x"),
        node_with_reference("Flatten", "axis", INT),
        node_with_reference("ReduceMean", "keepdims", INT),
        node_with_reference("Gemm", "alpha", FLOAT, "x x"),
    ],
    ids=lambda node: node.op_type,
)
def test_outside_of_functions_numbers_are_what_the_runtime_takes(node: Any) -> None:
    proto = model(node)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    x = X - 1.5
    ours = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run({"x": x})["y"]
    np.testing.assert_allclose(ours, session.run(None, {"x": x})[0], rtol=1e-6)


def test_a_constant_of_a_function_is_0_outside_of_it() -> None:
    constant = node_with_reference("Constant", "value_float", FLOAT, "")
    constant.output[0] = "k"
    assert (
        computed_y(model(constant, helper.make_node("Add", ["x", "k"], ["y"]))).tolist()
        == X.tolist()
    )


def test_check_has_a_note(tmp_path: Path) -> None:
    onnx.save(model(AXIS), tmp_path / "m.onnx")
    outcome = CliRunner().invoke(cli, ["check", str(tmp_path / "m.onnx")])
    assert outcome.output.splitlines()[1:] == [
        "note: nothing gives the attribute 'axis' of Softmax ($.graph.node['Softmax_1']) a value: "
        "it is 0, as in ONNX Runtime",
        "  at $.graphs[0]",
    ]


def test_references_to_missing_lists_are_omitted() -> None:
    # No axes attribute means all axes.
    alone = node_with_reference("ReduceSum", "axes", AttributeProto.INTS)
    assert computed_y(model(alone, opset=11)).tolist() == [[7]]


def test_in_a_branch_of_the_graph() -> None:
    y = helper.make_empty_tensor_value_info("y")
    branch = helper.make_graph([AXIS], "b", [], [y])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    np.testing.assert_allclose(computed_y(model(node)), softmax(0), rtol=1e-6)


@pytest.mark.parametrize(
    ("node", "where"),
    [
        (node_with_reference("Constant", "value", AttributeProto.TENSOR, ""), "Constant_1"),
        (node_with_reference("Constant", "value_floats", AttributeProto.FLOATS, ""), "Constant_1"),
    ],
)
def test_missing_attributes_without_default_are_refused(node: Any, where: str) -> None:
    with pytest.raises(ModelError) as caught:
        mdf_loop.from_onnx(model(node))
    (finding,) = caught.value.findings
    name = node.attribute[0].name
    assert finding.what == (
        f"attribute '{name}' of {node.op_type} is that of a function, 'p', but the node stands in none"
    )
    assert finding.where == f"$.graph.node['{where}']"


def function(default: int | None = None) -> onnx.FunctionProto:
    more = [] if default is None else [helper.make_attribute("p", default)]
    names = ["p"] if default is None else []
    imports = [helper.make_opsetid("", OPSET)]
    return helper.make_function("own", "F", ["x"], ["y"], [AXIS], imports, names, more)


@pytest.mark.parametrize(
    ("call", "default", "axis"),
    [
        ({"p": 0}, None, 0),
        ({"p": 0}, 1, 0),
        ({}, 0, 0),
        ({}, None, -1),
        ({"p": None}, 1, 0),
        ({"p": None}, None, 0),
    ],
)
def test_function_calls_with_and_without_the_attribute(
    call: dict[str, Any], default: Any, axis: int
) -> None:
    """Check calls with the attribute, without it, or (None) with a reference to a missing attribute."""
    node = helper.make_node("F", ["x"], ["y"], domain="own")
    for name, value in call.items():
        if value is None:
            node.attribute.append(AttributeProto(name=name, ref_attr_name="q", type=INT))
        else:
            node.attribute.append(helper.make_attribute(name, value))
    y = computed_y(model(node, functions=[function(default)]))
    np.testing.assert_allclose(y, softmax(axis), rtol=1e-6)


@pytest.mark.parametrize("field", ["attribute", "tensor"])
def test_undecodable_texts_are_refused(field: str) -> None:
    if field == "attribute":
        node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=1)
        node.attribute.append(AttributeProto(name="mode", type=AttributeProto.STRING, s=b"\xff"))
    else:
        tensor = onnx.TensorProto(
            data_type=onnx.TensorProto.STRING, dims=[1], string_data=[b"\xff"]
        )
        node = helper.make_node("Constant", [], ["y"], value=tensor)
    with pytest.raises(ModelError, match="a text in the file is not UTF-8"):
        mdf_loop.from_onnx(model(node))
