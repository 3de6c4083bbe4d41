"""Names, initializers, omitted inputs and functions of ONNX files are preserved."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mdf_loop
from tests.importing.round_trips import assert_same, check, parse_graph, runtime
from tests.soak import some

NESTED = """g (int64 M, bool up, float[2] x) => (float[2] y, float[n] rows, float[2] z) <float[2] w = {1.5, -2.0}> {
    y, rows = Loop (M, up, x) <body = bd (int64 i, bool c, float[2] a) => (bool c2, float[2] a3, float row) {
        c2 = Identity(c)
        big = Mul(a, w)
        a3 = If (up) <
            then_branch = t () => (float[2] p) { fi = Cast<to = 1>(i)  p = Add(big, fi) },
            else_branch = e () => (float[2] q) { q = Sub(big, x) }>
        row = ReduceSum<keepdims = 0>(a3) }>
    z = Scan <num_scan_inputs = 1, body = sc (float k) => (float l) { l = Add(k, k) }> (y) }"""
INPUTS = {
    "M": np.array(3),
    "up": np.array(True),
    "x": np.array([1.0, 2.0], np.float32),
}
NAMES = [*INPUTS, "y", "rows", "z", "w", "i", "c", "a", "c2", "big", "a3", "fi", "p", "q", "row"]
NAMES += ["k", "l"]


def _rename(graph: onnx.GraphProto, names: dict[str, str], nodes: bool) -> None:
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        if nodes:
            node.name = node.output[0]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, names, nodes)


def rename_values(names: dict[str, str], *, nodes: bool = False) -> onnx.ModelProto:
    model = parse_graph(NESTED)
    _rename(model.graph, names, nodes)
    return model


_WORDS: dict[str, str | list[str]] = {
    "numbers": [str(k) for k in range(len(NAMES))],
    "numbers with a point": [f"{k}.5" for k in range(len(NAMES))],
    "negative numbers": [f"-{k}" for k in range(1, len(NAMES) + 1)],
    "keywords": (
        "if else lambda for while and or not None True False in is def class return import "
        "yield del"
    ),
    "ONNX's argument names": (
        "A B C data axis axes M cond body v_initial result value input X Y output loop shape scan"
    ),
    "more argument names": (
        "num_scan_inputs initial_state_and_scan_inputs then_branch else_branch to keepdims "
        "scan_outputs data_0 inputs choice args function metadata nodes edges slices "
        "delays recordings exit"
    ),
    "MDF's words": (
        "format graphs parameters functions input_ports output_ports dtype default_initial_value "
        "time_derivative conditions notes id type units math numpy max abs t"
    ),
    "dots and slashes": [f"/layer.{k}/Add_output_{k}:0" for k in range(len(NAMES))],
    "brackets and quotes": [f"v[{k}] ('{k}') \"{k}\" {{{k}}}" for k in range(len(NAMES))],
    "brackets only": [f"loop[{k}]" for k in range(len(NAMES))],
    "spaces": [f" a value {k} " for k in range(len(NAMES))],
    "unicode": [f"größe_{k}_λ_数_\N{ROCKET}" for k in range(len(NAMES))],
    "operators": [f"a+b*{k}" for k in range(len(NAMES))],
    "calls": [f"exp({k})" for k in range(len(NAMES))],
    "hashes and colons": [f"const#{k}: x" for k in range(len(NAMES))],
    "yaml's words": (
        "yes no on off null ~ true false y n 1e5 0x10 1_000 2001-01-01 <<= - ? & *a !b %c"
    ),
    "dunders": [f"__class__{'_' * k}" for k in range(len(NAMES))],
    "one differs by case": [("x" * (k // 2 + 1)).swapcase() if k % 2 else "x" * (k // 2 + 1) for k in range(len(NAMES))],
    "names of our own results": [
        *("loop.iterations", "loop.condition", "loop[0]", "loop[1]", "result", "result[0]", "$"),
        *("const", "const_2", "choice", "scan", "scan[0]", "iteration", "condition", "g", "model"),
        *("Loop_1", "Scan_2", "M_cast"),
    ],
}  # fmt: skip

WORDS = {name: w.split() if isinstance(w, str) else w for name, w in _WORDS.items()}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("words", "nodes"), some(product(WORDS, [False, True]), 2))
def test_values_may_have_any_name(words: str, nodes: bool, tmp_path: Path) -> None:
    names = dict(zip(NAMES, WORDS[words], strict=False))
    assert len(set(names.values())) == len(NAMES)
    for up in (True, False):
        feeds = {names[key]: value for key, value in {**INPUTS, "up": np.array(up)}.items()}
        check(rename_values(names, nodes=nodes), feeds, None, tmp_path)


def _unnamed(graph: onnx.GraphProto, node_name: str) -> None:
    graph.ClearField("name")
    for node in graph.node:
        node.name = node_name
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _unnamed(attribute.g, node_name)


@pytest.mark.parametrize("node_name", ["", "same"])
def test_nodes_may_have_equal_names_and_graphs_none(node_name: str, tmp_path: Path) -> None:
    model = rename_values({})
    expected = runtime(model, INPUTS)
    _unnamed(model.graph, node_name)
    check(model, INPUTS, expected, tmp_path)


def test_results_have_the_names_of_the_file() -> None:
    names = dict(zip(NAMES, WORDS["brackets and quotes"], strict=False))
    results = mdf_loop.compile(mdf_loop.from_onnx(rename_values(names))).run(
        {names[key]: value for key, value in INPUTS.items()}
    )
    assert list(results) == [names[name] for name in ("y", "rows", "z")]


# --- initializers -----------------------------------------------------------------------------


@pytest.mark.parametrize("ir_version", [3, 8])
def test_an_initializer_that_is_an_input_too_is_a_parameter(
    ir_version: int, tmp_path: Path
) -> None:
    model = parse_graph(
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {2.0, 3.0}> { y = Mul(x, w) }"
    )
    model.ir_version = ir_version
    one = np.array([1.0, 2.0], np.float32)
    check(model, {"x": one}, [np.array([2.0, 6.0], np.float32)], tmp_path)
    results = mdf_loop.compile(mdf_loop.from_onnx(model)).run({"x": one}, set={"w.value": one})
    assert_same(results["y"], np.array([1.0, 4.0], np.float32))


@pytest.mark.parametrize("opset", [8, 13, 17, 21])
def test_outputs_that_are_inputs_or_initializers(opset: int, tmp_path: Path) -> None:
    model = parse_graph(
        """g (float[2] x, float[2] z) => (float[2] x, float[2] w, float[2] y, float[2] v)
        <float[2] w = {2.0, 3.0}> { y = Add(x, z)  v = Identity(w) }""",
        opset,
    )
    x, z = np.array([1.0, 2.0], np.float32), np.array([5.0, 6.0], np.float32)
    w = np.array([2.0, 3.0], np.float32)
    check(model, {"x": x, "z": z}, [x, w, x + z, w], tmp_path)


CONSTANTS = {
    "value = float[2] {1.0, 2.0}": np.array([1, 2], np.float32),
    "value = double[0] {}": np.zeros(0),
    "value = bool[2] {1, 0}": np.array([True, False]),
    "value = int8[1, 2] {-1, 2}": np.array([[-1, 2]], np.int8),
    "value = uint64 {18446744073709551615}": np.array(2**64 - 1, np.uint64),
    "value_int = 3": np.array(3),
    "value_ints = [3, 4]": np.array([3, 4]),
    "value_float = 0.1": np.array(0.1, np.float32),
    "value_floats = [0.1, 0.2]": np.array([0.1, 0.2], np.float32),
    'value_string = "text"': np.array("text", object),
    'value_strings = ["a", "b c"]': np.array(["a", "b c"], object),
}


@pytest.mark.parametrize("written", CONSTANTS)
def test_constants_of_every_kind(written: str, tmp_path: Path) -> None:
    expected = CONSTANTS[written]
    element = 8 if expected.dtype == object else helper.np_dtype_to_tensor_dtype(expected.dtype)
    model = parse_graph(
        f"g (float x) => (float y, float z) {{ c = Constant<{written}>()  y = Identity(c)  z = Neg(x) }}"
    )
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element, expected.shape))
    check(model, {"x": np.array(1.0, np.float32)}, [expected, np.array(-1.0, np.float32)], tmp_path)


@pytest.mark.parametrize(
    "value", [np.array([3], np.int32), np.array([2.5]), np.array([True]), None]
)
def test_a_constant_of_a_shape(value: Any, tmp_path: Path) -> None:
    more = {} if value is None else {"value": numpy_helper.from_array(value)}
    dtype = np.float32 if value is None else value.dtype
    node = helper.make_node("ConstantOfShape", ["n"], ["y"], **more)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("n", 7, ["k"])],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    filled = np.full((2, 3), 0 if value is None else value[0], dtype)
    check(model, {"n": np.array([2, 3])}, [filled], tmp_path)


# --- absent inputs ----------------------------------------------------------------------------


def test_inputs_left_out_in_the_middle_and_at_the_end(tmp_path: Path) -> None:
    model = parse_graph(
        """g (float[4] x, float[1,1,4] t) => (float[4] y, float[4] z, float[n,d,b,h] r) {
            top = Constant<value = float {2.0}>()  y = Clip(x, , top)  low = Constant<value = float {0.0}>()
            z = Clip(y, low, )
            W = Constant<value = float[1,2,4] {1.0, 2.0, 3.0, 4.0, 0.1, 0.2, 0.3, 0.4}>()
            R = Constant<value = float[1,2,2] {0.1, 0.2, 0.3, 0.4}>()  h0 = Constant<value = float[1,1,2] {0.5, 0.6}>()
            r, last = RNN<hidden_size = 2>(t, W, R, , , h0) }"""
    )
    x = np.array([-1.0, 1.0, 2.0, 3.0], np.float32)
    check(model, {"x": x, "t": x.reshape(1, 1, 4) / 10}, None, tmp_path)


# --- functions of the file --------------------------------------------------------------------

FUNCTIONS = """
<opset_import: ["" : 15, "own" : 1], domain: "own">
power (x, n) => (y) {
    one = Constant<value = float {1.0}>()
    y = Loop (n, "", one) <body = bd (int64 i, bool c, float a) => (bool c2, float a2) {
        c2 = Identity(c)  a2 = own.twice(a, x) }>
}
<opset_import: ["" : 15], domain: "own">
twice (a, x) => (y) { y = Mul(a, x) }
"""


def test_a_function_of_the_file_with_a_loop_inside(tmp_path: Path) -> None:
    graph = """g (float x, int64 n, bool c) => (float y, float z) {
        y = own.power(x, n)
        z = If (c) <then_branch = t () => (float p) { p = own.power(y, n) }, else_branch = e () => (float q) { q = own.twice(x, y) }> }"""
    x, n = np.array(2.0, np.float32), np.array(3)
    for c, z in ((True, 512.0), (False, 16.0)):
        feeds = {"x": x, "n": n, "c": np.array(c)}
        expected = [np.array(8.0, np.float32), np.array(z, np.float32)]
        check(parse_graph(graph, 15, FUNCTIONS), feeds, expected, tmp_path)


def test_all_results_of_a_normalization(tmp_path: Path) -> None:
    model = parse_graph(
        """g (float[2,3] x, float[3] w) => (float[2,3] y, float[2,1] mean, float[2,1] inverse) {
            y, mean, inverse = LayerNormalization(x, w) }""",
        17,
    )
    x = np.array([[1, 2, 4], [0, 3, 5]], np.float32)
    check(model, {"x": x, "w": np.ones(3, np.float32)}, None, tmp_path)
