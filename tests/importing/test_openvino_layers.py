"""Each layer type of OpenVINO, compared with NumPy code after the specification.

The same layers were compared with OpenVINO 2026.4 when the tests were written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modeci_mdf.mdf import Model

import mdf_loop
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.importing.openvino import read_ir
from tests.importing.ir_files import Net, Value

DICE = np.random.default_rng(7)
Given = list[Any]
Expected = Callable[..., Any]


class Fixed:
    """Input that is a constant of the file instead of an input of the model."""

    def __init__(self, value: Any, dtype: str = "int64") -> None:
        self.array = np.asarray(value, dtype)


ROOTS = {
    "inside_sqrt": lambda v: np.sqrt(v + np.float32(0.5)),
    "outside_sqrt": lambda v: np.sqrt(v) + np.float32(0.5),
}
"""What MVN divides by, for a variance."""


def floats(*shape: int) -> np.ndarray:
    return DICE.normal(size=shape).astype(np.float32)


def wholes(*shape: int, dtype: str = "int64") -> np.ndarray:
    return DICE.integers(-7, 8, shape).astype(dtype)


def truths(*shape: int) -> np.ndarray:
    return DICE.integers(0, 2, shape).astype(bool)


def not_zero(*shape: int, dtype: str = "int64") -> np.ndarray:
    return (DICE.integers(1, 6, shape) * DICE.choice([-1, 1], shape)).astype(dtype)


def run(
    folder: Path,
    kind: str,
    operands: Given,
    about: dict[str, str],
    outputs: list[np.ndarray],
    opset: str = "opset1",
    open_shapes: bool = False,
) -> list[np.ndarray]:
    """Return the outputs of one layer, whose output ports have the types in `outputs`."""
    net = Net()
    values: list[Value] = []
    inputs: dict[str, np.ndarray] = {}
    for k, one in enumerate(operands):
        if isinstance(one, Fixed):
            values.append(net.const(one.array))
            continue
        shape = ("?",) * one.ndim if open_shapes else one.shape
        values.append(net.parameter(f"x{k}", str(one.dtype), shape))
        inputs[f"x{k}"] = one
    types: list[tuple[str, tuple[object, ...]]] = [(str(o.dtype), o.shape) for o in outputs]
    for value in net.layer(kind, values, types, about, opset=opset):
        net.result(value)
    compiled = mdf_loop.compile(Model.from_dict(read_ir(net.save(folder))), device="cpu")
    return list(compiled.run(inputs).values())


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


erf = np.vectorize(math.erf)
PAIR = [floats(2, 3), floats(3)]
WHOLE = [wholes(4, 5), not_zero(5)]
X = floats(2, 3, 4)
SMALL = np.clip(floats(3, 4) / 3, -0.9, 0.9).astype(np.float32)
BIG = (np.abs(floats(3, 4)) + 1.1).astype(np.float32)

ROWS: list[tuple[str, Given, dict[str, str], Expected]] = [
    ("Add", PAIR, {"auto_broadcast": "numpy"}, np.add),
    ("Add", [wholes(3), wholes(3)], {"auto_broadcast": "none"}, np.add),
    ("Add", [floats(3).astype("float64"), floats(3).astype("float64")], {}, np.add),
    ("Multiply", [floats(3).astype("float16"), floats(3).astype("float16")], {}, np.multiply),
    ("Subtract", PAIR, {}, np.subtract),
    ("Multiply", WHOLE, {}, np.multiply),
    ("Maximum", PAIR, {}, np.maximum),
    ("Minimum", WHOLE, {}, np.minimum),
    ("Power", [BIG, floats(4)], {}, np.power),
    ("SquaredDifference", PAIR, {}, lambda a, b: (a - b) ** 2),
    ("Divide", PAIR, {}, np.divide),
    ("Divide", WHOLE, {}, np.floor_divide),
    ("Divide", WHOLE, {"m_pythondiv": "true"}, np.floor_divide),
    ("Divide", WHOLE, {"m_pythondiv": "false"}, lambda a, b: np.trunc(a / b).astype("int64")),
    ("Divide", [wholes(4, 5, dtype="int32"), not_zero(5, dtype="int32")], {}, np.floor_divide),
    ("FloorMod", WHOLE, {}, np.mod),
    ("FloorMod", [9 * floats(4, 5), floats(5)], {}, np.mod),
    ("Mod", WHOLE, {}, np.fmod),
    ("Mod", [9 * floats(4, 5), floats(5)], {}, np.fmod),
    ("Equal", WHOLE, {}, np.equal),
    ("NotEqual", WHOLE, {}, np.not_equal),
    ("Less", PAIR, {}, np.less),
    ("LessEqual", WHOLE, {}, np.less_equal),
    ("Greater", PAIR, {}, np.greater),
    ("GreaterEqual", WHOLE, {}, np.greater_equal),
    ("LogicalAnd", [truths(3, 4), truths(4)], {}, np.logical_and),
    ("LogicalOr", [truths(3, 4), truths(4)], {}, np.logical_or),
    ("LogicalXor", [truths(3, 4), truths(4)], {}, np.logical_xor),
    ("LogicalNot", [truths(5)], {}, np.logical_not),
    ("Select", [truths(3, 4), floats(3, 4), floats(4)], {}, np.where),
    *[
        (kind, [SMALL], {}, function)
        for kind, function in {
            **{"Abs": np.abs, "Negative": np.negative, "Exp": np.exp, "Sign": np.sign},
            **{"Floor": np.floor, "Ceiling": np.ceil, "Sin": np.sin, "Cos": np.cos},
            **{"Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan},
            **{"Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh},
            **{"Atanh": np.arctanh, "Erf": erf, "Sigmoid": sigmoid},
            **{"ReLU": lambda x: np.maximum(x, 0), "SoftSign": lambda x: x / (1 + np.abs(x))},
            **{"SoftPlus": lambda x: np.log1p(np.exp(x)), "HSigmoid": lambda x: (x + 3) / 6},
            **{"HSwish": lambda x: x * (x + 3) / 6, "Swish": lambda x: x * sigmoid(x)},
            **{"Mish": lambda x: x * np.tanh(np.log1p(np.exp(x)))},
        }.items()
    ],
    ("Identity", [X], {}, lambda x: x),
    ("IsNaN", [np.array([1, np.nan, np.inf], "float32")], {}, np.isnan),
    ("IsInf", [np.array([1, np.nan, -np.inf], "float32")], {}, np.isinf),
    ("IsFinite", [np.array([1, np.nan, -np.inf], "float32")], {}, np.isfinite),
    ("Reverse", [X, Fixed([0, 2])], {"mode": "index"}, lambda x: x[::-1, :, ::-1]),
    ("Reverse", [X, Fixed([0, 1, 0], "bool")], {"mode": "mask"}, lambda x: x[:, ::-1]),
    (
        "DepthToSpace",
        [floats(1, 4, 1, 1)],
        {"mode": "blocks_first", "block_size": "2"},
        lambda x: x.reshape(1, 1, 2, 2),
    ),
    ("Sqrt", [BIG], {}, np.sqrt),
    ("Log", [BIG], {}, np.log),
    ("Acosh", [BIG], {}, np.arccosh),
    ("Round", [np.array([0.5, 1.5, -2.5, 3.2], "float32")], {"mode": "half_to_even"}, np.round),
    (
        "Round",
        [np.array([0.5, 1.5, -2.5, 3.2, 0.49999997], "float32")],
        {"mode": "half_away_from_zero"},
        lambda x: np.array([1, 2, -3, 3, 0], "float32"),
    ),
    ("Clamp", [floats(9)], {"min": "-0.5", "max": "0.7"}, lambda x: np.clip(x, -0.5, 0.7)),
    ("Clamp", [wholes(20)], {"min": "-2.5", "max": "3.7"}, lambda x: np.clip(x, -2, 3)),
    ("Clamp", [wholes(9)], {"min": "-inf", "max": "1e30"}, lambda x: x),
    ("Elu", [floats(9)], {"alpha": "0.7"}, lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    (
        "PReLU",
        [X, Fixed([1, 2, 3], "float32")],
        {},
        lambda x: np.where(x > 0, x, x * np.array([1, 2, 3])[:, None]),
    ),
    (
        "PReLU",
        [floats(2, 3), Fixed([1, 2, 3], "float32")],
        {},
        lambda x: np.where(x > 0, x, x * np.array([1, 2, 3])),
    ),
    (
        "HardSigmoid",
        [4 * floats(9), Fixed(0.2, "float32"), Fixed(0.5, "float32")],
        {},
        lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    ),
    (
        "Selu",
        [floats(9), Fixed(1.6, "float32"), Fixed(1.05, "float32")],
        {},
        lambda x: 1.05 * np.where(x > 0, x, 1.6 * np.expm1(x)),
    ),
    ("Gelu", [floats(9)], {"approximation_mode": "ERF"}, lambda x: x * (1 + erf(x / 2**0.5)) / 2),
    (
        "Gelu",
        [floats(9)],
        {"approximation_mode": "TANH"},
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("SoftMax", [X], {"axis": "1"}, lambda x: softmax(x, 1)),
    ("SoftMax", [X], {"axis": "-2"}, lambda x: softmax(x, 1)),
    ("LogSoftmax", [X], {"axis": "-1"}, lambda x: np.log(softmax(x, 2))),
    ("Convert", [X], {"destination_type": "f64"}, lambda x: x.astype("float64")),
    ("Convert", [3 * X], {"destination_type": "i32"}, lambda x: x.astype("int32")),
    ("Convert", [wholes(9)], {"destination_type": "boolean"}, lambda x: x.astype(bool)),
    ("ConvertLike", [wholes(9), X], {}, lambda x, y: x.astype("float32")),
    # --- reductions
    *[
        (
            kind,
            [X, Fixed([1, -1])],
            {"keep_dims": keep},
            lambda x, f=function, k=keep: f(x, axis=(1, 2), keepdims=k == "true"),
        )
        for keep in ("true", "false")
        for kind, function in {
            **{"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max},
            **{"ReduceMin": np.min, "ReduceProd": np.prod},
        }.items()
    ],
    ("ReduceSum", [X, Fixed([])], {"keep_dims": "false"}, lambda x: x),
    *[
        (
            kind,
            [X, np.array([1, -1])],
            {"keep_dims": "true"},
            lambda x, _, f=function: f(x, axis=(1, 2), keepdims=True),
        )
        for kind, function in {
            **{"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max},
            **{"ReduceMin": np.min, "ReduceProd": np.prod},
        }.items()
    ],
    *[
        (
            "MVN",
            [X, Fixed([1, -1])],
            {"normalize_variance": scaled, "eps": "0.5", "eps_mode": mode},
            lambda x, s=scaled, m=mode: (
                (x - x.mean((1, 2), keepdims=True))
                / (1 if s == "false" else ROOTS[m](x.var((1, 2), keepdims=True)))
            ).astype("float32"),
        )
        for scaled, mode in (
            *(("true", "inside_sqrt"), ("true", "outside_sqrt"), ("false", "inside_sqrt")),
        )
    ],
    ("ReduceL1", [X, Fixed(0)], {}, lambda x: np.abs(x).sum(0)),
    ("ReduceL2", [X, Fixed(0)], {}, lambda x: np.sqrt((x * x).sum(0))),
    ("ReduceLogicalAnd", [truths(4, 3), Fixed([1])], {}, lambda x: x.all(1)),
    (
        "ReduceLogicalOr",
        [truths(4, 3), Fixed([1])],
        {"keep_dims": "true"},
        lambda x: x.any(1, keepdims=True),
    ),
    ("CumSum", [X, Fixed(1)], {}, lambda x: x.cumsum(1)),
    (
        "CumSum",
        [X, Fixed(-1)],
        {"reverse": "true", "exclusive": "true"},
        lambda x: x[..., ::-1].cumsum(2)[..., ::-1] - x,
    ),
    (
        "TopK",
        [X, Fixed(2)],
        {"axis": "2", "mode": "max", "sort": "value", "index_element_type": "i64"},
        lambda x: [-np.sort(-x, 2)[..., :2], np.argsort(-x, 2)[..., :2]],
    ),
    (
        "TopK",
        [X, Fixed([2])],
        {"axis": "-1", "mode": "min", "sort": "index"},
        lambda x: [
            np.take_along_axis(x, np.sort(np.argsort(x, 2)[..., :2], 2), 2),
            np.sort(np.argsort(x, 2)[..., :2], 2).astype("int32"),
        ],
    ),
    (
        "OneHot",
        [np.array([[0, 3, 5], [1, 2, -1]]), Fixed(4), Fixed(1.5, "float32"), Fixed(-1, "float32")],
        {"axis": "-1"},
        lambda i: np.where(i[..., None] == np.arange(4), np.float32(1.5), np.float32(-1)),
    ),
    (
        "OneHot",
        [np.array([[0, 3, 1]], "int32"), Fixed(4), Fixed(1), Fixed(0)],
        {"axis": "1"},
        lambda i: (i[:, None, :] == np.arange(4)[:, None]).astype("int64"),
    ),
    ("Range", [np.array(1), np.array(9), np.array(3)], {"output_type": "i64"}, np.arange),
    (
        "Range",
        [np.array(0, "int32"), np.array(3, "int32"), np.array(1, "int32")],
        {"output_type": "f32"},
        lambda a, b, c: np.arange(3, dtype="float32"),
    ),
    # --- shapes
    ("MatMul", [floats(2, 3), floats(4, 3)], {"transpose_b": "true"}, lambda a, b: a @ b.T),
    (
        "MatMul",
        [floats(5, 3, 2), floats(4, 3)],
        {"transpose_a": "true", "transpose_b": "true"},
        lambda a, b: a.swapaxes(1, 2) @ b.T,
    ),
    ("MatMul", [floats(3), floats(3, 4)], {"transpose_a": "true"}, np.matmul),
    ("Einsum", [floats(2, 3), floats(3, 4)], {"equation": "ij,jk->ik"}, np.matmul),
    ("Concat", [floats(2, 3), floats(2, 2)], {"axis": "-1"}, lambda *x: np.concatenate(x, 1)),
    ("Gather", [X, np.array([[1, -1]]), Fixed(1)], {"batch_dims": "0"}, lambda x, i: x[:, i]),
    ("Gather", [X, Fixed(1), Fixed([-1], "int32")], {}, lambda x: x[..., 1]),
    (
        "GatherElements",
        [floats(2, 5), wholes(2, 3) % 5],
        {"axis": "1"},
        lambda x, i: np.take_along_axis(x, i, 1),
    ),
    ("GatherND", [X, np.array([[1, 2], [0, 1]])], {}, lambda x, i: x[i[:, 0], i[:, 1]]),
    (
        "ScatterNDUpdate",
        [np.zeros((3, 2), "float32"), np.array([[2], [0]]), floats(2, 2)],
        {},
        lambda x, i, u: np.stack([u[1], x[1], u[0]]),
    ),
    (
        "ScatterElementsUpdate",
        [np.zeros((1, 3), "float32"), np.array([[2]]), floats(1, 1), Fixed(1)],
        {},
        lambda x, i, u: np.array([[0, 0, u[0, 0]]], "float32"),
    ),
    ("Reshape", [X, Fixed([0, -1])], {"special_zero": "true"}, lambda x: x.reshape(2, -1)),
    ("Reshape", [X, np.array([4, -1])], {"special_zero": "true"}, lambda x, s: x.reshape(4, 6)),
    ("Reshape", [X[:0], Fixed([0, 3])], {"special_zero": "false"}, lambda x: x.reshape(0, 3)),
    ("Squeeze", [floats(1, 3, 1), Fixed([0, -1])], {}, lambda x: x[0, :, 0]),
    ("Squeeze", [floats(1, 3, 1)], {}, np.squeeze),
    ("Squeeze", [floats(1, 3), Fixed(0, "int32")], {}, lambda x: x[0]),
    ("Unsqueeze", [floats(3, 4), Fixed([0, 2], "int32")], {}, lambda x: x[None, :, None]),
    ("Transpose", [X, Fixed([2, 0, 1])], {}, lambda x: x.transpose(2, 0, 1)),
    ("Transpose", [X, Fixed([])], {}, np.transpose),
    ("ShapeOf", [X], {}, lambda x: np.array(x.shape)),
    ("ShapeOf", [X], {"output_type": "i32"}, lambda x: np.array(x.shape, "int32")),
    (
        "Broadcast",
        [floats(3, 1), Fixed([2, 3, 4])],
        {"mode": "numpy"},
        lambda x: np.broadcast_to(x, (2, 3, 4)),
    ),
    (
        "Broadcast",
        [floats(2, 1, 4), Fixed([3, 1])],
        {"mode": "bidirectional"},
        lambda x: np.broadcast_to(x, (2, 3, 4)),
    ),
    (
        "Broadcast",
        [floats(3), Fixed([2, 3, 4]), Fixed([1])],
        {"mode": "explicit"},
        lambda x: np.broadcast_to(x[:, None], (2, 3, 4)),
    ),
    ("Tile", [floats(2, 2), Fixed([2, 3])], {}, lambda x: np.tile(x, (2, 3))),
    ("Tile", [floats(2, 2), Fixed([3])], {}, lambda x: np.tile(x, 3)),
    ("Tile", [floats(2, 2), Fixed([2, 1, 3])], {}, lambda x: np.tile(x, (2, 1, 3))),
    (
        "Pad",
        [floats(4, 3), Fixed([1, 0]), Fixed([2, 1]), Fixed(9, "float32")],
        {"pad_mode": "constant"},
        lambda x: np.pad(x, [(1, 2), (0, 1)], constant_values=9),
    ),
    (
        "Pad",
        [floats(4, 3), Fixed([1, 0]), Fixed([2, 1])],
        {"pad_mode": "edge"},
        lambda x: np.pad(x, [(1, 2), (0, 1)], mode="edge"),
    ),
    (
        "Pad",
        [floats(4, 3), Fixed([1, 0]), Fixed([2, 1])],
        {"pad_mode": "reflect"},
        lambda x: np.pad(x, [(1, 2), (0, 1)], mode="reflect"),
    ),
    ("Split", [floats(2, 6), Fixed(1)], {"num_splits": "3"}, lambda x: np.split(x, 3, 1)),
    (
        "VariadicSplit",
        [floats(2, 6), Fixed(1), Fixed([1, -1, 2])],
        {},
        lambda x: [x[:, :1], x[:, 1:4], x[:, 4:]],
    ),
    ("VariadicSplit", [floats(3, 2), Fixed(0), Fixed([1, 2])], {}, lambda x: [x[:1], x[1:]]),
    (
        "Slice",
        [X, Fixed([1, 4]), Fixed([3, -6]), Fixed([1, -2]), Fixed([0, 2])],
        {},
        lambda x: x[1:3, :, 4::-2],
    ),
    ("Slice", [X, np.array([1]), Fixed([9]), Fixed([1])], {}, lambda x, s: x[1:]),
    (
        "ReverseSequence",
        [floats(2, 3), np.array([2, 3])],
        {"batch_axis": "0", "seq_axis": "1"},
        lambda x, n: np.array([[x[0, 1], x[0, 0], x[0, 2]], x[1, ::-1]]),
    ),
]


def as_list(arrays: Any, like: Any) -> list[np.ndarray]:
    parts = arrays if isinstance(arrays, list) else [arrays]
    return [np.asarray(part) for part in parts]


@pytest.mark.parametrize("open_shapes", [False, True], ids=["", "open"])
@pytest.mark.parametrize("row", ROWS, ids=[f"{k}-{row[0]}" for k, row in enumerate(ROWS)])
def test_a_layer_equals_its_specification(
    tmp_path: Path, row: tuple[str, Given, dict[str, str], Expected], open_shapes: bool
) -> None:
    kind, operands, kind_attributes, function = row
    arrays = [one for one in operands if not isinstance(one, Fixed)]
    floating = [one.dtype for one in arrays if one.dtype.kind == "f"]
    expected = [
        part.astype(floating[0]) if part.dtype == "float64" and kind != "Convert" else part
        for part in as_list(function(*arrays), arrays)
    ]
    results = run(tmp_path, kind, operands, kind_attributes, expected, open_shapes=open_shapes)
    for result, array in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(result, array, rtol=2e-5, atol=2e-6)


# --- StridedSlice -------------------------------------------------------------------------------

BLOCK = floats(4, 3, 5)
CUTS: list[tuple[str, list[list[int]], dict[str, str], Callable[[np.ndarray], np.ndarray]]] = [
    ("begins", [[1, 0], [3, 2], [1, 1]], {"begin_mask": "0,1"}, lambda x: x[1:3, :2]),
    (
        "backwards, one element",
        [[0, -1, 0], [0, 0, 0], [1, 1, -1]],
        {"begin_mask": "1,0,1", "end_mask": "1,0,1", "shrink_axis_mask": "0,1,0"},
        lambda x: x[:, -1, ::-1],
    ),
    (
        "ellipsis and a new axis",
        [[0, 0, 1], [0, 0, 2], [1, 1, 1]],
        {"ellipsis_mask": "1", "new_axis_mask": "0,1"},
        lambda x: x[..., None, 1:2],
    ),
    ("two elements", [[1, 2], [2, 3], [1, 1]], {"shrink_axis_mask": "1,1"}, lambda x: x[1, 2]),
    (
        "all of them",
        [[0, 0, 0, 1], [0, 0, 0, 3], [1, 1, 1, 1]],
        {"new_axis_mask": "1", "begin_mask": "0,1", "end_mask": "0,1", "ellipsis_mask": "0,0,1"},
        lambda x: x[None, :, ..., 1:3],
    ),
    ("without strides", [[1], [-1]], {}, lambda x: x[1:-1]),
]


@pytest.mark.parametrize("known", [True, False], ids=["constant", "at run time"])
@pytest.mark.parametrize(
    ("ends", "masks", "cut"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS]
)
def test_strided_slice(
    tmp_path: Path,
    ends: list[list[int]],
    masks: dict[str, str],
    cut: Callable[[np.ndarray], np.ndarray],
    known: bool,
) -> None:
    attributes = {"begin_mask": "", "end_mask": "", **masks}
    bounds = [Fixed(end) if known else np.array(end) for end in ends[:2]]
    bounds += [Fixed(end) for end in ends[2:]]
    expected = cut(BLOCK)
    (result,) = run(tmp_path, "StridedSlice", [BLOCK, *bounds], attributes, [expected])
    np.testing.assert_array_equal(result, expected)


# --- cells --------------------------------------------------------------------------------------

INPUT, STATE, CELL = floats(2, 3), floats(2, 4), floats(2, 4)


def weights(gates: int, biases: int) -> list[np.ndarray]:
    return [floats(4 * gates, 3), floats(4 * gates, 4), floats(4 * biases)]


@pytest.mark.parametrize("clip", [0, 0.3])
def test_lstm_cell(tmp_path: Path, clip: float) -> None:
    w, r, b = weights(4, 4)

    def bound(x: np.ndarray) -> np.ndarray:
        return np.clip(x, -clip, clip) if clip else x

    f, i, c, o = np.split(bound(INPUT @ w.T + STATE @ r.T + b), 4, axis=1)
    cell = sigmoid(f) * CELL + sigmoid(i) * np.tanh(c)
    expected = [sigmoid(o) * np.tanh(cell), cell]
    operands = [INPUT, STATE, CELL, *(Fixed(part, "float32") for part in (w, r, b))]
    attributes = {"hidden_size": "4", "clip": str(clip)}
    results = run(tmp_path, "LSTMCell", operands, attributes, expected, "opset4")
    for result, array in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("linear", [False, True])
def test_gru_cell(tmp_path: Path, linear: bool) -> None:
    w, r, b = weights(3, 4 if linear else 3)
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh, *more = np.split(b, 4 if linear else 3)
    z = sigmoid(INPUT @ wz.T + STATE @ rz.T + bz)
    reset = sigmoid(INPUT @ wr.T + STATE @ rr.T + br)
    inner = reset * (STATE @ rh.T + more[0]) if linear else (reset * STATE) @ rh.T
    expected = (1 - z) * np.tanh(INPUT @ wh.T + inner + bh) + z * STATE
    operands = [INPUT, STATE, *(Fixed(part, "float32") for part in (w, r, b))]
    attributes = {"hidden_size": "4", "linear_before_reset": str(linear).lower()}
    (result,) = run(tmp_path, "GRUCell", operands, attributes, [expected], "opset3")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_rnn_cell(tmp_path: Path) -> None:
    w, r, b = weights(1, 1)
    expected = np.maximum(INPUT @ w.T + STATE @ r.T + b, 0)
    operands = [INPUT, STATE, *(Fixed(part, "float32") for part in (w, r, b))]
    attributes = {"hidden_size": "4", "activations": "relu"}
    (result,) = run(tmp_path, "RNNCell", operands, attributes, [expected])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


# --- images -------------------------------------------------------------------------------------

PICTURE = floats(1, 2, 5, 5)
WINDOW = {"strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "auto_pad": "explicit"}


def windows(x: np.ndarray, size: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))


def test_convolution(tmp_path: Path) -> None:
    kernel = floats(3, 2, 3, 3)
    expected = np.einsum("nchwij,ocij->nohw", windows(PICTURE, 3), kernel)
    attributes = {**WINDOW, "dilations": "1,1"}
    operands = [PICTURE, Fixed(kernel, "float32")]
    (result,) = run(tmp_path, "Convolution", operands, attributes, [expected])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_group_convolution(tmp_path: Path) -> None:
    kernel = floats(2, 3, 1, 3, 3)
    parts = [
        np.einsum("nchwij,ocij->nohw", windows(PICTURE[:, g : g + 1], 3), kernel[g])
        for g in range(2)
    ]
    expected = np.concatenate(parts, axis=1)
    attributes = {**WINDOW, "dilations": "1,1"}
    operands = [PICTURE, Fixed(kernel, "float32")]
    (result,) = run(tmp_path, "GroupConvolution", operands, attributes, [expected])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_pools(tmp_path: Path) -> None:
    picture_windows = windows(PICTURE, 3)
    attributes = {**WINDOW, "kernel": "3,3", "rounding_type": "floor"}
    (most,) = run(tmp_path, "MaxPool", [PICTURE], attributes, [picture_windows.max((4, 5))])
    np.testing.assert_array_equal(most, picture_windows.max((4, 5)))
    attributes["exclude-pad"] = "true"
    (mean,) = run(tmp_path, "AvgPool", [PICTURE], attributes, [picture_windows.mean((4, 5))])
    np.testing.assert_allclose(mean, picture_windows.mean((4, 5)), rtol=1e-5, atol=1e-6)


# --- what is refused ----------------------------------------------------------------------------

REFUSED: list[tuple[str, Given, dict[str, str], str]] = [
    ("Gather", [X, np.array([1]), Fixed(1)], {"batch_dims": "1"}, "with batch_dims"),
    ("Transpose", [X, np.array([2, 0, 1])], {}, "has its order (input 1) only at run time"),
    ("Pad", [X[0], Fixed([1, 1]), Fixed([1, 1])], {"pad_mode": "symmetric"}, "='symmetric'"),
    ("RNNCell", [INPUT, STATE, floats(4, 3), floats(4, 4)],
        {"hidden_size": "4", "activations": "affine"}, "the activation 'affine'"),
    ("AvgPool", [PICTURE], {**WINDOW, "kernel": "2,2", "rounding_type": "ceil",
        "exclude-pad": "false"}, "with pads counted"),
    ("Maximum", PAIR, {"auto_broadcast": "pdpd"}, "auto_broadcast='pdpd'"),
    ("TopK", [X, Fixed(1)], {"axis": "0", "mode": "median"}, "mode='median'"),
    ("NonZero", [X], {}, "the layer type NonZero (opset1) cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_unsupported_attributes_are_refused(
    tmp_path: Path, row: tuple[str, Given, dict[str, str], str]
) -> None:
    kind, operands, kind_attributes, sentence = row
    with pytest.raises(UnsupportedError) as caught:
        run(tmp_path, kind, operands, kind_attributes, [np.zeros(1, "float32")])
    (finding,) = caught.value.findings
    assert sentence in finding.what
    assert f"layer '{kind}_" in finding.where


@pytest.mark.parametrize(
    ("kind", "operands", "about"),
    [
        ("Concat", [X], {}),
        ("Concat", [X], {"axis": "one"}),
        ("Clamp", [X], {"min": "nan", "max": "1"}),
        ("MatMul", [X], {}),
        ("Add", [X], {}),
        ("Split", [X, Fixed(0)], {"num_splits": "9"}),
        ("OneHot", [np.array([1]), Fixed(-4), Fixed(1), Fixed(0)], {"axis": "0"}),
        ("GRUCell", [INPUT, STATE, floats(12, 3), floats(12, 4)], {"hidden_size": "0"}),
        ("StridedSlice", [X, Fixed([0]), Fixed([1]), Fixed([0])], {}),
        ("Gather", [X, np.array([1]), Fixed([0, 1])], {}),
    ],
    ids=["axis", "word", "nan", "one", "alone", "split", "depth", "size", "stride", "axes"],
)
def test_incomplete_layers_are_refused(
    tmp_path: Path, kind: str, operands: Given, about: dict[str, str]
) -> None:
    with pytest.raises(LoopError):
        run(tmp_path, kind, operands, about, [np.zeros(1, "float32")])
