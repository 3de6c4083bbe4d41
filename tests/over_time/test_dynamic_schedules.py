"""Schedules that are decided at run time, and loops in and around nodes with conditions.

Each row runs twice: with the default planning, and without an execution order planned at compile
time.
"""

from __future__ import annotations

import copy
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.over_time.schedules import (
    PASSES_3,
    Model,
    by_engine,
    compare,
    condition,
    conditioned,
    counter,
    decide_while_running,
    decides_while_running,
    edge,
    model,
    opened,
    short_patience,
)
from tests.soak import some


@pytest.fixture(params=["as it is", "decided while running"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "decided while running":
        decide_while_running(monkeypatch)
    return str(request.param)


ABOVE_3 = condition("Threshold", dependency="A", parameter="c", threshold=3, comparator=">")
TWICE = condition("Threshold", dependency="A", parameter="c", threshold=2, comparator=">=")
ALWAYS = condition("Always")
ONE_PASS = condition("AfterNPasses", n=1)


# --- how long a schedule is -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("passes", "unrolled"), [(10, True), (100, False)])
def test_long_schedules_are_loops(passes: int, unrolled: bool) -> None:
    source = model("chain", None, condition("AfterNPasses", n=passes))
    assert compare(source, 4) == "equal"
    assert decides_while_running(source, [], None) is not unrolled


def test_waiting_for_a_far_pass(way: str) -> None:
    assert compare(model("one", {"A": condition("AtPass", n=150)}), 3) == "equal"


# --- nodes that have not run ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "governed",
    [
        {"B": ABOVE_3},
        {"B": condition("AtEnvironmentStateUpdate", n=3), "C": condition("AfterPass", n=0)},
        {"C": condition("AfterNCalls", dependency="A", n=5, time_scale="TimeScale.LIFE")},
    ],
)
def test_rows_before_a_node_has_run_are_nan(governed: Model, way: str) -> None:
    source = model("chain", governed, ONE_PASS)
    assert compare(source, 8) == "equal"
    results = mdf_loop.compile(copy.deepcopy(source)).run(steps=8, record=["C.a", "C.n"])
    assert results["C.a"].dtype == results["C.n"].dtype == np.float64
    assert np.isnan(results["C.n"][0])


@pytest.mark.slow
def test_kinds_of_numbers(way: str) -> None:
    """Check that integers stay integers and that a value over a conditional edge has a common type."""
    source = model("circle", None, PASSES_3)
    results = mdf_loop.compile(copy.deepcopy(source)).run(steps=3, record=["A.a", "B.f", "C.n"])
    assert {array.dtype for array in results.values()} == {np.dtype(np.int64)}
    widened = model("circle", None, PASSES_3)
    widened["g"]["nodes"]["C"]["parameters"]["c"]["value"] = "c + 0.5"
    assert compare(widened, 5) == "equal"


def test_types_widen_through_long_cycles(way: str) -> None:
    """Check that a float at one node of a long cycle converts all later values to floats."""
    ids = "ABCDEFGHIJKL"
    nodes: Model = {
        i: {
            "input_ports": {"x": {"default_value": 1}},
            "parameters": {"v": {"value": "x + 1"}},
            "output_ports": {"o": {"value": "v"}},
        }
        for i in ids[:-1]
    }
    nodes["L"] = {
        "parameters": {"v": {"default_initial_value": 0, "value": "v + 0.5"}},
        "output_ports": {"o": {"value": "v"}},
    }
    edges = {f"{r}{s}": edge(s, r, "x") for r, s in pairwise(ids)}
    assert compare({"g": {"nodes": nodes, "edges": edges}}, 15) == "equal"


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("governed", [{}, {"C": condition("AfterPass", n=0)}])
def test_an_edge_to_itself(order: str, governed: Model, way: str) -> None:
    """Check that the edge delivers nothing before the node has run, like other edges."""
    own, other = {"cc": edge("C", "C", "b")}, {"ac": edge("A", "C", "b", "n")}
    edges = own | other if order == "first" else other | own
    graph = {"nodes": {"A": counter(), "C": counter((), ["b"])}, "edges": edges}
    assert compare(conditioned(graph, governed, PASSES_3), 8) == "equal"


# --- time, one evaluation, going on ---------------------------------------------------------------


def _growing(termination: Model, **governed: Model) -> Model:
    nodes = {
        "A": counter(),
        "D": {
            "input_ports": {"x": {}},
            "parameters": {"v": {"default_initial_value": 0.5, "time_derivative": "x - v"}},
            "output_ports": {"o": {"value": "v"}},
        },
    }
    return conditioned({"nodes": nodes, "edges": {"e": edge("A", "D", "x")}}, governed, termination)


@pytest.mark.parametrize("governed", [{}, {"D": TWICE}, {"A": condition("AtPass", n=1)}])
def test_every_execution_takes_dt(governed: Model, way: str) -> None:
    assert compare(_growing(PASSES_3, **governed), 12, 0.125) == "equal"


def test_a_derivative_that_first_runs_later(way: str) -> None:
    """Check a derivative that first runs later: it adds to the initial value, where the engine fails."""
    source = _growing(PASSES_3, D=ABOVE_3)
    assert compare(source, 6, 0.125) == "engine fails"
    results = mdf_loop.compile(copy.deepcopy(source)).run(steps=2, dt=0.125, record=["A.a"])
    assert np.isnan(results["D.o"][0])


@pytest.mark.parametrize("termination", [PASSES_3, condition("AfterNPasses", n=100)])
def test_one_evaluation(termination: Model, way: str) -> None:
    source = model("circle", {"B": condition("AfterCall", dependency="A", n=1)}, termination)
    results = mdf_loop.compile(copy.deepcopy(source)).run(record=["A.a", "B.a", "C.a"])
    theirs = by_engine(source, 1).arrays
    assert {name: float(results[name]) for name in ("A.a", "B.a", "C.a")} == {
        name: float(theirs[name][0]) for name in ("A.a", "B.a", "C.a")
    }


GOES_ON = [
    model(
        "chain", {"B": condition("AfterNCalls", dependency="A", n=4, time_scale="TimeScale.LIFE")}
    ),
    model("no edges", {"B": condition("NWhen", condition=condition("AtPass", n=1), n=6)}, PASSES_3),
    model("chain", {"B": condition("AfterNPasses", n=2)}, condition("AfterNPasses", n=5)),
    model("no edges", {"B": condition("TimeInterval", repeat=3)}, PASSES_3),
    model(
        "chain",
        {"B": condition("AtEnvironmentStateUpdate", n=7), "C": condition("Always")},
        PASSES_3,
    ),
    _growing(PASSES_3, D=ABOVE_3),
]


@pytest.mark.slow
@pytest.mark.parametrize("source", GOES_ON)
def test_a_continued_run_equals_the_unbroken_run(source: Model, way: str) -> None:
    record = sorted(by_engine(source, 1, 0.125).arrays)
    compiled = mdf_loop.compile(copy.deepcopy(source))
    unbroken_run = compiled.run(steps=12, dt=0.125, record=record)
    first = compiled.run(steps=5, dt=0.125, record=record)
    second_part = compiled.run(steps=7, dt=0.125, record=record, state=first.state)
    for name in record:
        joined = np.concatenate([first[name], second_part[name]])
        np.testing.assert_array_equal(joined, unbroken_run[name])
    assert {n: a.tolist() for n, a in second_part.state.items()} == {
        n: a.tolist() for n, a in unbroken_run.state.items()
    }


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("source", "every"), some(product(GOES_ON, [2, 5]), 2))
def test_every(source: Model, every: int, way: str) -> None:
    record = sorted(by_engine(source, 1, 0.125).arrays)
    compiled = mdf_loop.compile(copy.deepcopy(source))
    unbroken_run = compiled.run(steps=12, dt=0.125, record=record, execution_list=True)
    thin = compiled.run(steps=12, dt=0.125, record=record, every=every, execution_list=True)
    for name in record:
        np.testing.assert_array_equal(thin[name], unbroken_run[name][::every])
    assert thin.execution_list == unbroken_run.execution_list


