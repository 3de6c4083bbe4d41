"""`mdf_loop.loop(...)` runs a loop from Python on arrays and numbers."""

from __future__ import annotations

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop import LoopError, loop
from mdf_loop.errors import (
    ArityError,
    CarryTypeError,
    ConditionError,
    EndlessLoopError,
    InputError,
    ModelError,
    ScopeError,
    TripCountError,
)
from mdf_loop.plugin import loop_call
from mdf_loop.run.onnxruntime.session import Session


def body(inputs: str, outputs: str, **ports: str) -> dict[str, Any]:
    """Return a body of one node whose output ports have these values."""
    return {
        "metadata": {"inputs": inputs, "outputs": outputs},
        "nodes": {"n": {"output_ports": {name: {"value": v} for name, v in ports.items()}}},
    }


SAMPLE = body(
    "i, go, b",
    "go_out, b_out, row",
    go_out="a + b > a - b",
    b_out="a - b",
    row="b + b",
)
DOUBLING = body("i, go, x", "go_out, x_out", go_out="i < 100", x_out="x + x")
COUNTING = body("i, go", "go_out, row", go_out="i < 2", row="i * i")


def graph_of(content: dict[str, Any], name: str = "net") -> Any:
    from modeci_mdf.mdf import Graph

    return Graph.from_dict({name: copy.deepcopy(content)})


def proto(text: str) -> onnx.GraphProto:
    graph = onnx.parser.parse_graph(text)
    return graph


SAMPLE_PROTO = """
sample (int64 i, bool go, int64 b) => (bool go_out, int64 b_out, int64 row) {
    up = Add(a, b)
    b_out = Sub(a, b)
    go_out = Greater(up, b_out)
    row = Add(b, b)
}
"""


@pytest.mark.parametrize(
    "written",
    [
        SAMPLE,
        {"net": SAMPLE},
        {"graph_net": {"id": "net", **SAMPLE}},
        {"graph": {"net": SAMPLE}},
        {"graph": SAMPLE["nodes"] and {"nodes": SAMPLE["nodes"]}, **SAMPLE["metadata"]},
        graph_of(SAMPLE),
        {"net": graph_of(SAMPLE)},
        proto(SAMPLE_PROTO),
    ],
    ids=["dict", "by id", "importer", "graph", "beside", "Graph", "by id of Graph", "GraphProto"],
)
def test_bodies(written: Any) -> None:
    final, rows = loop(10, True, 6, written, a=3)
    assert (final.tolist(), rows.tolist()) == (6, [12, -6])
    final, rows = loop(3, None, 6, written, a=3)
    assert (final.tolist(), rows.tolist()) == (-3, [12, -6, 12])


def test_loop_is_also_modeci_mdfs_function() -> None:
    import modeci_mdf.execution_engine
    from modeci_mdf.functions import onnx as functions

    assert functions.loop is loop
    assert modeci_mdf.execution_engine.onnx_ops.loop(M=2, v_initial=3, body=DOUBLING) == 12


@pytest.mark.parametrize(
    ("initial", "dtype"),
    [
        (3, "int64"),
        (3.0, "float64"),
        (np.float32(3), "float32"),
        (np.array(3, np.int32), "int32"),
        (np.array([3, 4], np.float32), "float32"),
        ([3.0, 4.0], "float64"),
        (np.array([[3.0]], ">f8"), "float64"),
        (np.array([3, 4], np.float64)[::-1], "float64"),
    ],
)
def test_values_keep_their_dtypes(initial: Any, dtype: str) -> None:
    loop_results = loop(2, None, initial, DOUBLING)
    assert type(loop_results) is np.ndarray
    assert loop_results.dtype == dtype
    np.testing.assert_array_equal(loop_results, np.asarray(initial) * 4)


def test_objects_that_numpy_converts_to_arrays() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0], np.float32)

    loop_results = loop(2, None, Tensor(), DOUBLING)
    assert loop_results.tolist() == [4.0, 8.0]
    assert loop_results.dtype == np.float32


@pytest.mark.parametrize(
    ("trip_count", "condition", "rows"),
    [
        (3, None, [0, 1, 4]),
        (10, True, [0, 1, 4]),
        (2, True, [0, 1]),
        (None, True, [0, 1, 4]),
        (-1, True, [0, 1, 4]),
        (np.array(-1), True, [0, 1, 4]),
        (np.array([-1.0]), 1, [0, 1, 4]),
        (0, None, []),
        (-7, None, []),
        (5, False, []),
        (5, np.array([False]), []),
        (np.array([4]), None, [0, 1, 4, 9]),
        (np.float64(4), None, [0, 1, 4, 9]),
        (np.int8(4), np.True_, [0, 1, 4]),
    ],
)
def test_counts_and_conditions(trip_count: Any, condition: Any, rows: list[int]) -> None:
    """Check a body without carried values, which returns its one recorded output as a bare array."""
    for initial in (None, ()):
        loop_results = loop(trip_count, condition, initial, COUNTING)
        assert type(loop_results) is np.ndarray
        assert (loop_results.tolist(), loop_results.dtype) == (rows, np.dtype("int64"))


