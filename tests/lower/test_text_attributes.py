"""Text attributes of `onnx::` functions, given as parameters: `mode: {value: constant}`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.reading.program import read_annotated

Node = dict[str, Any]


def node(
    function: str, args: Node, parameters: Node, x: Any = (1.0, 2.0, 3.0), **defaults: Any
) -> Node:
    """Return a node with `onnx::function` of its port x."""
    ports = {"x": {"default_value": x}} | {k: {"default_value": v} for k, v in defaults.items()}
    entries = {name: {"value": value} for name, value in parameters.items()}
    call = {"function": f"onnx::{function}", "args": args}
    return {
        "input_ports": ports,
        "parameters": entries | {"y": call},
        "output_ports": {"o": {"value": "y"}},
    }


def run(node: Node, **options: Any) -> Any:
    return mdf_loop.compile({"g": {"nodes": {"n": node}}}, device="cpu").run(**options)["n.o"]


PADDED = {"data": "x", "pads": "p"}
IMAGE = np.arange(4.0).reshape(1, 4, 1, 1)
CASES = {
    "by the attribute's name": (
        node("Pad", PADDED, {"p": [2, 0], "mode": "reflect"}),
        [3, 2, 1, 2, 3],
    ),
    "by another name": (
        node("Pad", {**PADDED, "mode": "how"}, {"p": [2, 0], "how": "edge"}),
        [1, 1, 1, 2, 3],
    ),
    "named in the arguments": (
        node("Pad", {**PADDED, "mode": "mode"}, {"p": [1, 0], "mode": "constant"}),
        [0, 1, 2, 3],
    ),
    "with a number of the same name": (
        node("Pad", PADDED, {"p": [2, 0], "reflect": 3.0, "mode": "reflect"}),
        [3, 2, 1, 2, 3],
    ),
    "with quotes": (node("Pad", PADDED, {"p": [2, 0], "mode": "'edge'"}), [1, 1, 1, 2, 3]),
    "what is no expression": (
        node("Einsum", {"Inputs": "x"}, {"equation": "ij->ji"}, [[1.0, 2.0], [3.0, 4.0]]),
        [[1, 3], [2, 4]],
    ),
    "a word for windows": (
        node(
            "MaxPool",
            {"X": "x"},
            {"auto_pad": "SAME_UPPER", "kernel_shape": [2]},
            [[[1.0, 3.0, 2.0]]],
        ),
        [[[3, 3, 2]]],
    ),
    "a word for blocks": (
        node("DepthToSpace", {"input": "x"}, {"blocksize": 2, "mode": "CRD"}, IMAGE),
        [[[[0, 1], [2, 3]]]],
    ),
}


@pytest.mark.parametrize(("node", "expected"), CASES.values(), ids=CASES)
def test_a_parameter_may_contain_the_text(node: Node, expected: Any) -> None:
    assert run(node).tolist() == expected


def test_several_texts() -> None:
    weights = {"W": np.full((1, 1, 1), 2.0), "R": np.zeros((1, 1, 1))}
    arguments = {"X": "x", **{name: name for name in weights}}
    attributes = {"hidden_size": 1, "activations": ["Relu"]}
    one = node("RNN", arguments, attributes, np.array([[[3.0]], [[-1.0]]]), **weights)
    one["output_ports"]["o"] = {"value": "y[0]"}
    assert run(one).reshape(-1).tolist() == [6, 0]


def test_text_attributes_in_bodies_sweeps_and_models_over_time() -> None:
    one = node("Pad", PADDED, {"p": [1, 0], "mode": "edge"})
    call = one["parameters"].pop("y")
    one["functions"] = {"y": call}
    assert run(one).tolist() == [1, 1, 2, 3]
    assert run(one, steps=2).tolist() == [[1, 1, 2, 3]] * 2
    assert run(one, sweep={"x": [[1.0, 2.0], [3.0, 4.0]]}).tolist() == [[1, 1, 2], [3, 3, 4]]
    step = {
        "metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "y"]},
        "nodes": {
            "n": {**one, "input_ports": {"x": {}}, "output_ports": {"y": {"value": "y[1:]"}}}
        },
    }
    args = {"M": 2, "v_initial": "([1.0, 2.0, 3.0],)", "body": {"step": step}}
    loop = {"functions": {"l": {"function": "onnx::Loop", "args": args}}}
    assert run({**loop, "output_ports": {"o": {"value": "l"}}}).tolist() == [1, 2, 3]


def test_text_attributes_cause_no_note() -> None:
    one = node("Pad", PADDED, {"p": [1, 0], "mode": "edge"})
    assert not read_annotated({"g": {"nodes": {"n": one}}}).notes


def test_other_unknown_names_are_refused() -> None:
    one = node("Pad", PADDED, {"p": [1, 0], "mode": "edge"})
    one["parameters"]["z"] = {"value": "mode + 1"}
    one["output_ports"]["q"] = {"value": "z"}
    with pytest.raises(LoopError, match="unknown name 'edge'"):
        run(one)
