"""Reductions with axes as attribute, constant and operand agree with numpy in both engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import mdf_loop

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceL1": lambda x, **how: np.sum(abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
}
EXACT = ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare")
AXES = [[0], [1], [-1], [0, 2], [2, 0], []]
DTYPES = {"double": np.float64, "float": np.float32, "int64": np.int64, "int32": np.int32}
CASES = [
    (name, word)
    for name, word in itertools.product(FUNCTIONS, DTYPES)
    if word in ("double", "float") or name in EXACT
]


def numbers(word: str) -> np.ndarray:
    """Return positive numbers, whose products wrap for int64."""
    rng = np.random.default_rng(3)
    if word in ("double", "float"):
        return (1 + abs(rng.normal(size=(2, 3, 2)))).astype(DTYPES[word])
    return rng.integers(1, 5, (2, 3, 2)).astype(DTYPES[word]) * (
        2**28 + 1 if word == "int64" else 1
    )


def model(name: str, word: str, form: str, axes: list[int], options: dict[str, int]) -> Any:
    inputs, more, call = f"{word}[2, 3, 2] x", "", "x, axes"
    if form == "operand":
        inputs += f", int64[{len(axes)}] axes"
    elif axes:
        more = f"<int64[{len(axes)}] axes = {{{', '.join(map(str, axes))}}}>"
    else:
        call = "x"
    words = ", ".join(f"{key} = {value}" for key, value in options.items())
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g ({inputs}) => ({word} y) {more} {{ y = {name} <{words}> ({call}) }}"""
    parsed = onnx.parser.parse_model(text)
    parsed.graph.output[0].type.tensor_type.ClearField("shape")
    return mdf_loop.compile(mdf_loop.from_onnx(parsed), device="cpu")


@pytest.mark.parametrize(("name", "word"), CASES)
def test_reductions_equal_numpy_for_every_form_of_axes(name: str, word: str) -> None:
    x = numbers(word)
    for form, axes, keepdims in itertools.product(("constant", "operand"), AXES, (0, 1)):
        compiled = model(name, word, form, axes, {"keepdims": keepdims})
        fit_options: dict[str, Any] = {"axis": tuple(axes) or None, "keepdims": bool(keepdims)}
        if word.startswith("int") and name not in ("ReduceMax", "ReduceMin"):
            fit_options["dtype"] = x.dtype
        expected = np.asarray(FUNCTIONS[name](x, **fit_options))
        feeds = {"x": x, **({"axes": np.array(axes, np.int64)} if form == "operand" else {})}
        for engine in ("onnxruntime", "interpreter"):
            y = compiled.run(feeds, engine=engine)["y"]
            assert y.dtype == x.dtype
            assert y.shape == expected.shape
            rtol = {"double": 1e-13, "float": 1e-5}.get(word, 0)
            np.testing.assert_allclose(y, expected, rtol=rtol, err_msg=f"{form} {axes} {engine}")


@pytest.mark.parametrize("name", ["ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"])
def test_empty_axes_with_noop_reduce_nothing(name: str) -> None:
    word = "int64" if name == "ReduceProd" else "double"
    x = numbers(word)
    expected = x * x if name == "ReduceSumSquare" else x
    for form in ("constant", "operand"):
        compiled = model(name, word, form, [], {"keepdims": 1, "noop_with_empty_axes": 1})
        feeds = {"x": x, **({"axes": np.zeros(0, np.int64)} if form == "operand" else {})}
        for engine in ("onnxruntime", "interpreter"):
            np.testing.assert_allclose(
                compiled.run(feeds, engine=engine)["y"], expected, rtol=1e-15
            )


# --- constants equal inputs -----------------------------------------------------------------------

NAN = np.array([[1.0, np.nan, 3.0]])


@pytest.mark.parametrize(
    ("name", "arrays", "options"),
    [
        ("OneHot", [np.array([1, -1]), np.array(2), np.array([0.25, np.inf])], {}),
        ("OneHot", [np.array([1, 5]), np.array(3), np.array([0.5, np.nan])], {"axis": 0}),
        ("ReduceSumSquare", [np.array([[3, 2]], np.int32), np.array([1])], {"keepdims": 0}),
        ("ReduceMax", [NAN, np.array([1])], {"keepdims": 0}),
        ("ReduceMin", [NAN, np.array([1])], {"keepdims": 0}),
        ("ArgMax", [NAN], {"axis": 1}),
        ("ArgMin", [NAN], {"axis": 1}),
    ],
)
def test_constants_equal_inputs(
    name: str, arrays: list[np.ndarray], options: dict[str, int]
) -> None:
    names = [f"x{k}" for k in range(len(arrays))]
    results = []
    for known in (True, False):
        helper = onnx.helper
        nodes = [
            helper.make_node("Constant", [], [key], value=onnx.numpy_helper.from_array(array))
            for key, array in zip(names, arrays, strict=True)
        ]
        inputs = [
            helper.make_tensor_value_info(
                key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for key, array in zip(names, arrays, strict=True)
        ]
        unread = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [])
        outputs = [
            helper.make_empty_tensor_value_info("y"),
            helper.make_empty_tensor_value_info("w"),
        ]
        graph = helper.make_graph(
            [
                *(nodes if known else ()),
                helper.make_node(name, names, ["y"], **options),
                helper.make_node("Neg", ["z"], ["w"]),
            ],
            "g",
            [unread, *(() if known else inputs)],
            outputs,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        feeds = {"z": np.float32(0)} | ({} if known else dict(zip(names, arrays, strict=True)))
        results.append(mdf_loop.compile(mdf_loop.from_onnx(proto)).run(feeds)["y"])
    assert results[0].dtype == results[1].dtype
    np.testing.assert_array_equal(*results)
