"""Tests of `fold`: nodes of a flat graph become one loop node."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import (
    ConditionError,
    CycleError,
    LoopError,
    ModelError,
    ScopeError,
    TripCountError,
    UnknownNameError,
    UnsupportedError,
)
from tests.folding.flat_graphs import body_of, graph, loop_of, node, run_to_lists

CHAIN = graph(
    {
        "start": node("x", y="x + 0.0"),
        "half": node("a", b="a / 2"),
        "more": node("b c", d="b + c", go="b + c > 1"),
        "out": node("d", e="10 * d"),
    },
    *("start.y -> half.a", "half.b -> more.b", "more.d -> out.d"),
)


def iterate_in_python(x: float, c: float) -> float:
    while True:
        x = x / 2 + c
        if not x > 1:
            return x


def test_fold_moves_nodes_into_the_body_of_a_loop_node() -> None:
    source = copy.deepcopy(CHAIN)
    model = mdf_loop.fold(
        CHAIN, ["more", "half"], {"more.d": "half.a"}, while_="more.go", exit="end", id="l"
    )
    assert source == CHAIN
    (flat,) = model.graphs
    assert [n.id for n in flat.nodes] == ["start", "l", "out"]
    loop = flat.nodes[1]
    assert [p.id for p in loop.input_ports] == ["a", "c"]
    assert [(p.id, p.value) for p in loop.output_ports] == [("d", "rounds")]
    args = loop_of(model, "l").args
    assert list(args["v_initial"]) == ["a"]
    assert args["cond"] is True
    assert "M" not in args
    assert "exit" not in args
    body = body_of(model, "l")
    assert list(body["nodes"]) == ["half", "more"]
    assert body["metadata"] == {"inputs": ["iteration", "go_on", "a"], "outputs": ["go", "d"]}
    ends = [(e.id, e.sender, e.sender_port, e.receiver, e.receiver_port) for e in flat.edges]
    assert ends == [
        ("start_y_to_half_a", "start", "y", "l", "a"),
        ("more_d_to_out_d", "l", "d", "out", "d"),
    ]
    assert run_to_lists(model, x=40.0, c=0.25)["e"] == 10 * iterate_in_python(40.0, 0.25)


@pytest.mark.parametrize("source", ["dict", "graph", "model", "file"])
def test_fold_accepts_dict_graph_model_and_file(source: str, tmp_path: Any) -> None:
    document = mdf_loop.fold(CHAIN, ["out"], trip_count=1)
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": CHAIN}}))
    from modeci_mdf.mdf import Graph

    sources = {"dict": CHAIN, "graph": Graph.from_dict(CHAIN), "file": path}
    sources["model"] = mdf_loop.fold(path, ["out"], trip_count=1, id="again")
    folded_model = mdf_loop.fold(sources[source], ["half"], {"b": "a"}, trip_count=3)
    assert [n.id for n in folded_model.graphs[0].nodes][:2] == ["start", "loop"]
    assert document.graphs[0].id == "flat"


def test_trip_count_is_a_port() -> None:
    nodes = {**CHAIN["flat"]["nodes"], "times": node("n", n="n")}
    flat = {"flat": {**CHAIN["flat"], "nodes": nodes}}
    model = mdf_loop.fold(flat, ["half"], {"b": "a"}, trip_count="times.n")
    assert run_to_lists(model, x=8.0, c=0.0, n=3)["e"] == 10.0
    assert run_to_lists(model, x=8.0, c=0.0, n=0)["e"] == 80.0


def test_input_receives_the_iteration_number() -> None:
    flat = graph({"sum": node("s i", t="s + i")})
    model = mdf_loop.fold(flat, ["sum"], {"t": "s"}, trip_count=5, iteration="i")
    assert run_to_lists(model, s=100)["t"] == 110
    assert [p.id for p in model.graphs[0].nodes[0].input_ports] == ["s"]


def test_ports_with_equal_ids_receive_different_values() -> None:
    flat = graph(
        {
            "start": node(one="1.0", two="2.0"),
            "A": node("x w", y="x * w"),
            "B": node("x w", y="x + w"),
            "out": node("a b", r="a - b"),
        },
        *("start.one -> A.x", "start.two -> B.x", "start.two -> A.w", "start.one -> B.w"),
        *("A.y -> out.a", "B.y -> out.b"),
    )
    model = mdf_loop.fold(flat, ["A", "B"], {"A.y": "A.x", "B.y": "B.x"}, trip_count=4)
    assert run_to_lists(model)["r"] == 2.0**4 - 6.0


def test_one_source_feeds_several_destinations() -> None:
    nodes = {"A": node("x", y="x + 1"), "B": node("x y", z="x * 2 + 0 * y")}
    flat = graph(nodes, "A.y -> B.y")
    both = mdf_loop.fold(flat, ["A", "B"], {"B.z": "x"}, trip_count=3)
    listed = mdf_loop.fold(flat, ["A", "B"], {"B.z": ["A.x", "B.x"]}, trip_count=3)
    assert run_to_lists(both, x=1)["z"] == 8
    assert [p.id for p in listed.graphs[0].nodes[0].input_ports] == ["A_x", "B_x"]
    assert run_to_lists(listed, A_x=1, B_x=1)["z"] == 8


def test_default_value_becomes_initial_value() -> None:
    flat = graph({"A": node("x", y="x * 2")})
    flat["flat"]["nodes"]["A"]["input_ports"]["x"] = {"default_value": 3.0}
    model = mdf_loop.fold(flat, ["A"], {"y": "x"}, trip_count=2)
    assert run_to_lists(model)["y"] == 12.0
    assert run_to_lists(model, x=1.0)["y"] == 4.0


def test_edge_weights_are_kept() -> None:
    flat = copy.deepcopy(CHAIN)
    for name, weight in (("start_y_to_half_a", 4), ("half_b_to_more_b", 3), ("more_d_to_out_d", 2)):
        flat["flat"]["edges"][name]["parameters"] = {"weight": weight}
    model = mdf_loop.fold(flat, ["half", "more"], {"more.d": "half.a"}, trip_count=2)
    x = 4 * 1.0
    for _ in range(2):
        x = 3 * (x / 2) + 0.5
    assert run_to_lists(model, x=1.0, c=0.5)["e"] == 10 * 2 * x


def test_second_fold_nests_the_first_loop() -> None:
    flat = graph(
        {"start": node(one="1.0"), "inner": node("x", y="x * 2"), "outer": node("y", z="y + 1")},
        *("start.one -> inner.x", "inner.y -> outer.y"),
    )
    inner = mdf_loop.fold(flat, ["inner"], {"y": "x"}, trip_count=3, id="doubling")
    both = mdf_loop.fold(inner, ["doubling", "outer"], {"z": "doubling.x"}, trip_count=2)
    assert [n.id for n in both.graphs[0].nodes] == ["start", "loop"]
    assert run_to_lists(both)["z"] == ((1.0 * 8) + 1) * 8 + 1


def test_declared_outputs_keep_their_names() -> None:
    flat = graph(
        {"A": node("x", y="x * 2")}, metadata={"outputs": {"result": "A.y"}, "note": "kept"}
    )
    model = mdf_loop.fold(flat, ["A"], {"y": "x"}, trip_count=2)
    assert model.graphs[0].metadata == {"outputs": {"result": "loop.y"}, "note": "kept"}
    assert mdf_loop.compile(model).run({"x": 1})["result"] == 4


STATEFUL = graph({"A": {"parameters": {"s": {"value": "s + 1", "default_initial_value": 0}}}})
CYCLE = graph(
    {"A": node("x", y="x"), "far": node("y", z="y"), "B": node("z", w="z")},
    *("A.y -> far.y", "far.z -> B.z"),
)
CONDITIONS = {
    "flat": {
        **CHAIN["flat"],
        "conditions": {"node_specific": {"half": {"type": "Always", "kwargs": {}}}},
    }
}


@pytest.mark.parametrize(
    ("flat", "arguments", "error", "sentence"),
    [
        (CHAIN, {"nodes": []}, ModelError, "no nodes are named"),
        (CHAIN, {"nodes": ["haf"]}, UnknownNameError, "the graph has no node 'haf'"),
        (CYCLE, {"nodes": ["A", "B"]}, CycleError, "enter it again: A -> far -> B"),
        (CHAIN, {"nodes": ["half"], "trip_count": None}, ModelError, "the loop would never end"),
        (CHAIN, {"nodes": ["half"], "trip_count": -2}, TripCountError, "whole number from 0"),
        (CHAIN, {"nodes": ["half"], "trip_count": True}, TripCountError, "not True"),
        (CHAIN, {"nodes": ["half"], "trip_count": "half.b"}, UnknownNameError, "trip count"),
        (CHAIN, {"nodes": ["half"], "exit": "start"}, ModelError, "exit is 'middle' or 'end'"),
        (CHAIN, {"nodes": ["half"], "id": "out"}, ModelError, "a node 'out' already"),
        (CHAIN, {"nodes": ["half"], "while_": "more.go"}, ConditionError, "is outside of the loop"),
        (
            CHAIN,
            {"nodes": ["half"], "while_": "half.no"},
            UnknownNameError,
            "'half.no' is not there",
        ),
        (CHAIN, {"nodes": ["half"], "carry": {"b": "q"}}, UnknownNameError, "destination 'q'"),
        (CHAIN, {"nodes": ["half"], "carry": {"q": "a"}}, UnknownNameError, "carried value 'q'"),
        (CHAIN, {"nodes": ["half"], "carry": {"more.d": "a"}}, ScopeError, "made outside"),
        (
            CHAIN,
            {"nodes": ["half", "more"], "carry": {"d": "more.b"}},
            ScopeError,
            "'more.b' is fed by an edge inside",
        ),
        (
            CHAIN,
            {"nodes": ["half", "more"], "carry": {"d": "a", "b": "half.a"}},
            (ModelError, ScopeError),
            "half.b|carried from 'd' and from",
        ),
        (CHAIN, {"nodes": ["half"], "iteration": "a"}, ModelError, "cannot be the iteration"),
        (STATEFUL, {"nodes": ["A"]}, UnsupportedError, "keeps a state"),
        (CONDITIONS, {"nodes": ["half"]}, UnsupportedError, "a condition of the graph names"),
    ],
)
def test_invalid_requests_are_refused(flat: Any, arguments: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence) as caught:
        mdf_loop.fold(flat, **{"trip_count": 2, **arguments})
    assert isinstance(caught.value, LoopError)
    assert caught.value.findings[0].where


def test_carried_value_with_two_initial_values_is_refused() -> None:
    flat = graph(
        {
            "start": node(a="1", b="2"),
            "A": node("x", y="x + 1"),
            "B": node("x", z="x + 1"),
        },
        *("start.a -> A.x", "start.b -> B.x"),
    )
    with pytest.raises(ScopeError, match="two initial values"):
        mdf_loop.fold(flat, ["A", "B"], {"A.y": "x"}, trip_count=2)