# --- loops in nodes with conditions ---------------------------------------------------------------


def _loop(body: Model, trip_count: str = "m") -> Model:
    return {
        "function": "onnx::Loop",
        "args": {"M": trip_count, "v_initial": "(start,)", "body": {"b": body}},
    }


def _body(conditions: Model | None = None) -> Model:
    """Return a body x -> x + i + 1 in two nodes; conditions govern the second."""
    body: Model = {
        "metadata": {"inputs": ["i", "go_in", "x_in"], "outputs": ["go", "x_out"]},
        "nodes": {
            "P": {
                "input_ports": {"i": {}, "x_in": {}},
                "parameters": {"y": {"value": "x_in + i"}, "g": {"value": "y < 100"}},
                "output_ports": {"y": {"value": "y"}, "go": {"value": "g"}},
            },
            "Q": {
                "input_ports": {"y": {}},
                "parameters": {"z": {"value": "y + 1"}},
                "output_ports": {"x_out": {"value": "z"}},
            },
        },
        "edges": {"e": edge("P", "Q", "y", "y")},
    }
    return body | ({"conditions": conditions} if conditions else {})


def _with_loop(conditions: Model | None = None, **governed: Model) -> Model:
    nodes = {
        "A": counter(),
        "L": {
            "input_ports": {"x": {}},
            "functions": {"loop": _loop(_body(conditions))},
            "parameters": {"m": {"value": 3}, "start": {"value": "x"}},
            "output_ports": {"o": {"value": "loop"}},
        },
        "C": counter(["x"]),
    }
    edges = {"al": edge("A", "L", "x", "n"), "lc": edge("L", "C", "x")}
    return conditioned({"nodes": nodes, "edges": edges}, governed, PASSES_3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "governed",
    [
        {},
        {"L": condition("EveryNCalls", dependency="A", n=2)},
        {"L": condition("AtEnvironmentStateUpdate", n=2), "C": condition("Always")},
        {"L": ABOVE_3},
        {"C": condition("Threshold", dependency="L", parameter="o", threshold=9, comparator=">")},
    ],
)
def test_loop_nodes_with_conditions(governed: Model, way: str) -> None:
    assert compare(_with_loop(**governed), 8) == "equal"


