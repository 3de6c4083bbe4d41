"""Sequences in sweeps and gradients: supported if their members are known, else refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import mdf_loop
from mdf_loop.errors import LoopError

X = np.array([[1.0, 2.0], [2.0, 4.0]], np.float32)
W = np.array([2.0, 3.0], np.float32)

LOOP = (
    "y = Loop (two, , {start}) <body = b (int64 i, bool go, float[2] a) => (bool g, float[2] a2) "
    "{{ g = Identity (go)  m = SequenceAt (s, i)  a2 = Mul (a, m) }}>"
)
CASES: dict[str, tuple[str, list[list[float]], list[float]]] = {
    "of other values": (
        "z = Neg (w)  s = SequenceConstruct (w, z)  m = SequenceAt (s, one)  y = Mul (x, m)",
        [[-2, -6], [-4, -12]],
        [-2, -3],
    ),
    "of other values, in a loop": (
        "s = SequenceConstruct (w, w)  " + LOOP.format(start="x"),
        [[4, 18], [8, 36]],
        [4, 9],
    ),
    "of what is swept": ("z = Neg (x)  s = SequenceConstruct (x, z)  y = SequenceAt (s, one)",
        [[-1, -2], [-2, -4]], [-1, -1]),
    "of what is swept, in a loop": (
        "z = Neg (x)  s = SequenceConstruct (x, z)  " + LOOP.format(start="w"),
        [[-2, -12], [-8, -48]],
        [-4, -12],
    ),
    "from the end": ("z = Neg (x)  s = SequenceConstruct (z, x)  last = Neg (one)  "
        "y = SequenceAt (s, last)", [[1, 2], [2, 4]], [1, 1]),
}  # fmt: skip


def compile_graph(nodes: str, more: str = "", result: str = "float[2] y") -> Any:
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    text = (
        f"{head} g (float[2] x, float[2] w{more}) => ({result}) {{ "
        f"one = Constant <value_int = 1> ()  two = Constant <value_int = 2> ()  {nodes} }}"
    )
    return mdf_loop.compile(mdf_loop.from_onnx(parser.parse_model(text)), device="cpu")


@pytest.mark.parametrize(("nodes", "members", "gradient"), CASES.values(), ids=CASES)
def test_known_members_are_swept_and_differentiated(
    nodes: str, members: list[list[float]], gradient: list[float]
) -> None:
    model = compile_graph(nodes)
    assert model.run({"w": W}, sweep={"x": X})["y"].tolist() == members
    for engine in ("onnxruntime", "interpreter"):
        rows = [model.run({"x": x, "w": W}, engine=engine)["y"].tolist() for x in X]
        assert rows == members
    gradients = model.gradient({"y": "sum"}, ["x"], inputs={"x": X[0], "w": W})
    assert gradients.arrays["x"].tolist() == gradient


def test_a_computed_index_may_be_out_of_range() -> None:
    model = compile_graph("s = SequenceConstruct (x, w)  y = SequenceAt (s, k)", ", int64 k")
    inputs = {"x": X[0], "w": W}
    assert model.run({**inputs, "k": np.array(-2)})["y"].tolist() == [1, 2]
    for place in (2, -3):
        with pytest.raises(LoopError):
            model.run({**inputs, "k": np.array(place)})


REFUSED = {
    "carried": "e = SequenceEmpty <dtype = 1> ()  s = Loop (two, , e) <body = b (int64 i, bool go, "
    "seq(float[q]) a) => (bool g, seq(float[q]) a2) { g = Identity (go)  a2 = SequenceInsert (a, x) }>  "
    "y = ConcatFromSequence <axis = 0> (s)",
    "chosen": "s = If (c) <then_branch = t () => (seq(float[q]) r) { r = SequenceConstruct (x, x) }, "
    "else_branch = e () => (seq(float[q]) r2) { r2 = SequenceConstruct (x) }>  "
    "y = ConcatFromSequence <axis = 0> (s)",
}


@pytest.mark.parametrize("nodes", REFUSED.values(), ids=REFUSED)
def test_the_error_names_the_sequence(nodes: str) -> None:
    model = compile_graph(nodes, ", bool c", "float[k] y")
    inputs = {"w": W, "c": np.array(True)}
    with pytest.raises(LoopError, match="cannot be computed for many values at once") as caught:
        model.run(inputs, sweep={"x": X})
    assert "run the values one after the other" in str(caught.value)
    with pytest.raises(LoopError, match=r"sequence|no shape is known"):
        model.gradient({"y": "sum"}, ["x"], inputs={"x": X[0], **inputs})