def test_several_initial_values() -> None:
    pair = body("i, go, x, y", "go_out, x_out, y_out", go_out="i < 9", x_out="y + 0", y_out="x + y")
    loop_results = loop(2, None, (3, 6), pair)
    assert type(loop_results) is tuple
    assert [r.tolist() for r in loop_results] == [9, 15]


def test_a_body_cannot_read_the_arguments_of_the_call_by_name() -> None:
    """Check that `M` in a body is not the trip count of the call."""
    own = body("i, go, x", "go_out, x_out", go_out="i < 9", x_out="x + M")
    own["nodes"]["n"]["input_ports"] = {"M": {}, "x": {}}
    with pytest.raises(
        ScopeError, match="'M' of node 'n' in the body of the loop is bound to nothing"
    ):
        loop(2, None, 1, own)


def test_outer_values_by_any_name() -> None:
    scaled = body("i, go, x", "go_out, x_out", go_out="i < 9", x_out="y")
    scaled["nodes"]["n"].update(
        input_ports={"x": {}, "x.3": {}},
        functions={"y": {"function": "onnx::Mul", "args": {"A": "x", "B": "x.3"}}},
    )
    assert loop(2, None, 1.0, scaled, **{"x.3": 3.0}) == 9.0


def test_nested_loops() -> None:
    """Compute the sum of i * j for j < i + 1, i < 3 by a Loop in the body of a Loop."""
    inner = body("j, go, y", "go_out, y_out", go_out="j < 9", y_out="y + i * j")
    outer = body("i, go, x", "go_out, x_out", go_out="i < 9", x_out="inner")
    outer["nodes"]["n"]["functions"] = {
        "inner": {
            "function": "onnx::Loop",
            "args": {"M": "i + 1", "v_initial": "x", "body": {"b": inner}},
        }
    }
    expected = sum(i * j for i in range(3) for j in range(i + 1))
    assert loop(3, None, 0, outer) == expected
    text = """
    outer (int64 i, bool go, int64 x) => (bool go, int64 x_out) {
        one = Constant<value = int64 {1}>()
        n = Add(i, one)
        x_out = Loop(n, , x) <body = inner (int64 j, bool go2, int64 y) => (bool go2, int64 y_out) {
            ij = Mul(i, j)
            y_out = Add(y, ij)
        }>
    }
    """
    assert loop(3, None, 0, proto(text)) == expected


# --- content, not identity --------------------------------------------------------------------


def test_a_changed_body_is_compiled_again() -> None:
    graph = graph_of(DOUBLING)
    assert loop(2, None, 3, graph) == 12
    graph.nodes[0].output_ports[1].value = "x + 1"
    assert loop(2, None, 3, graph) == 5
    # The call with other types compiles the body without the later change.
    assert loop(2, None, 3.5, DOUBLING) == 14.0
    assert loop(2, None, 3.5, graph) == 5.5


def test_bodies_with_equal_texts_but_different_content_are_compiled_separately() -> None:
    def adding(array: Any) -> Any:
        graph = graph_of(
            body("i, go, x", "go_out, x_out", go_out="i < 9", x_out="x + numpy.sum(w)")
        )
        from modeci_mdf.mdf import Parameter

        graph.nodes[0].parameters.append(Parameter(id="w", value=array))
        return graph

    large = np.zeros(3000)
    other = large.copy()
    other[1500] = 1
    assert loop(1, None, 0.0, adding(large)) == 0
    assert loop(1, None, 0.0, adding(other)) == 1
    assert loop(1, None, np.float32(0), adding(np.ones(2, np.float32))).dtype == np.float32
    with pytest.raises(CarryTypeError, match="float32"):
        loop(1, None, np.float32(0), adding(np.ones(2)))
    for value, dtype in ((1, "int64"), (1.0, "float64")):
        increment = body("i, go", "go_out, row", go_out="i < 9", row=f"i * {value}")
        increment["nodes"]["n"]["parameters"] = {"v": {"value": value}}
        increment["nodes"]["n"]["output_ports"]["row"] = {"value": "v"}
        assert loop(1, None, None, increment).dtype == dtype


def test_the_callers_graph_is_neither_referenced_nor_changed() -> None:
    graph = graph_of(DOUBLING, "freed")
    content_before = graph.to_dict()
    assert loop(2, None, 3, graph) == 12
    assert graph.to_dict() == content_before
    ref = weakref.ref(graph)
    del graph
    gc.collect()
    assert ref() is None


def test_equal_bodies_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Any] = []
    initialize = Session.__init__

    def counting(self: Session, *args: Any) -> None:
        sessions.append(args)
        initialize(self, *args)

    monkeypatch.setattr(Session, "__init__", counting)
    once = body("i, go, x", "go_out, x_out", go_out="i < 100", x_out="x + 7 * once")
    for k in range(50):
        assert loop(k, None, 1.0, copy.deepcopy(once), once=0.5) == 1 + 3.5 * k
    assert len(sessions) == 1