IN_BODY: list[tuple[Model, bool]] = [
    ({"termination": {"environment_state_update": PASSES_3}}, False),
    ({"node_specific": {"Q": condition("EveryNCalls", dependency="P", n=2)}}, False),
    ({"node_specific": {"P": condition("AfterPass", n=2)}}, False),
    (
        {
            "node_specific": {
                "Q": condition(
                    "Threshold", dependency="P", parameter="y", threshold=0, comparator=">="
                )
            }
        },
        True,
    ),
    ({"termination": {"environment_state_update": condition("AfterNPasses", n=90)}}, True),
]


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("conditions", "dynamic"), some(IN_BODY, 2))
def test_conditions_inside_a_body(conditions: Model, dynamic: bool, way: str) -> None:
    """Check that the conditions of a body count from zero in every iteration."""
    assert compare(_with_loop(conditions), 6) == "equal"
    assert compare(_with_loop(conditions, L=ABOVE_3), 6) == "equal"


@pytest.mark.parametrize("far", [False, True])
def test_values_of_conditions_inside_a_body(far: bool, way: str) -> None:
    """Check that Q takes its default in the first pass and P's value in the second."""
    passes = 90 if far else 2
    body = _body(
        {
            "node_specific": {"P": condition("AfterPass", n=passes - 2), "Q": ALWAYS},
            "termination": {"environment_state_update": condition("AfterNPasses", n=passes)},
        }
    )
    body["nodes"]["Q"]["input_ports"]["y"] = {"default_value": 100}
    node = {
        "functions": {"loop": _loop(body)},
        "parameters": {"m": {"value": 3}, "start": {"value": 5}},
        "output_ports": {"o": {"value": "loop"}},
    }
    assert mdf_loop.compile({"g": {"nodes": {"L": node}}}).run()["L.o"] == 5 + 0 + 1 + 2 + 3
    body["conditions"]["node_specific"]["Q"] = condition("AtPass", n=0)
    assert mdf_loop.compile({"g": {"nodes": {"L": node}}}).run()["L.o"] == 101


def test_a_body_in_which_nothing_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    short_patience(monkeypatch)
    source = _with_loop({"node_specific": {"P": condition("Never")}})
    with pytest.raises(LoopError, match="no node can run any more") as caught:
        mdf_loop.compile(source).run(steps=2)
    assert ".body" in str(caught.value) or "body" in caught.value.findings[0].where


@pytest.mark.slow
def test_the_order_of_each_step_is_reported(way: str) -> None:
    source = model("chain", {"B": ABOVE_3}, PASSES_3)
    results = mdf_loop.compile(copy.deepcopy(source)).run(steps=5, execution_list=True)
    assert results.execution_list == by_engine(source, 5).execution_list
    unrecorded_run = mdf_loop.compile(copy.deepcopy(source)).run(steps=5)
    np.testing.assert_array_equal(unrecorded_run["C.o"], results["C.o"])


def test_a_model_is_not_changed_by_reading() -> None:
    source = model("chain", {"B": condition("Not", condition=ABOVE_3)}, PASSES_3)
    as_written: Any = copy.deepcopy(source)
    opened(source)
    mdf_loop.compile(copy.deepcopy(source)).run(steps=2)
    assert source == as_written
