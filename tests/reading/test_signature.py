"""The order of a body's inputs and outputs: stated, or inferred where only one order is possible."""

from __future__ import annotations

from typing import Any

import pytest

from mdf_loop.document.document import Document
from mdf_loop.document.loading import graph_of
from mdf_loop.document.parts import Function, Graph, InputPort, Node, OutputPort, Parameter
from mdf_loop.errors import ArityError, SignatureError
from mdf_loop.reading.loop_forms import parse_loop
from mdf_loop.reading.signature import (
    Signature,
    find_end_ports,
    find_free_ports,
    find_signature,
    gives_truth,
)


def signature(
    body: dict[str, Any], n_carried: int, ports: list[str] | None = None, **more: Any
) -> Signature:
    args = {"M": 1, "body": {"net": body}, **more.get("args", {})}
    function = Function(id="f", function="onnx::Loop", args=args)
    node = Node(
        id="N",
        functions=[function],
        input_ports=[InputPort(id=name) for name in more.get("inputs", [])],
        output_ports=[OutputPort(id=f"o{k}", value=v) for k, v in enumerate(ports or ["f"])],
    )
    form = parse_loop(function, node, "$", Document(Graph(id="g"), "$"))
    return find_signature(form, node, n_carried)


def body(ports: list[str], ends: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": metadata,
        "nodes": {
            "n": {
                "input_ports": {name: {} for name in ports},
                "output_ports": {name: {"value": value} for name, value in ends.items()},
            }
        },
    }


def test_stated_signature() -> None:
    graph = body(["x"], {}, inputs=["i", "go", "x"], outputs=["go_out", "x", "row", "row"])
    assert signature(graph, 1) == Signature("i", "go", ("x",), "go_out", ("x",), ("row", "row"))


@pytest.mark.parametrize(
    ("metadata", "n_carried", "match"),
    [
        ({"inputs": ["i", "go"], "outputs": ["go"]}, 1, "2 \\+ 1 inputs .* names 2: \\['i', 'go'\\]"),
        ({"inputs": ["i", "go", "x"], "outputs": ["go"]}, 0, "needs 2 \\+ 0 inputs"),
        ({"inputs": ["i"], "outputs": ["go"]}, 0, "needs 2 \\+ 0 inputs"),
        ({"inputs": [], "outputs": ["go"]}, 0, "needs 2 \\+ 0 inputs"),
        ({"inputs": ["i", "go", "x"], "outputs": ["go"]}, 1, "at least 1 \\+ 1 outputs .* 1: \\['go'\\]"),
        ({"inputs": ["i", "go"], "outputs": []}, 0, "at least 1 \\+ 0 outputs"),
    ],
)  # fmt: skip
def test_wrong_input_and_output_counts_are_refused(
    metadata: dict[str, Any], n_carried: int, match: str
) -> None:
    with pytest.raises(ArityError, match=match):
        signature(body(["x"], {"go": True}, **metadata), n_carried)


TRUTH = {"go_out": "x > 1"}


@pytest.mark.parametrize(
    ("inputs", "outputs", "n_carried", "ports", "expected"),
    [
        (["x"], {"y": "x", **TRUTH}, 1, ["f"], (None, None, ("x",), "go_out", ("y",), ())),
        (["x"], {**TRUTH, "y": "x"}, 1, ["f[0]"], (None, None, ("x",), "go_out", ("y",), ())),
        ([], {"r": "1", "go": "True"}, 0, ["f"], (None, None, (), "go", (), ("r",))),
        ([], {"go": True}, 0, ["3"], (None, None, (), "go", (), ())),
        (["i", "x", "cond"], {"y": "x", **TRUTH}, 1, ["f"], ("i", "cond", ("x",), "go_out", ("y",), ())),
        (["keepgoing", "x", "iter"], {"y": "x", **TRUTH}, 1, ["f"], ("iter", "keepgoing", ("x",), "go_out", ("y",), ())),
        (["i", "go"], {"r": "i", "c": "i < 3"}, 0, ["f"], ("i", "go", (), "c", (), ("r",))),
    ],
)  # fmt: skip
def test_inferred(
    inputs: list[str], outputs: dict[str, Any], n_carried: int, ports: list[str], expected: Any
) -> None:
    assert signature(body(inputs, outputs), n_carried, ports) == Signature(*expected)