def test_from_several_threads() -> None:
    def run(k: int) -> list[float]:
        shaped = body("i, go, x", "go_out, x_out", go_out="i < 100", x_out=f"x + {k % 4}.5")
        return list(loop(2, None, np.zeros(k % 5 + 1), shaped))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(80)))
    assert results == [[2 * (k % 4) + 1.0] * (k % 5 + 1) for k in range(80)]


def test_the_cache_of_bodies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_call, "_cached_calls", cache := loop_call.LRUCache(3))
    for k in range(6):
        assert loop(1, None, 1, body("i, go, x", "go, y", go="i < 9", y=f"x + {k}")) == 1 + k
    assert len(cache) == 3


def test_keys_of_bodies_are_equal_for_equal_content() -> None:
    """Check equal content in different containers, and content that differs."""
    from mdf_loop.plugin.values import hashable_key

    equal = [{"a": [1, (2.0, None)]}, {"a": (1, [2.0, None])}]
    assert hashable_key(equal[0]) == hashable_key(equal[1])
    different = [1, 1.0, True, "1", None, [1], {"1": 1}, np.array(1), np.array(1.0), np.array([1])]
    different += [
        np.array([1], np.int32),
        np.array(["1"]),
        np.array([1, None], object),
        float("nan"),
    ]
    assert len({hashable_key(body) for body in different}) == len(different)
    assert hashable_key(graph_of(SAMPLE)) == hashable_key(graph_of(SAMPLE))
    assert hashable_key(graph_of(SAMPLE)) != hashable_key(graph_of(DOUBLING))


# --- errors -----------------------------------------------------------------------------------

X_IS_FLOAT = body("i, go, x", "go_out, x_out", go_out="i < 9", x_out="x / 2")
VECTOR = np.array([True, False])


@pytest.mark.parametrize(
    ("arguments", "outer", "error", "match"),
    [
        ((2, None, 3, None), {}, ModelError, "the loop has no body"),
        ((2, None, 3, 5), {}, ModelError, "a loop body is a graph, not int"),
        ((2, None, 3, "net"), {}, ModelError, "'net' is not a graph of the model"),
        ((2, None, 3, {}), {}, ModelError, "a graph is written as"),
        ((2, None, 3, {"net": {"nodes": 5}}), {}, ModelError, "has no nodes"),
        ((2, None, 3, object()), {}, ModelError, "object"),
        ((None, None, 3, DOUBLING), {}, EndlessLoopError, "neither a trip count"),
        ((-1, None, 3, DOUBLING), {}, EndlessLoopError, "neither a trip count"),
        ((2.5, None, 3, DOUBLING), {}, LoopError, "must be a whole number"),
        (([1, 2], None, 3, DOUBLING), {}, TripCountError, "must be one whole number"),
        ((True, None, 3, DOUBLING), {}, TripCountError, "must be one whole number, not bool"),
        (("a", None, 3, DOUBLING), {}, InputError, "'the trip count' must be a number"),
        ((2, VECTOR, 3, DOUBLING), {}, ConditionError, "must be one truth value"),
        ((2, None, (1, 2), DOUBLING), {}, ArityError, "has 2 initial values"),
        ((2, None, None, DOUBLING), {}, ArityError, "has 0 initial values"),
        ((2, None, (None,), DOUBLING), {}, LoopError, "initial value 0"),
        ((2, None, "text", DOUBLING), {}, InputError, "'initial value 0' must be a number"),
        ((2, None, [[1], [2, 3]], DOUBLING), {}, InputError, "'initial value 0' is ragged"),
        ((2, None, 1j, DOUBLING), {}, InputError, "not complex128"),
        ((2, None, np.array(3), X_IS_FLOAT), {}, CarryTypeError, "keep their dtype"),
        ((2, True, 6, SAMPLE), {}, LoopError, "unknown name 'a'"),
        ((2, True, 6, SAMPLE), {"a": "three"}, InputError, "'a' must be a number"),
        ((2, True, 6, SAMPLE), {"b_": 1}, LoopError, "unknown name 'a'"),
        ((2, True, 6, onnx.ModelProto()), {}, ModelError, "is a GraphProto, not ModelProto"),
    ],
)
def test_errors(arguments: Any, outer: Any, error: type[LoopError], match: str) -> None:
    with pytest.raises(error, match=match):
        loop(*arguments, **outer)


def test_an_integer_may_be_the_initial_value_of_a_float() -> None:
    """Check a Python int, which modeci_mdf's engine passes for a computed 2.0."""
    assert loop(2, None, 3, X_IS_FLOAT) == 0.75


def test_a_branch_in_the_body() -> None:
    text = """
    choice (int64 i, bool go, int64 x) => (bool go, int64 y) {
        first = Less(i, one)
        y = If(first) <
            then_branch = t () => (int64 p) { p = Add(x, one) },
            else_branch = e () => (int64 q) { q = Identity(x) }
        >
    }
    """
    assert loop(3, True, 5, proto(text), one=1) == 6


def test_loop_is_public() -> None:
    assert mdf_loop.loop is loop
    assert "ONNX Loop-13" in str(loop.__doc__)
