"""ONNX loop bodies read as MDF graphs equal the ONNX Loop in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mdf_loop
from mdf_loop import LoopError
from mdf_loop.document.loading import graph_of
from mdf_loop.errors import ModelError, ScopeError, UnknownFunctionError, UnsupportedError
from mdf_loop.importing.onnx_graph import convert_loop_body

F = np.float32
ROW = np.array([1.0, -2.0, 3.5, 0.25], F)


def runtime(
    body: onnx.GraphProto, trip_count: int, initial: list[Any], outer: dict[str, Any]
) -> Any:
    """Return the outputs of ONNX Runtime for a Loop with this body."""
    arrays = {"M": np.array(trip_count), **{f"v{k}": np.asarray(v) for k, v in enumerate(initial)}}
    arrays |= {name: np.asarray(value) for name, value in outer.items()}
    n_results = len(body.output) - 1
    node = helper.make_node(
        "Loop", ["M", "", *(f"v{k}" for k in range(len(initial)))],
        [f"r{k}" for k in range(n_results)], body=body,
    )  # fmt: skip
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(f"r{k}") for k in range(n_results)]
    graph = helper.make_graph([node], "main", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, arrays)


def check(
    body: str | onnx.GraphProto, initial: list[Any], trip_count: int = 3, **outer: Any
) -> list[Any]:
    """Check that `loop` equals ONNX Runtime and return the results."""
    proto = onnx.parser.parse_graph(body) if isinstance(body, str) else body
    final = mdf_loop.loop(trip_count, None, tuple(initial), proto, **outer)
    results = list(final) if isinstance(final, tuple) else [final]
    expected = runtime(proto, trip_count, initial, outer)
    assert len(results) == len(expected)
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    return results


BODIES = {
    "constants of every kind": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y, float[4] row, int64[3] ints) {
        a = Constant<value = float[1] {2.0}>()
        b = Constant<value_float = 0.5>()
        c = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>()
        d = Constant<value_int = 3>()
        ints = Constant<value_ints = [1, 2, 3]>()
        df = CastLike(d, x)
        p = Mul(x, a)
        q = Add(p, b)
        r = Add(q, c)
        y = Sub(r, df)
        row = Identity(c)
    }""",
    "an initializer": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    <float[4] w = {1.0, 2.0, 3.0, 4.0}, float s = {0.5}>
    { p = Mul(x, s)  y = Add(p, w) }""",
    "an initializer as an output": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] w, float[4] row)
    <float[4] w = {1.0, 2.0, 3.0, 4.0}>
    { row = Mul(x, w) }""",
    "an input as several outputs": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] x, float[4] x2, int64 i2)
    { x2 = Identity(x)  i2 = Identity(i) }""",
    "an optional input left out in the middle": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { top = Constant<value = float {2.0}>()  y = Clip(x, , top) }""",
    "an optional input left out at the end": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { low = Constant<value = float {0.0}>()  y = Clip(x, low) }""",
    "an empty name at the end": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { low = Constant<value = float {0.0}>()  y = Clip(x, low, ) }""",
    "variadic inputs": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y, float[12] row)
    { n = Neg(x)  y = Max(x, n, x)  row = Concat<axis = 0>(x, n, y) }""",
    "a variadic operator with one input": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { y = Sum(x) }""",
    "several outputs": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y, int64[2] places)
    { k = Constant<value = int64[1] {2}>()
      extents = Constant<value_ints = [1, 2, 1]>()
      values, places = TopK<axis = 0, largest = 1, sorted = 1>(x, k)
      first, middle, last = Split<axis = 0>(x, extents)
      y = Concat<axis = 0>(last, values, first) }""",
    "an optional result left out": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] x2, int64[3] places)
    { values, first, places, counts = Unique<axis = 0>(x)
      x2 = Identity(x)  }""",
    "attributes: whole numbers, text, numbers": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y, float[6] padded, float[1] mean, float[4] leaky)
    { pads = Constant<value = int64[2] {1, 1}>()
      padded = Pad<mode = "edge">(x, pads)
      mean = ReduceMean<axes = [0], keepdims = 1>(x)
      leaky = LeakyRelu<alpha = 0.25>(x)
      y = Softmax<axis = -1>(x) }""",
    "an attribute that is a tensor": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { shape = Shape(x)
      ones = ConstantOfShape<value = float[1] {2.5}>(shape)
      y = Add(x, ones) }""",
    "casts": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y, int32[4] whole, bool[4] truths)
    { whole = Cast<to = 6>(x)  truths = Cast<to = 9>(x)  y = Cast<to = 1>(whole) }""",
    "names of Python and of MDF": """
    b (int64 i, bool go, float[4] lambda) => (bool go, float[4] def, float[4] value)
    { value = Neg(lambda)  linear = Abs(value)  def = Add(linear, lambda) }""",
    "a name that another attribute spells": """
    b (int64 i, bool go, float[4] edge) => (bool go, float[4] y, float[6] padded)
    { pads = Constant<value = int64[2] {1, 1}>()
      padded = Pad<mode = "edge">(edge, pads)  y = Neg(edge) }""",
    "nodes without names": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { p = Neg(x)  q = Exp(p)  y = Abs(q) }""",
    "the condition is computed": """
    b (int64 i, bool go, float[4] x) => (bool go2, float[4] y)
    { limit = Constant<value = int64 {100}>()  go2 = Less(i, limit)  y = Neg(x) }""",
    "random numbers are not needed": """
    b (int64 i, bool go, float[4] x) => (bool go, float[4] y)
    { m = ReduceSum<keepdims = 0>(x)  c = Greater(x, m)  n = Neg(x)  y = Where(c, x, n) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    check(BODIES[name], [ROW])


def test_strings_in_attributes() -> None:
    """Check an RNN whose attribute lists the names of activations."""
    node = helper.make_node(
        "RNN", ["seq", "w", "r"], ["", "last"], hidden_size=2, activations=["Relu"]
    )
    rng = np.random.default_rng(0)
    w, r = rng.normal(size=(1, 2, 3)).astype(F), rng.normal(size=(1, 2, 2)).astype(F)
    body = helper.make_graph(
        [node, helper.make_node("Neg", ["seq"], ["out"])],
        "b",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("seq", onnx.TensorProto.FLOAT, [4, 1, 3]),
        ],
        [
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, [4, 1, 3]),
            helper.make_tensor_value_info("last", onnx.TensorProto.FLOAT, [1, 1, 2]),
        ],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(r, "r")],
    )
    check(body, [rng.normal(size=(4, 1, 3)).astype(F)])


def test_captured_values() -> None:
    results = check(
        """
        b (int64 i, bool go, float[4] x) => (bool go, float[4] y, float[4] w2)
        { y = Add(x, w)  w2 = Identity(w) }""",
        [ROW],
        w=ROW,
    )
    np.testing.assert_array_equal(results[0], 4 * ROW)


def test_a_value_captured_and_given_back() -> None:
    """Check a captured value as output, which ONNX Runtime refuses."""
    text = "b (int64 i, bool go, float[4] x) => (bool go, float[4] x, float[4] w) { z = Neg(x) }"
    final, rows = mdf_loop.loop(2, None, ROW, onnx.parser.parse_graph(text), w=[1.0])
    np.testing.assert_array_equal(final, ROW)
    assert rows.tolist() == [[1.0], [1.0]]


def test_names_that_are_no_python_names() -> None:
    body = onnx.parser.parse_graph(
        """
        b (int64 i, bool go, float[4] x) => (bool go, float[4] y, float[4] row)
        { p = Neg(x)  q = Abs(p)  s = Add(q, w)  y = Max(s, p)  row = Identity(q) }"""
    )
    names = {
        "x": "x.1",
        "y": "x.2",
        "p": "/a/Neg",
        "q": "3",
        "s": "a::b c",
        "w": "w[0]",
        "row": "-1",
    }
    for value in (*body.input, *body.output):
        value.name = names.get(value.name, value.name)
    for node in body.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        node.name = "/n"
    final = mdf_loop.loop(3, None, ROW, body, **{"w[0]": ROW})
    expected = [ROW]
    rows = []
    for _ in range(3):
        x = expected[-1]
        rows.append(np.abs(x))
        expected.append(np.maximum(np.abs(x) + ROW, -x))
    np.testing.assert_allclose(final[0], expected[-1])
    np.testing.assert_allclose(final[1], rows)


def test_a_name_of_an_outer_value_is_hidden_by_the_bodys() -> None:
    text = """
    b (int64 i, bool go, int64 x) => (bool go, int64 y) { w = Add(x, x)  y = Add(w, i) }"""
    assert mdf_loop.loop(2, None, 1, onnx.parser.parse_graph(text), w=100) == 5


def test_two_carried_values() -> None:
    results = check(
        """
        b (int64 i, bool go, float[4] x, int64 n) => (bool go, float[4] y, int64 m, int64 row)
        { y = Neg(x)  m = Add(n, i)  row = Mul(n, i) }""",
        [ROW, np.array(5)],
        4,
    )
    assert results[1] == 11


def test_no_carried_value() -> None:
    results = check("b (int64 i, bool go) => (bool go, int64 row) { row = Mul(i, i) }", [])
    assert results[0].tolist() == [0, 1, 4]


@pytest.mark.parametrize("trip_count", [0, 1, 4])
def test_a_loop_in_the_body(trip_count: int) -> None:
    """Check captures through two levels of loops."""
    check(
        """
        outer (int64 i, bool go, float[4] x) => (bool go, float[4] y, float[4] rows)
        {
            one = Constant<value = int64 {1}>()
            n = Add(i, one)
            y, inner_rows = Loop(n, , x) <body = inner (int64 j, bool go2, float[4] z)
                => (bool go2, float[4] z2, float[4] row) {
                jf = CastLike(j, w)
                step = Mul(w, jf)
                z2 = Add(z, step)
                row = Sub(z2, x)
            }>
            zero = Constant<value = int64 {0}>()
            rows = Gather<axis = 0>(inner_rows, zero)
        }""",
        [ROW],
        trip_count,
        w=ROW,
    )


def test_a_loop_with_a_condition_in_the_body() -> None:
    text = """
    outer (int64 i, bool go, int64 x) => (bool go, int64 y)
    {
        true = Constant<value = bool {1}>()
        y = Loop(, true, x) <body = inner (int64 j, bool go2, int64 z) => (bool more, int64 z2) {
            z2 = Add(z, j)
            more = Less(j, i)
        }>
    }"""
    assert mdf_loop.loop(4, None, 0, onnx.parser.parse_graph(text)) == sum(
        sum(range(i + 1)) for i in range(4)
    )


def test_initializers_keep_their_dtypes() -> None:
    for dtype in (np.float64, np.float32, np.int32, np.int64, np.uint8, np.bool_):
        w = np.array([[1, 0], [2, 3]]).astype(dtype)
        body = onnx.parser.parse_graph(
            "b (int64 i, bool go) => (bool go, float[2,2] w, float s) { z = Identity(i) }"
        )
        body.initializer.extend(
            [numpy_helper.from_array(w, "w"), numpy_helper.from_array(w[0, 1], "s")]
        )
        array, scalar = mdf_loop.loop(2, None, None, body)
        assert array.dtype == scalar.dtype == dtype
        np.testing.assert_array_equal(array, np.stack([w, w]))
        assert scalar.shape == (2,)


# --- what is refused --------------------------------------------------------------------------

HEAD = "b (int64 i, bool go, float[4] x) => (bool go, float[4] y)"


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        (HEAD + "{ y = Nag(x) }", UnknownFunctionError, "no operator 'Nag'"),
        (HEAD + "{ y = com.microsoft.Gelu(x) }", UnsupportedError, "com.microsoft::Gelu"),
        (
            HEAD + "{ y = Add(x, w) }",
            ScopeError,
            "'w' of node .* in the body of the loop is bound to nothing",
        ),
        (HEAD + "{ y = Add(x) }", LoopError, "needs the argument 'B'"),
        (HEAD + "{ z = Neg(x) }", LoopError, "no output port 'y'"),
        (HEAD + "{ y = MatMul<alpha = 1>(x, x) }", LoopError, "alpha|dtype|shape"),
    ],
)
def test_invalid_bodies_are_refused(text: str, error: type[LoopError], match: str) -> None:
    with pytest.raises(error, match=match):
        mdf_loop.loop(2, None, ROW, onnx.parser.parse_graph(text))


def test_split_into_equal_parts() -> None:
    body = onnx.parser.parse_graph(HEAD + "{ p, q = Split(x)  y = Concat<axis = 0>(q, p) }")
    np.testing.assert_array_equal(mdf_loop.loop(1, None, ROW, body), [*ROW[2:], *ROW[:2]])


def test_sparse_initializers_are_refused() -> None:
    body = onnx.parser.parse_graph(HEAD + "{ y = Add(x, w) }")
    body.sparse_initializer.append(
        helper.make_sparse_tensor(
            numpy_helper.from_array(np.array([1.0], F), "w"),
            numpy_helper.from_array(np.array([2]), "places"),
            [4],
        )
    )
    with pytest.raises(UnsupportedError, match="sparse"):
        convert_loop_body(body)


@pytest.mark.parametrize("thing", [onnx.ModelProto(), onnx.NodeProto(), 5, None, {"nodes": {}}])
def test_only_graphs_are_read(thing: Any) -> None:
    with pytest.raises(ModelError, match="is a GraphProto, not"):
        convert_loop_body(thing)


def test_the_imported_graph() -> None:
    graph = graph_of(convert_loop_body(onnx.parser.parse_graph(BODIES["variadic inputs"])), "$")
    assert graph.id == "b"
    assert graph.metadata == {
        "semantics": "onnx",
        "inputs": ["i", "go", "x"],
        "outputs": ["go", "y", "row"],
    }
    assert [node.id for node in graph.nodes] == ["Neg_0", "Max_1", "Concat_2"]
    assert graph.nodes[1].functions[0].args == {"data_0": ["x", "n", "x"]}
    assert [(e.sender, e.receiver, e.receiver_port) for e in graph.edges] == [
        ("Neg_0", "Max_1", "n"),
        ("Neg_0", "Concat_2", "n"),
        ("Max_1", "Concat_2", "y"),
    ]


@pytest.mark.parametrize("trip_count", [-3, -1, 0, 2])
@pytest.mark.parametrize("stated", [False, True])
def test_a_trip_count_below_one_is_no_iteration(trip_count: int, stated: bool) -> None:
    """Check zero and negative trip counts, also -1, which means an unlimited count in other formats."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float x, int64 M) => (float y) {'
        + 'y = Loop (M, "", x) <body = b (int64 i, bool go, float v) => (bool c, float w)'
        " { c = Identity(go)  w = Add(v, v) }> }"
    )
    if stated:
        model.graph.input.pop()
        constant = numpy_helper.from_array(np.array(trip_count), "M")
        model.graph.initializer.append(constant)
    inputs = {"x": F(1)} if stated else {"x": F(1), "M": trip_count}
    results = mdf_loop.compile(mdf_loop.from_onnx(model), device="cpu").run(inputs)
    assert results["y"] == 2.0 ** max(trip_count, 0)


@pytest.mark.parametrize(("name", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_the_first_output_of_a_recurrent_layer_alone(name: str, gates: int) -> None:
    w = np.ones((1, gates, 1), np.float32)
    nodes = [helper.make_node(name, ["x", "w", "w"], ["y"], hidden_size=1)]
    inputs = [helper.make_tensor_value_info("x", 1, ["s", "b", 1])]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(w, "w")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.ones((2, 3, 1), np.float32)
    assert mdf_loop.compile(mdf_loop.from_onnx(proto)).run({"x": x})["y"].shape == (2, 1, 3, 1)