def test_parameters_of_the_node_are_no_inputs() -> None:
    graph = body(["x", "a", "alpha"], {"y": "x", **TRUTH})
    body_signature = signature(graph, 1, inputs=["a"], args={"alpha": 2})
    assert body_signature.carried_inputs == ("x",)


def test_a_port_with_a_default_is_no_input() -> None:
    graph = body(["x", "a"], {"y": "x", **TRUTH})
    graph["nodes"]["n"]["input_ports"]["a"] = {"default_value": 3}
    assert signature(graph, 1).carried_inputs == ("x",)


@pytest.mark.parametrize(
    ("inputs", "n_carried"),
    [(["x", "y"], 1), (["x", "y"], 2), (["i", "go", "x", "y"], 2), (["p", "q", "x"], 1), (["i", "x"], 1), ([], 1)],
)  # fmt: skip
def test_inputs_that_could_be_in_any_order(inputs: list[str], n_carried: int) -> None:
    with pytest.raises(SignatureError, match=r"metadata\.inputs is missing") as caught:
        signature(body(inputs, {"y": "x", **TRUTH}), n_carried)
    assert "write the order in the body graph" in str(caught.value)


@pytest.mark.parametrize(
    ("outputs", "ports"),
    [
        ({"y": "x", "z": "x", **TRUTH}, ["f"]),
        ({"y": "x", "z": "x", **TRUTH}, ["f[0]", "f[1]"]),
        ({"y": "x"}, ["f"]),
        (TRUTH, ["f"]),
        ({"y": "x > 0", **TRUTH}, ["f"]),
        ({"y": "x", "c": "d"}, ["f"]),
    ],
)
def test_outputs_that_could_be_in_any_order(outputs: dict[str, Any], ports: list[str]) -> None:
    with pytest.raises(SignatureError, match=r"metadata\.outputs is missing"):
        signature(body(["x"], outputs), 1, ports)


def test_open_and_end_ports() -> None:
    graph = graph_of(
        {
            "nodes": {
                "a": {"input_ports": {"x": {}, "y": {}}, "output_ports": {"p": {}, "q": {}}},
                "b": {"input_ports": {"x": {}, "z": {}}, "output_ports": {"r": {}}},
            },
            "edges": {
                "e": {"sender": "a", "sender_port": "p", "receiver": "b", "receiver_port": "z"}
            },
        },
        "$",
    )
    assert find_free_ports(graph) == ("x", "y")
    assert [(n.id, p.id) for n, p in find_end_ports(graph)] == [("a", "q"), ("b", "r")]


@pytest.mark.parametrize(
    ("value", "is_truth"),
    [
        (True, True),
        ("True", True),
        ("x < 3", True),
        ("not x", True),
        ("x > 1 and x < 3", True),
        ("x", False),
        ("3", False),
        (3, False),
        (None, False),
        ("x +", False),
        ("p", True),
        ("q", True),
        ("r", False),
        ("self", False),
        ("less", True),
        ("same", True),
        ("cast", True),
        ("cast_to_float", False),
        ("add", False),
    ],
)
def test_known_booleans_are_recognized(value: Any, is_truth: bool) -> None:
    node = Node(
        id="n",
        parameters=[
            Parameter(id="p", value=True),
            Parameter(id="q", value="p"),
            Parameter(id="r", value="x * 2"),
            Parameter(id="self", value="self"),
        ],
        functions=[
            Function(id="less", function="onnx::Less", args={"A": "x", "B": "x"}),
            Function(id="same", function="onnx::Identity", args={"input": "less"}),
            Function(id="cast", function="onnx::Cast", args={"input": "x", "to": 9}),
            Function(id="cast_to_float", function="onnx::Cast", args={"input": "x", "to": 1}),
            Function(id="add", function="onnx::Add", args={"A": "x", "B": "x"}),
        ],
    )
    assert gives_truth(node, value) is is_truth
